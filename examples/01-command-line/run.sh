#!/usr/bin/env bash
# The study of experiment.toml, command by command. Usage: run.sh FOLDER; MAC names the program (default: mac).
set -euo pipefail
mac=$(realpath "$(command -v "${MAC:-mac}")")
experiment=$(cd "$(dirname "$0")" && pwd)/experiment.toml
mkdir -p "$1" && cd "$1"

"$mac" generate "$experiment" -o data.h5                                  # simulate the full model
"$mac" train "$experiment" --data data.h5 -o mac.safetensors --threads 1  # learn the closure; it is small, one thread does
"$mac" rollout mac.safetensors --data data.h5 -o mac.h5                   # the reduced model with the closure,
"$mac" rollout markov --data data.h5 -o markov.h5                         # without it,
"$mac" rollout exact --hold linear --data data.h5 -o exact.h5             # and with the true one: the floor
"$mac" evaluate mac.h5 markov.h5 exact.h5 --json metrics.json             # how good is it?
"$mac" info mac.safetensors                                               # what is this file?
"$mac" export mac.safetensors -o step.onnx                                # the network for another runtime
