"""Losses that do not differentiate through the solver: do they train as well?

    PYTHONPATH=build/python python3 bench/untuned/gradients.py [--seeds 0,1,2] [--problems duffing,lotka_volterra]

For each problem and seed a closure is trained along true trajectories, then goes on with free rollouts from the start of the
data, of several lengths in steps, with each rollout_gradient. Errors as in run.py.
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
LENGTHS = [10, 30, 100]


def train(problem: Problem, path: Path, seed: int, stage: dict[str, Any], **further: Any) -> tuple[str, float]:
    begin = time.process_time()
    training = {"recipe": "fast", "select": "rollout", "target": "mean", "hold": "linear", "stages": [stage]}
    training |= {"validation_horizon": problem.window, **further}
    try:
        closure = mac.fit(
            path, problem.train, problem.train_closure, problem.dt, rhs=problem.rhs, names=problem.names,
            targets=problem.targets, validation=(problem.validation, problem.validation_closure), kind="gru", d_model=16,
            training=training, seed=seed, threads=1,
        )  # fmt: skip
    except mac.Error:  # the loss exploded
        return "failed", time.process_time() - begin
    run = roll_out(problem, closure)
    return f"{error(problem, run, 1):.3g} / {error(problem, run, 5):.3g}", time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="duffing,lotka_volterra", help="names, with commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=4000, help="along true trajectories; rollouts take an eighth")
    arguments = parser.parse_args()
    print(f"| problem | seed | closure loss | steps of rollouts | {' | '.join(GRADIENTS)} | seconds |")
    print("|" + "---|" * (5 + len(GRADIENTS)))
    for name in arguments.problems.split(","):
        problem = PROBLEMS[name]()
        for seed in map(int, arguments.seeds.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                first = Path(folder) / "closure.safetensors"
                closure = train(problem, first, seed, {"loss": "closure", "noise": 0.03, "steps": arguments.steps})
                for length in LENGTHS:
                    runs = [closure]
                    for gradient in GRADIENTS:
                        stage = {
                            "loss": "rollout", "rollout_form": "autoregressive", "rollout_gradient": gradient, "noise": 0.0,
                            "rollout_steps": length, "horizon": length * problem.dt, "steps": arguments.steps // 8, "max_lr": 3e-4,
                        }  # fmt: skip
                        path = Path(folder) / f"{gradient}-{length}.safetensors"
                        runs.append(train(problem, path, seed, stage, init=str(first)))
                    errors, seconds = [run[0] for run in runs], " ".join(f"{run[1]:.0f}" for run in runs)
                    print(f"| {problem.name} | {seed} | {errors[0]} | {length} | {' | '.join(errors[1:])} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
