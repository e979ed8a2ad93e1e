"""Data sets: the HDF5 files of `mac generate` as NumPy arrays, and the other way round."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any, Iterator, Mapping, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import UsageError
from .checks import numbers
from .systems import AnyExperiment, Experiment, as_experiment


@dataclass(frozen=True)
class Split:
    """One part of a data set: train, validation, test or ood."""

    time: NDArray[np.float64]  # (times,)
    resolved: NDArray[np.float64]  # (trajectories, times, variables)
    closure: NDArray[np.float64]  # (trajectories, times, components)
    closure_mean: NDArray[np.float64]  # (trajectories, times - 1, components), over the interval that follows
    labels: list[str] = field(default_factory=list)  # of the trajectories, empty where they have none
    # Numbers that are no unknowns, named by DataSet.parameters and DataSet.forcing.
    parameters: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))  # (trajectories, parameters)
    forcing: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0, 0)))  # (trajectories, times, series)
    masked: bool = False  # the closures are NaN where nobody knows them


class DataSet(Mapping[str, Split]):
    """A data file: data["train"].resolved. A split is read when it is asked for."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self._file = _mac.DataFile(str(path))

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def experiment(self) -> Experiment:
        """What the file says about how it was made."""
        return Experiment._wrap(self._file.experiment)

    @property
    def dt(self) -> float:
        """The time between two saved times."""
        return self.experiment.closure_step

    @property
    def names(self) -> list[str]:
        """Of the resolved variables."""
        return list(self.experiment.system.resolved_names)

    @property
    def parameters(self) -> list[str]:
        """Names of the numbers that differ between trajectories: the columns of a split's `parameters`."""
        return list(self._file.experiment.parameters)

    @property
    def forcing(self) -> list[str]:
        """Names of the series that drive the system: the columns of a split's `forcing`. Those of [data.given] come last."""
        return [*self._file.experiment.forcing, *self._file.experiment.formulas]

    def __getitem__(self, split: str) -> Split:
        return Split(**self._file.read(split))

    def get(self, split: str, default: Any = None) -> Any:
        return self[split] if split in self else default

    def __contains__(self, split: object) -> bool:
        return split in self._file.splits

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.splits)

    def __len__(self) -> int:
        return len(self._file.splits)

    def __repr__(self) -> str:
        return f"<mac.DataSet {self.path}: {', '.join(self)}>"


def read_data(path: Union[str, os.PathLike[str]]) -> DataSet:
    """Open a data file."""
    return DataSet(path)


def _step_means(c: NDArray[np.float64]) -> NDArray[np.float64]:
    """(trajectories, times, components): over each step those of the cubic through four closures, of the straight line where
    there are not as many or not all of them are known."""
    mean = (c[:, 1:] + c[:, :-1]) / 2
    if c.shape[1] < 4:
        return mean
    cubic = np.empty_like(mean)
    cubic[:, 1:-1] = 13 * (c[:, 1:-2] + c[:, 2:-1]) - c[:, :-3] - c[:, 3:]
    cubic[:, 0] = 9 * c[:, 0] + 19 * c[:, 1] - 5 * c[:, 2] + c[:, 3]
    cubic[:, -1] = 9 * c[:, -1] + 19 * c[:, -2] - 5 * c[:, -3] + c[:, -4]
    return np.where(np.isnan(cubic), mean, cubic / 24)


def split_arrays(
    name: str, resolved: ArrayLike, closure: ArrayLike, closure_mean: Optional[ArrayLike] = None
) -> dict[str, NDArray[np.float64]]:
    """Arrays of a split; means that are not given are those of the saved closures, to fourth order."""
    arrays = {key: numbers(f"{key} of {name}", given) for key, given in [("resolved", resolved), ("closure", closure)]}
    for key, array in arrays.items():
        if array.ndim != 3:
            raise UsageError(f"{key} of {name} has shape {array.shape}, expected (trajectories, times, variables)")
    if arrays["resolved"].shape[:2] != arrays["closure"].shape[:2]:
        raise UsageError(
            f"resolved and closure of {name} have shapes {arrays['resolved'].shape} and {arrays['closure'].shape}: "
            "trajectories and times must be the same"
        )
    if closure_mean is None:
        closure_mean = _step_means(arrays["closure"])
    arrays["closure_mean"] = numbers(f"closure_mean of {name}", closure_mean)
    return arrays


def _check_plan(
    experiment: Experiment, name: str, arrays: dict[str, NDArray[np.float64]], time: Optional[ArrayLike]
) -> None:
    """Axes in another order have as many numbers; times at another spacing as many times."""
    plan = experiment.splits.get(name)
    if plan is None:
        raise UsageError(f"the experiment has no split {name}")
    intervals = plan["times"] - 1
    for key, length in [("resolved", intervals + 1), ("closure", intervals + 1), ("closure_mean", intervals)]:
        if arrays[key].shape[:2] != (plan["trajectories"], length):
            raise UsageError(
                f"{key} of {name} has shape {arrays[key].shape}, the experiment has {plan['trajectories']} trajectories "
                f"of {length} times"
            )
    if time is not None:
        steps = np.diff(np.asarray(time, dtype=float))
        if steps.shape != (intervals,) or np.any(np.abs(steps - experiment.closure_step) > 1e-6 * experiment.closure_step):
            raise UsageError(f"time of {name} does not go in {intervals} steps of {experiment.closure_step}, dt * stride")


def write_data(
    path: Union[str, os.PathLike[str]],
    experiment: AnyExperiment,
    splits: Mapping[str, Union[Split, Mapping[str, ArrayLike]]],
) -> None:
    """Write a data file from arrays: splits["train"] has resolved, closure and, if known, closure_mean.

    The experiment says what the data are; each split of its [data] must be there with as many trajectories and
    times; its time, where given, must go in steps of dt * stride. Where [data] names parameters and forcing, a split has
    arrays `parameters` (trajectories, names) and `forcing` (trajectories, times, names). With `masked` = True closures are
    NaN where nobody knows them. Labels are not written. For data of a system that MAC does not know, [system] is
    name = "recorded".
    """
    study = as_experiment(experiment)
    arrays: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, split in splits.items():
        given = vars(split) if isinstance(split, Split) else split
        missing = {"resolved", "closure"} - set(given)
        if missing:
            raise UsageError(f"split {name} has no {' and no '.join(sorted(missing))}")
        unknown = set(given) - {known.name for known in fields(Split)}
        if unknown:
            raise UsageError(f"split {name} has an unknown {' and '.join(sorted(unknown))}")
        arrays[name] = split_arrays(name, given["resolved"], given["closure"], given.get("closure_mean"))
        _check_plan(study, name, arrays[name], given.get("time"))
        for key, names in [("parameters", study._experiment.parameters), ("forcing", study._experiment.forcing)]:
            value = numbers(f"{key} of {name}", given.get(key, np.zeros(0)))
            if key == "forcing" and value.ndim == 3 and value.shape[2] == len(names) + len(study._experiment.formulas):
                value = value[..., : len(names)]  # formulas are computed, not stored
            shape = arrays[name]["resolved"].shape[: 1 if key == "parameters" else 2] + (len(names),)
            if value.size == 0 and not names:
                continue
            if value.shape != shape:
                raise UsageError(
                    f"{key} of {name} has shape {value.shape}, expected {shape} for {', '.join(names) or 'none'} of [data] {key}"
                )
            arrays[name][key] = value
    masked = {name for name, split in splits.items() if (vars(split) if isinstance(split, Split) else split).get("masked")}
    _mac.write_data(study._experiment, arrays, str(path), masked)
