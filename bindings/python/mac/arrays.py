"""mac.evaluate and mac.report of runs that are arrays: rollouts in Python, or of a solver of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import UsageError
from .checks import check_sizes, numbers, time_step
from .coupling import Rollout
from .inputs import Inputs, trajectory_inputs
from .systems import Experiment, toml_lines

Runs = Mapping[str, Union[Rollout, ArrayLike]]


def _three_axes(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = numbers(name, values)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise UsageError(f"{name} has shape {array.shape}, expected (trajectories, times, variables)")
    return array


def write_runs(
    folder: Path,
    runs: Runs,
    truth: ArrayLike,
    dt: float,
    names: Optional[Sequence[str]] = None,
    intervals: Optional[Sequence[tuple[float, float]]] = None,
    inputs: Optional[Inputs] = None,
) -> list[str]:
    """Rollout files of the runs, each with the truth beside it. A run called "none" is the one without a closure.

    Inputs are what differed between the trajectories: errors are told by their values, too.
    """
    if not runs:
        raise UsageError("there are no runs to compare")
    for name in runs:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a run is called {name!r}, expected a name")
    dt = time_step(dt)
    states = _three_axes("truth", truth)
    count, times, variables = states.shape
    if times < 2 or states.size == 0:
        raise UsageError(f"truth has shape {states.shape}, expected at least two times")
    check_sizes("truth", states)
    given = trajectory_inputs(inputs, "truth", count, dt * np.arange(times))
    names = list(names) if names is not None else [f"y{i + 1}" for i in range(variables)]
    if len(names) != variables:
        raise UsageError(f"there are {len(names)} names for {variables} variables")
    text = "[system]\n" + toml_lines({"name": "recorded", "resolved": names, "equations": "zero"})
    lists = {"parameters": list(given.parameters), "forcing": list(given.forcing)}
    text += "[data]\n" + toml_lines({"dt": float(dt), **{key: names for key, names in lists.items() if names}})
    text += "[data.test]\n" + toml_lines({"trajectories": count, "horizon": (times - 1) * float(dt)})
    if intervals is not None:
        text += "[evaluation]\n" + toml_lines({"intervals": [[float(a), float(b)] for a, b in intervals]})
    closure = np.zeros_like(states)
    data = folder / "truth.h5"
    _mac.write_data(
        Experiment(text, "arrays")._experiment,
        {"test": {"resolved": states, "closure": closure, "closure_mean": closure[:, 1:], **given.arrays()}},
        str(data),
    )
    files = []
    for i, (name, run) in enumerate(runs.items()):
        resolved = _three_axes(name, run.resolved if isinstance(run, Rollout) else run)
        if resolved.shape != states.shape:
            raise UsageError(f"{name} has shape {resolved.shape}, the truth {states.shape}")
        path = folder / f"run{i + 1}.h5"
        _mac.write_run(str(data), str(path), "markov" if name == "none" else name, resolved, closure)
        files.append(str(path))
    return files
