"""Losses that do not differentiate through the solver: do they train as well?

    PYTHONPATH=build/python python3 bench/untuned/gradients.py [--seeds 0,1,2] [--problems duffing,lotka_volterra]

For each problem and seed a closure is trained along true trajectories, then goes on with free rollouts over all of the
training window, with each rollout_gradient; and rollouts alone start from random weights. Errors as in run.py.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import mac
from problems import PROBLEMS, Problem
from run import error, roll_out

GRADIENTS = ["full", "identity", "network"]


def train(problem: Problem, path: Path, seed: int, stage: dict[str, Any], **further: Any) -> tuple[str, float]:
    begin = time.process_time()
    training = {"recipe": "fast", "select": "rollout", "target": "mean", "hold": "linear", "stages": [stage], **further}
    closure = mac.fit(
        path, problem.train, problem.train_closure, problem.dt, rhs=problem.rhs, names=problem.names, targets=problem.targets,
        validation=(problem.validation, problem.validation_closure), kind="gru", d_model=16, training=training, seed=seed, threads=1,
    )  # fmt: skip
    run = roll_out(problem, closure)
    return f"{error(problem, run, 1):.3g} / {error(problem, run, 5):.3g}", time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="duffing,lotka_volterra", help="names, with commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=4000, help="along true trajectories; rollouts take an eighth")
    arguments = parser.parse_args()
    print("| problem | seed | closure loss | then " + " | then ".join(GRADIENTS) + " | alone " + " | alone ".join(GRADIENTS) + " | seconds |")
    print("|" + "---|" * (4 + 2 * len(GRADIENTS)))
    for name in arguments.problems.split(","):
        problem = PROBLEMS[name]()
        whole = problem.train.shape[1] - 1
        for seed in map(int, arguments.seeds.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                first = Path(folder) / "closure.safetensors"
                runs = [train(problem, first, seed, {"loss": "closure", "noise": 0.03, "steps": arguments.steps})]
                rollout = {"loss": "rollout", "rollout_form": "autoregressive", "rollout_steps": whole, "noise": 0.0}
                rollout |= {"steps": arguments.steps // 8}
                for gradient in GRADIENTS:
                    stage = {**rollout, "rollout_gradient": gradient, "max_lr": 3e-4}
                    runs.append(train(problem, Path(folder) / f"then-{gradient}.safetensors", seed, stage, init=str(first)))
                for gradient in GRADIENTS:
                    stage = {**rollout, "rollout_gradient": gradient, "max_lr": 3e-3, "steps": arguments.steps // 4}
                    runs.append(train(problem, Path(folder) / f"alone-{gradient}.safetensors", seed, stage))
            errors, seconds = [run[0] for run in runs], " ".join(f"{run[1]:.0f}" for run in runs)
            print(f"| {problem.name} | {seed} | {' | '.join(errors)} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
