"""The stages of a study: generate, train, roll out, evaluate; or all of them at once.

Long calls let other Python threads run and stop on Ctrl-C; those that use files wait for each other.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from . import _mac
from ._mac import UsageError
from .models import PathLike, model_path
from .systems import AnyExperiment, as_experiment


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


class ClosureWarning(UserWarning):
    """A closure that is no better than none."""


def seconds(budget: Union[None, float, str]) -> float:
    """600, "600s", "10min", "1.5h" as seconds; None: 0, no limit."""
    if budget is None:
        return 0.0
    units = {"s": 1, "min": 60, "h": 3600}
    text = str(budget).strip()
    unit = next((u for u in ("min", "h", "s") if text.endswith(u)), "")
    try:
        value = float(text[: len(text) - len(unit)]) * units.get(unit, 1)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise UsageError(f'budget is {budget!r}, expected seconds, or a text like "90s", "10min" or "2h"')
    return value


@dataclass(frozen=True)
class TrainingResult:
    """What came out of a training. A baseline has only a summary in words."""

    path: str
    best_step: Optional[int] = None  # after which the weights were taken
    best_validation: Optional[float] = None
    seconds_per_step: Optional[float] = None
    summary: str = ""
    table: str = ""  # recipe = "auto": what was tried and how it did
    warning: str = ""  # recipe = "auto": where no trial is better than no closure


def warned(result: TrainingResult) -> TrainingResult:
    if result.warning:
        warnings.warn(result.warning, ClosureWarning, stacklevel=3)
    return result


def train(
    experiment: AnyExperiment,
    data: PathLike,
    path: PathLike,
    model: Optional[str] = None,
    *,
    seed: Optional[int] = None,
    resume: bool = False,
    device: str = "cpu",
    budget: Union[None, float, str] = None,
    threads: int = 0,
    quiet: bool = True,
) -> TrainingResult:
    """Train a model of the experiment (its only one by default) on a data file and write it to `path`.

    With recipe = "auto" the budget, seconds or a text like "10min", leaves out trials that would take longer.
    Ctrl-C saves a checkpoint beside `path`; resume = True goes on from it to the same bytes.
    """
    plan = as_experiment(experiment)
    if model is None:
        if len(plan.models) != 1:
            raise UsageError(f"the experiment has the models {', '.join(plan.models) or 'none'}: say which")
        model = next(iter(plan.models))
    if seed is not None:
        seed = _seed(seed)
    result = _mac.train(
        plan._experiment, model, str(data), str(path), seed, resume, device, _threads(threads), quiet, None, seconds(budget)
    )
    return warned(TrainingResult(str(path), **result))


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
