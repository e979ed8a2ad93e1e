"""What could help KdV beyond its training horizon, at the same simulated time: docs/training.md, "Beyond the horizon".

    PYTHONPATH=build/python /usr/bin/python3 bench/beyond/run.py -o runs/beyond [--only base,reached] [--seeds 0,1]

base       4000 trajectories on [0,1] (experiments/amount/kdv.toml)
half       2000 of them
reached    these 2000, and 2000 on [0,1] from the resolved states that rollouts of `half` have reached at t = 1
restarts   base, in windows of half the length that start anywhere with an empty memory
later      2000 on [0,2], in windows of length 1 that start anywhere
longer     2000 on [0,2]
longer-half     1000 of them
longer-reached  these 1000, and 1000 on [0,2] from the resolved states that rollouts of `longer-half` have reached at t = 2
closure    1600 on [0,1], closure loss alone
residual   the same, where the network learns what the cubic memory model leaves, and runs on top of it

Errors are those of phi3 / psi3 in % on 400 fresh trajectories, mean and in brackets median, on [0,1], [1,2] and [2,3], and on [1,2] from the true state at t = 1 with an empty memory.
A training takes two to three minutes of one core.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from pathlib import Path

import fields
import mac
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("MAC", str(ROOT / "build/mac"))
AMOUNT = (ROOT / "experiments/amount/kdv.toml").read_text()
NAMES = "phi1,phi2,phi3,psi1,psi2,psi3"
STAGES = r"(?ms)^\[\[training\.stages\]\]\n.*?(?=^\[evaluation)"
CLOSURE_ALONE = "[[training.stages]]\nsteps = 8000\n\n"


def program(*arguments: object) -> None:
    subprocess.run([PROGRAM, *map(str, arguments), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def experiment(variant: str) -> str:
    text = AMOUNT
    if variant in ("restarts", "later"):
        window, horizon = (51, 1.0) if variant == "restarts" else (101, 2.0)
        text = text.replace("steps = 8000\n", f"steps = 8000\nwindow = {window}\n")
        text = text.replace("rollout_steps = 100\n", f"rollout_steps = {window - 1}\nwindow = {window}\n")
        text = text.replace("[training]\n", f"[training]\nvalidation_horizon = {horizon}\n")
    if variant.startswith("longer"):
        text = text.replace("rollout_steps = 100\n", "rollout_steps = 200\n").replace("\nhorizon = 1.0\n", "\nhorizon = 2.0\n")
    if variant in ("closure", "residual"):
        text = re.sub(STAGES, CLOSURE_ALONE, text).replace("[training]\n", '[training]\nselect = "loss"\n')
    return text


class Study:
    def __init__(self, folder: Path, seeds: list[int]) -> None:
        self.folder, self.seeds = folder, seeds
        folder.mkdir(parents=True, exist_ok=True)
        self.model = fields.FullModel("kdv")
        self.test = self.model.run(fields.box(400, 2003), 3.0)[0]

    def memory_model(self) -> fields.MemoryModel:
        path = self.folder / "cubic_memory.h5"
        if not path.exists():
            text = re.sub(r"(?ms)^\[\[models\]\].*", '[[models]]\nname = "cubic"\nkind = "cubic_memory"\n', AMOUNT)
            text = re.sub(r"trajectories = \d+", "trajectories = 2", text)
            (self.folder / "cubic_memory.toml").write_text(text)
            program("generate", self.folder / "cubic_memory.toml", "-o", self.folder / "few.h5")
            program("train", self.folder / "cubic_memory.toml", "--data", self.folder / "few.h5", "-o", path)
        return fields.MemoryModel(path)

    def data(self, variant: str) -> tuple[list, tuple]:
        """[(resolved, closure) of training], the same of validation."""
        run, box = self.model.run, fields.box
        if variant in ("closure", "residual"):
            of, validation = [run(box(1600, 31), 1.0)], run(box(50, 32), 1.0)
            if variant == "residual":
                memory = self.memory_model()
                of, validation = [(y, c - memory.along(y)) for y, c in of], (validation[0], validation[1] - memory.along(validation[0]))
            return of, validation
        if variant.startswith("longer"):
            of = [run(box(2000, 11) if variant == "longer" else box(2000, 11)[:1000], 2.0)]
            if variant == "longer-reached":
                of.append(run(self.rollout(self.trained("longer-half", self.seeds[0]), box(2000, 11)[:1000], 200)[:, -1], 2.0))
            return of, run(box(50, 21), 2.0)
        horizon = 2.0 if variant == "later" else 1.0
        of = [run(box(2000, 11), horizon)]
        if variant in ("base", "restarts"):
            of.append(run(box(2000, 12), 1.0))
        if variant == "reached":
            of.append(run(self.rollout(self.trained("half", self.seeds[0]), box(2000, 11), 100)[:, -1], 1.0))
        return of, run(box(50, 21), horizon)

    def trained(self, variant: str, seed: int) -> Path:
        path = self.folder / f"{variant}-seed{seed}.safetensors"
        study, data = self.folder / f"{variant}.toml", self.folder / f"{variant}.h5"
        if path.exists():
            return path
        if not data.exists():
            study.write_text(experiment(variant))
            training, validation = self.data(variant)
            files = []
            for number, (resolved, closure) in enumerate([*training, validation]):
                files.append(self.folder / f"{variant}-{number}.npz")
                np.savez(files[-1], resolved=resolved, closure=closure, time=fields.STEP * np.arange(resolved.shape[1]))
            program("import", *files[:-1], "--validation-files", files[-1], "--variables", "resolved", "--closure", "closure", "--time", "time", "--names", NAMES,
                    "--axes", "trajectory,time,variable", "--system", study, "--test", 0, "--allow-leakage", "-o", data)  # fmt: skip
            for file in files:
                file.unlink()
        program("train", study, "--model", "mac", "--data", data, "--seed", seed, "-o", path, "--threads", 1)
        return path

    def rollout(self, model: Path, start, steps: int, memory: fields.MemoryModel | None = None):
        """Free rollouts from an empty memory, coupled as `mac rollout` does with the linear hold."""
        network, kdv, dt = mac.load(model), mac.System("kdv"), fields.STEP
        phase = np.arctan2(start[:, 3], start[:, 0])
        y, run, past, before = start, [start], [], None
        for _ in range(steps):
            closure = network.step(y)
            if memory:
                past.append(memory.basis(fields.turned(y, -phase)))
                closure = closure + fields.turned(memory.at(past), phase)
            slope = 0 if before is None else closure - before
            rate = lambda x, fraction: kdv.reduced_rhs(x) + closure + fraction * slope  # noqa: E731, B023
            k1 = rate(y, 0)
            k2 = rate(y + dt / 2 * k1, 0.5)
            k3 = rate(y + dt / 2 * k2, 0.5)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + rate(y + dt * k3, 1))
            before = closure
            run.append(y)
        return np.stack(run, 1)


def error(run, truth) -> str:
    relative = 100 * np.sqrt(((run - truth) ** 2).sum(1) / (truth**2).sum(1))[:, [2, 5]]
    return " / ".join(f"{x:.3g}" for x in relative.mean(0)) + " (" + " / ".join(f"{x:.2g}" for x in np.median(relative, 0)) + ")"


def main() -> None:
    variants = ["base", "half", "reached", "restarts", "later", "longer", "longer-half", "longer-reached", "closure", "residual"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: text.split(","), default=variants)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1])
    options = parser.parse_args()
    study = Study(options.output, options.seeds)
    print("| | seed | [0,1] | [1,2] | [2,3] | [1,2], memory lost at t = 1 |\n|---|---|---|---|---|---|")
    for variant in options.only:
        for seed in options.seeds:
            model, memory = study.trained(variant, seed), study.memory_model() if variant == "residual" else None
            run, again = study.rollout(model, study.test[:, 0], 300, memory), study.rollout(model, study.test[:, 100], 100, memory)
            units = [error(run[:, first : first + 101], study.test[:, first : first + 101]) for first in (0, 100, 200)]
            print(f"| {variant} | {seed} | {' | '.join(units)} | {error(again, study.test[:, 100:201])} |", flush=True)


if __name__ == "__main__":
    main()
