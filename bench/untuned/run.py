"""recipe = "auto" on problems that nobody tuned: one table.

    PYTHONPATH=build/python python3 bench/untuned/run.py [--problems pendulum,duffing] [--kinds auto,mamba] [--steps 4000]

Errors are means over test trajectories and variables of the relative L2 error, in per cent, on one training window and
on five. Other kinds are trained once with the noise, learning rate, width and window that auto found, if it comes before
them; the kind that it chose is not trained again, and has its errors in brackets.
A trajectory that is lost counts 1000 %. Times are those of the processor: a busy machine does not change them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import mac
from mac.data import split_arrays
from problems import LATER, PROBLEMS, Problem

LOST = 10.0


def history_steps(problem: Problem) -> int:
    return round(problem.history / problem.dt)


def roll_out(problem: Problem, closure: mac.Closure | None) -> np.ndarray:
    """Free runs over the test data, from the end of the history on."""
    past, steps = history_steps(problem), problem.test.shape[1] - 1
    if closure is not None:
        closure.reset()
        if past:
            closure.sequence(problem.test[:, :past])
    times = problem.dt * np.arange(steps - past + 1)
    with np.errstate(all="ignore"):
        return mac.rollout(
            problem.rhs, problem.test[:, past], times, closure, dt=problem.dt, continued=closure is not None and past > 0
        ).resolved


def roll_out_exact(problem: Problem, target: str) -> np.ndarray:
    """The true closure of the data as a network with this target is coupled: along the line through its last two values, or
    means over a step."""
    past, dt = history_steps(problem), problem.dt
    pivot = 0.5 if target == "mean" else 0.0  # where the line has the value
    c = split_arrays("test", problem.test, problem.test_closure)["closure_mean"] if target == "mean" else problem.test_closure
    y = problem.test[:, past]
    saved = [y]
    with np.errstate(all="ignore"):
        for n in range(past, problem.test.shape[1] - 1):
            slope = c[:, n] - c[:, n - 1] if n > 0 else np.zeros_like(c[:, 0])

            def rate(state: np.ndarray, fraction: float) -> np.ndarray:
                forced = problem.rhs(0.0, state).copy()
                forced[:, problem.targets] += c[:, n] + (fraction - pivot) * slope
                return forced

            k1 = rate(y, 0)
            k2 = rate(y + dt / 2 * k1, 0.5)
            k3 = rate(y + dt / 2 * k2, 0.5)
            k4 = rate(y + dt * k3, 1)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            saved.append(y)
    return np.stack(saved, axis=1)


def error(problem: Problem, run: np.ndarray, windows: float) -> float:
    past, last = history_steps(problem), round(windows * problem.window / problem.dt)
    truth, run = problem.test[:, past : past + last + 1], run[:, : last + 1]
    with np.errstate(all="ignore"):
        errors = np.sqrt(np.sum((run - truth) ** 2, axis=1) / np.sum(truth**2, axis=1))
    return float(100 * np.mean(np.where(errors < LOST, errors, LOST)))


def chosen(closure: mac.Closure) -> str:
    search = json.loads(closure.metadata("search") or "{}")
    if not search:
        return "?"
    trial = search["trials"][search["chosen"]]
    window = f", window {trial['window']}" if trial["window"] else ""
    rollouts = f", {trial['rollouts_said']}" if trial["rollouts"] else ""
    return f"{trial['kind']}, noise {trial['noise']:.3g}, max_lr {trial['max_lr']:.2g}, width {trial['d_model']}, {trial['steps']} steps{window}{rollouts}"


def as_found(closure: mac.Closure) -> dict[str, Any]:
    """What the search chose, but for the kind: arguments of mac.fit for networks of other kinds."""
    search = json.loads(closure.metadata("search"))
    trial = search["trials"][search["chosen"]]
    return {"d_model": trial["d_model"], "training": {key: trial[key] for key in ("noise", "max_lr", "window")}}


def fit(
    problem: Problem, kind: str, folder: Path, arguments: argparse.Namespace, found: dict[str, Any]
) -> tuple[mac.Closure, float, str]:
    begin = time.process_time()
    computed = arguments.compute or not problem.closures
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        closure = mac.fit(
            folder / f"{problem.name.replace(' ', '-')}-{kind}.safetensors",
            problem.train,
            None if computed else problem.train_closure,
            problem.dt,
            rhs=problem.rhs if problem.equations and not arguments.no_rhs else None,
            validation=problem.validation if computed else (problem.validation, problem.validation_closure),
            names=problem.names,
            targets=problem.targets,
            history=problem.history,
            kind=None if kind == "auto" else kind,
            steps=arguments.steps,
            budget=arguments.budget,
            threads=arguments.threads,
            quiet=not arguments.verbose,
            **found,
        )
    said = [str(w.message) for w in caught if issubclass(w.category, mac.ClosureWarning)]
    return closure, time.process_time() - begin, said[0] if said else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="names, with commas")
    parser.add_argument("--kinds", default="auto,mamba,gru,mlp", help="networks, with commas; auto: what mac.fit chooses")
    parser.add_argument("--steps", type=int, default=None, help="of a whole training; default: by the number of sequences")
    parser.add_argument("--budget", default=None, help='for each network, as in "10min"')
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--no-rhs", action="store_true", help="keep the reduced equations from mac.fit")
    parser.add_argument("--compute", action="store_true", help="let mac.fit compute the closure by differences")
    parser.add_argument("--folder", default=None, help="for the models; default: a temporary one")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"| problem | none 1x / 5x | {' | '.join(f'{kind} 1x / 5x' for kind in kinds)} | exact 1x / 5x | time | chosen |")
        print("|" + "---|" * (len(kinds) + 5))
        for name in arguments.problems.split(","):
            problem = {**PROBLEMS, **LATER}[name]()
            cells, times, choices, notes = [], [], [], []
            found: dict[str, Any] = {}
            found_kind = ""
            for run in [roll_out(problem, None)]:
                cells.append(f"{error(problem, run, 1):.3g} / {error(problem, run, 5):.3g}")
            for kind in kinds:
                if kind == found_kind:
                    cells.append(f"({cells[1 + kinds.index('auto')]})")
                    continue
                closure, seconds, warning = fit(problem, kind, folder, arguments, found)
                if kind == "auto":
                    found, found_kind = as_found(closure), closure.kind
                run = roll_out(problem, closure)
                cells.append(f"{error(problem, run, 1):.3g} / {error(problem, run, 5):.3g}")
                times.append(f"{seconds:.0f} s")
                choices.append(f"{kind}: {chosen(closure)}")
                if warning:
                    notes.append(f"{kind}: {warning}")
            exact = roll_out_exact(problem, closure.target)
            cells.append(f"{error(problem, exact, 1):.3g} / {error(problem, exact, 5):.3g}")
            print(f"| {problem.name} ({problem.seen}) | {' | '.join(cells)} | {' '.join(times)} | {'; '.join(choices)} |", flush=True)
            for note in notes:
                print(f"  warning: {note}", flush=True)


if __name__ == "__main__":
    main()
