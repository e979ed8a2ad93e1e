"""The stages of a study: generate, train, roll out, evaluate; or all of them at once.

Long calls let other Python threads run and stop on Ctrl-C; those that use files wait for each other.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import Closure, UsageError
from .data import split_arrays
from .models import PathLike, load, model_path
from .systems import AnyExperiment, Experiment, as_experiment, toml_lines


def _within(name: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise UsageError(f"{name} is {value}, expected a whole number from 0 to {most}")
    return value


def _seed(seed: int) -> int:
    return _within("seed", seed, 2**63 - 1)


def _threads(threads: int) -> int:
    return _within("threads", threads, 4096)


def generate(experiment: AnyExperiment, path: PathLike, *, threads: int = 0, quiet: bool = True) -> None:
    """Simulate the full model and write the data file. threads = 0: all cores."""
    _mac.generate(as_experiment(experiment)._experiment, str(path), _threads(threads), quiet)


@dataclass(frozen=True)
class TrainingResult:
    """What came out of a training. A baseline has only a summary in words."""

    path: str
    best_step: Optional[int] = None  # after which the weights were taken
    best_validation: Optional[float] = None
    seconds_per_step: Optional[float] = None
    summary: str = ""


def train(
    experiment: AnyExperiment,
    data: PathLike,
    path: PathLike,
    model: Optional[str] = None,
    *,
    seed: Optional[int] = None,
    resume: bool = False,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = True,
) -> TrainingResult:
    """Train a model of the experiment (its only one by default) on a data file and write it to `path`.

    Ctrl-C saves a checkpoint beside `path`; resume = True goes on from it to the same bytes.
    """
    plan = as_experiment(experiment)
    if model is None:
        if len(plan.models) != 1:
            raise UsageError(f"the experiment has the models {', '.join(plan.models) or 'none'}: say which")
        model = next(iter(plan.models))
    if seed is not None:
        seed = _seed(seed)
    result = _mac.train(plan._experiment, model, str(data), str(path), seed, resume, device, _threads(threads), quiet)
    return TrainingResult(str(path), **result)


def _table(name: str, settings: Mapping[str, Any]) -> str:
    return f"[{name}]\n{toml_lines(dict(settings))}"


def fit(
    path: PathLike,
    resolved: ArrayLike,
    closure: ArrayLike,
    dt: float,
    *,
    validation: Union[float, tuple[ArrayLike, ArrayLike]] = 0.1,
    names: Optional[Sequence[str]] = None,
    targets: Optional[Sequence[int]] = None,
    kind: str = "mamba",
    d_model: int = 16,
    blocks: int = 2,
    d_state: int = 8,
    steps: int = 4000,
    training: Optional[Mapping[str, Any]] = None,
    seed: int = 0,
    resume: bool = False,
    threads: int = 0,
    quiet: bool = True,
) -> Closure:
    """Train a closure on arrays, write it to `path` and open it.

    resolved    (trajectories, times, variables), saved every dt
    closure     (trajectories, times, components), the closure at those times
    validation  the share of the trajectories that is kept for it (at least one), or arrays of their own
    names       of the variables; default y1, y2, ...
    targets     the equation of each closure component; default: all in order
    training    further settings of the [training] table: max_lr, batch, loss_weights, window, ...

    Beside `path` it writes the data as PATH.data.h5, and on Ctrl-C a checkpoint that resume = True goes on from.
    """
    train_arrays = split_arrays("train", resolved, closure)
    if isinstance(validation, (tuple, list)):
        if len(validation) != 2:
            raise UsageError(f"validation has {len(validation)} arrays, expected (resolved, closure)")
        validation_arrays = split_arrays("validation", *validation)
    else:
        if not 0 <= validation < 1:
            raise UsageError(f"validation is {validation}, expected a share of the trajectories, or (resolved, closure)")
        kept = max(1, round(float(validation) * len(train_arrays["resolved"])))
        if kept >= len(train_arrays["resolved"]):
            raise UsageError(f"{len(train_arrays['resolved'])} trajectories leave none for validation: give arrays")
        validation_arrays = {key: array[-kept:] for key, array in train_arrays.items()}
        train_arrays = {key: array[:-kept] for key, array in train_arrays.items()}
    splits = {"train": train_arrays, "validation": validation_arrays}

    variables, components = train_arrays["resolved"].shape[2], train_arrays["closure"].shape[2]
    names = list(names) if names is not None else [f"y{i + 1}" for i in range(variables)]
    if len(names) != variables:
        raise UsageError(f"there are {len(names)} names for {variables} variables")
    if targets is None and components != variables:
        raise UsageError(f"{components} closure components for {variables} variables: say in targets which equation each is for")
    target_list = list(targets) if targets is not None else list(range(variables))
    if len(target_list) != components or not all(0 <= target < variables for target in target_list):
        raise UsageError(f"targets is {target_list}, expected {components} numbers of variables, below {variables}")

    settings = {"steps": steps, "select": "loss", "augmentation": False, "normalisation": "max_abs", "seed": seed}
    model = {"name": "closure", "kind": kind, "d_model": d_model, "blocks": blocks}
    if _mac.layer_kind_has_states(kind):
        model["d_state"] = d_state
    text = _table("system", {"name": "recorded", "resolved": names, "targets": [names[i] for i in target_list]})
    text += _table("data", {"dt": float(dt)})
    for name, arrays in splits.items():
        trajectories, times = arrays["resolved"].shape[:2]
        text += _table(f"data.{name}", {"trajectories": trajectories, "horizon": (times - 1) * float(dt)})
    text += "[" + _table("models", model).replace("]\n", "]]\n", 1) + _table("training", {**settings, **(training or {})})
    experiment = Experiment(text, "fit")

    data = Path(path).with_suffix(".data.h5")
    _mac.write_data(experiment._experiment, splits, str(data))
    train(experiment, data, path, resume=resume, threads=threads, quiet=quiet)
    return load(path)


@dataclass(frozen=True)
class RolloutSplit:
    """One split of a rollout file, the truth beside the rollout."""

    time: NDArray[np.float64]  # (times,)
    resolved: NDArray[np.float64]  # (trajectories, times, variables)
    closure: NDArray[np.float64]  # (trajectories, times, components)
    true_resolved: NDArray[np.float64]
    true_closure: NDArray[np.float64]
    blow_up_time: NDArray[np.float64]  # (trajectories,), NaN where there was none
    labels: list[str]


def rollout_data(
    model: PathLike,
    data: PathLike,
    path: PathLike,
    *,
    name: str = "",
    hold: Optional[str] = None,
    splits: Union[str, Sequence[str]] = (),
    to: Optional[float] = None,
    threads: int = 0,
    quiet: bool = True,
) -> None:
    """`mac rollout`: the model ("markov", "exact", a file, or a name of the zoo) from every trajectory of a data file's
    splits."""
    source = str(model) if str(model) in ("markov", "exact") else str(model_path(model))
    chosen = [splits] if isinstance(splits, str) else list(splits)
    _mac.rollout_data(source, str(data), str(path), name, hold, chosen, to, _threads(threads), quiet)


def read_rollout(path: PathLike) -> dict[str, RolloutSplit]:
    """The splits of a rollout file."""
    return {name: RolloutSplit(**arrays) for name, arrays in _mac.read_rollout(str(path)).items()}


def evaluate(rollouts: Union[PathLike, Sequence[PathLike]]) -> dict[str, Any]:
    """Metrics of rollout files, as in metrics.json (docs/experiments.md)."""
    paths = [rollouts] if isinstance(rollouts, (str, os.PathLike)) else list(rollouts)
    metrics: dict[str, Any] = json.loads(_mac.evaluate([str(path) for path in paths]))
    return metrics


@dataclass(frozen=True)
class RunResult:
    """What mac.run did."""

    metrics: dict[str, Any]  # as in metrics.json
    report: str  # path of the page
    done: int  # outputs made
    kept: int  # outputs that were there and still valid


def run(
    experiment: AnyExperiment,
    folder: PathLike,
    *,
    seeds: Sequence[int] = (),
    force: Union[str, Sequence[str]] = (),
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = True,
) -> RunResult:
    """`mac run`: data, training, rollouts, tables and report in one folder, keeping what is still valid.

    force does stages again: "generate", "train", "rollout", "evaluate", "report", or a list of them.
    device "cuda" trains all seeds of a network at once on a GPU.
    """
    stages = [force] if isinstance(force, str) else list(force)
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds is {list(seeds)}, expected each of them once")
    metrics, report, done, kept = _mac.run(
        as_experiment(experiment)._experiment,
        str(folder),
        [_seed(s) for s in seeds],
        stages,
        device,
        _threads(threads),
        quiet,
    )
    return RunResult(json.loads(metrics), report, done, kept)


def export_onnx(model: PathLike, path: PathLike) -> None:
    """`mac export`: the step of a network as an ONNX graph."""
    _mac.export_onnx(str(model_path(model)), str(path))
