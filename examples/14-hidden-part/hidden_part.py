"""A closure for a system of which a part is hidden: the problems of bench/untuned, each with the defaults of mac.fit.

    PYTHONPATH=build/python python3 examples/14-hidden-part/hidden_part.py                       says which there are
    PYTHONPATH=build/python python3 examples/14-hidden-part/hidden_part.py lorenz63 /tmp/lorenz63

The second takes some minutes. A third argument is the steps of a training. In the folder are then the closure, its data, and
report.html.
"""

import inspect
import sys
from pathlib import Path

import numpy as np

import mac

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "untuned"))
from problems import LATER, PROBLEMS  # noqa: E402

ALL = {**PROBLEMS, **LATER}
if len(sys.argv) < 3 or sys.argv[1] not in ALL:
    for name, make in ALL.items():
        print(f"{name}: {' '.join((inspect.getdoc(make) or '').split())}\n")
    sys.exit("say which of them, and a folder")

problem = ALL[sys.argv[1]]()
folder = Path(sys.argv[2])
steps = int(sys.argv[3]) if len(sys.argv) > 3 else None
folder.mkdir(parents=True, exist_ok=True)
print(f"{problem.name}: {problem.seen}")

# Trajectories and the reduced equations go in; the closure is computed from them where the problem has them both.
closure = mac.fit(
    folder / "closure.safetensors",
    problem.train,
    dt=problem.dt,
    rhs=problem.rhs if problem.equations else None,
    validation=problem.validation,
    names=problem.names,
    targets=problem.targets,
    history=problem.history,  # where hidden variables start anywhere, the true past is read first
    steps=steps,
    quiet=False,
)

# Free runs from where the history ends, over five training windows.
past = round(problem.history / problem.dt)
truth = problem.test[:, past:]
times = problem.dt * np.arange(truth.shape[1])
with np.errstate(all="ignore"):  # without a closure some blow up
    none = mac.rollout(problem.rhs, truth[:, 0], times)
    run = mac.rollout(problem.rhs, truth[:, 0], times, closure, past=problem.test[:, :past] if past else None)

window = problem.window
metrics = mac.report(
    folder / "report.html", {"closure": run, "none": none}, truth, dt=problem.dt, names=problem.names,
    intervals=[(0, window), (0, 5 * window)],
)  # fmt: skip
verdict = metrics["verdict"]["models"]["closure"]
print("\n".join(["", verdict["sentence"], *verdict["warnings"], f"{folder / 'report.html'}"]))
