"""The stages of a study: generate, train, roll out, evaluate; or all of them at once.

Long calls let other Python threads run and stop on Ctrl-C; those that use files wait for each other.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import UsageError
from .arrays import Runs, write_runs
from .coupling import ClosureWarning
from .inputs import Inputs
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


def _warn(messages: Sequence[str]) -> None:
    for message in messages:
        warnings.warn(message, ClosureWarning, stacklevel=3)


def _verdict_warnings(metrics: Mapping[str, Any]) -> list[str]:
    return [warning for model in metrics["verdict"]["models"].values() for warning in model["warnings"]]


def generate(experiment: AnyExperiment, path: PathLike, *, threads: int = 0, quiet: bool = True) -> None:
    """Simulate the full model and write the data file. threads = 0: all cores."""
    _mac.generate(as_experiment(experiment)._experiment, str(path), _threads(threads), quiet)


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
    verdict: Sequence[str] = ()  # whether free rollouts on validation data are better than without closure
    table: str = ""  # recipe = "auto": what was tried and how it did
    warning: str = ""  # recipe = "auto": where no trial is better than no closure


def training_result(path: PathLike, result: dict[str, Any]) -> TrainingResult:
    """What the library said, with its warnings given."""
    _warn(result.pop("warnings"))
    outcome = TrainingResult(str(path), **result)
    if outcome.warning:
        warnings.warn(outcome.warning, ClosureWarning, stacklevel=3)
    return outcome


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
    return training_result(path, result)


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
    precision: Optional[str] = None,
    splits: Union[str, Sequence[str]] = (),
    to: Optional[float] = None,
    self_contained: bool = False,
    allow_other_parameters: bool = False,
    threads: int = 0,
    quiet: bool = True,
) -> list[str]:
    """`mac rollout`: the model ("markov", "exact", a file, or a name of the zoo) from every trajectory of a data file's
    splits. A network computes in precision, "float32" or "float64", by default in what its file stores.

    The file refers to the data file for the truth; self_contained = True copies the truth into it. A model that was
    trained with other parameters of the system is refused unless they are allowed. Returns the verdict: whether the
    closure is better than none; a ClosureWarning says where it should not be trusted.
    """
    source = str(model) if str(model) in ("markov", "exact") else str(model_path(model))
    chosen = [splits] if isinstance(splits, str) else list(splits)
    verdict, messages = _mac.rollout_data(
        source, str(data), str(path), name, hold, precision, chosen, to, self_contained, allow_other_parameters,
        _threads(threads), quiet,
    )
    _warn(messages)
    return verdict


def _file(path: Optional[PathLike]) -> str:
    return "" if path is None else str(path)


def read_rollout(path: PathLike, *, data: Optional[PathLike] = None) -> dict[str, RolloutSplit]:
    """The splits of a rollout file.

    data: the data file it was made on, where that is neither where the rollout says nor beside it.
    """
    return {name: RolloutSplit(**arrays) for name, arrays in _mac.read_rollout(str(path), _file(data)).items()}


def evaluate(
    rollouts: Union[PathLike, Sequence[PathLike], Runs],
    truth: Optional[ArrayLike] = None,
    *,
    dt: Optional[float] = None,
    names: Optional[Sequence[str]] = None,
    intervals: Optional[Sequence[tuple[float, float]]] = None,
    inputs: Optional[Inputs] = None,
    data: Optional[PathLike] = None,
) -> dict[str, Any]:
    """Metrics of rollout files, or of runs that are arrays, as in metrics.json (docs/experiments.md).

    Files: mac.evaluate(["mac.h5", "markov.h5"]); data as for read_rollout.
    Arrays: mac.evaluate({"mine": run, "none": alone}, truth, dt=0.01), each a mac.Rollout or an array
    (trajectories, times, variables) like the truth; "none" is the run without a closure. inputs={"depth": depth}, a number a
    trajectory, gives the errors by these values as well.

    metrics["verdict"] says of each model whether its closure is better than none; its warnings are ClosureWarnings.
    """
    if isinstance(rollouts, Mapping):
        if truth is None or dt is None:
            raise UsageError("runs that are arrays need the truth and dt beside them")
        with tempfile.TemporaryDirectory(prefix="mac-evaluate-") as folder:
            files = write_runs(Path(folder), rollouts, truth, dt, names, intervals, inputs)
            text = _mac.evaluate(files, "")
    else:
        paths = [rollouts] if isinstance(rollouts, (str, os.PathLike)) else list(rollouts)
        text = _mac.evaluate([str(path) for path in paths], _file(data))
    metrics: dict[str, Any] = json.loads(text)
    _warn(_verdict_warnings(metrics))
    return metrics


def report(
    path: PathLike,
    rollouts: Union[PathLike, Sequence[PathLike], Runs],
    truth: Optional[ArrayLike] = None,
    *,
    dt: Optional[float] = None,
    names: Optional[Sequence[str]] = None,
    intervals: Optional[Sequence[tuple[float, float]]] = None,
    inputs: Optional[Inputs] = None,
    threads: int = 0,
) -> dict[str, Any]:
    """`mac report`: tables and figures of rollout files, or of runs that are arrays as for mac.evaluate, as one page.

    Gives the metrics; what speaks against a closure is a ClosureWarning.
    """
    with tempfile.TemporaryDirectory(prefix="mac-report-") as folder:
        if isinstance(rollouts, Mapping):
            if truth is None or dt is None:
                raise UsageError("runs that are arrays need the truth and dt beside them")
            files = write_runs(Path(folder), rollouts, truth, dt, names, intervals, inputs)
        else:
            files = [str(file) for file in ([rollouts] if isinstance(rollouts, (str, os.PathLike)) else rollouts)]
        metrics: dict[str, Any] = json.loads(_mac.report(files, str(path), _threads(threads)))
    _warn(_verdict_warnings(metrics))
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
    allow_other_parameters: bool = False,
    threads: int = 0,
    quiet: bool = True,
) -> RunResult:
    """`mac run`: data, training, rollouts, tables and report in one folder, keeping what is still valid.

    force does stages again: "generate", "train", "rollout", "evaluate", "report", or a list of them.
    device "cuda" trains all seeds of a network at once on a GPU. What speaks against a closure is a ClosureWarning.
    """
    stages = [force] if isinstance(force, str) else list(force)
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds is {list(seeds)}, expected each of them once")
    text, report, done, kept, messages = _mac.run(
        as_experiment(experiment)._experiment,
        str(folder),
        [_seed(s) for s in seeds],
        stages,
        device,
        allow_other_parameters,
        _threads(threads),
        quiet,
    )
    metrics: dict[str, Any] = json.loads(text)
    _warn(messages + _verdict_warnings(metrics))
    return RunResult(metrics, report, done, kept)


def export_onnx(model: PathLike, path: PathLike) -> None:
    """`mac export`: the step of a network as an ONNX graph."""
    _mac.export_onnx(str(model_path(model)), str(path))
