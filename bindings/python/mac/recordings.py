"""What mac.fit is given: the trajectories of a split, from arrays, fields or a data set, with their closures."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._mac import UsageError
from .checks import check_states, numbers, warn
from .data import DataSet, split_arrays
from .fields import Lattice, flat
from .inputs import GivenInputs, Inputs, trajectory_inputs
from .tendency import Function, difference_closure, step_means

Floats = NDArray[np.float64]
Arrays = dict[str, Floats]
Fields = Union[ArrayLike, Mapping[str, ArrayLike]]


def say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr)


@dataclass(frozen=True)
class Recording:
    """Of one split, variables flat."""

    name: str
    resolved: Floats  # (trajectories, times, variables)
    closure: Optional[Floats] = None  # (trajectories, times, components); None: to be computed
    closure_mean: Optional[Floats] = None
    inputs: GivenInputs = field(default_factory=lambda: GivenInputs({}, {}))
    unknown: Optional[NDArray[np.bool_]] = None  # (trajectories, times): where the closure is masked
    unknown_step: Optional[NDArray[np.bool_]] = None  # (trajectories, times - 1)


def from_arrays(
    name: str, resolved: Fields, closure: Optional[Fields], inputs: Optional[Inputs], lattice: Optional[Lattice], dt: float
) -> Recording:
    if lattice is not None:
        y = flat(f"resolved of {name}", resolved, lattice.fields)
        c = None if closure is None else flat(f"closure of {name}", closure, None)
    else:
        y = numbers(f"resolved of {name}", resolved)
        c = None if closure is None else numbers(f"closure of {name}", closure)
    check_states(f"resolved of {name}", y)
    return Recording(name, y, c, inputs=trajectory_inputs(inputs, name, y.shape[0], dt * np.arange(y.shape[1])))


def from_data_set(data: DataSet, name: str, targets: Sequence[int], given: Optional[Sequence[str]], with_closure: bool) -> Recording:
    """A split. Its closure is taken where it is said to be one of these targets; a mask is taken in any case."""
    split = data[name]
    columns: dict[str, Floats] = {key: split.parameters[:, k] for k, key in enumerate(data.parameters)}
    columns |= {key: split.forcing[..., k] for k, key in enumerate(data.forcing)}
    unknown = [key for key in given or () if key not in columns]
    if unknown:
        raise UsageError(f"inputs has {', '.join(unknown)}, the data set has {', '.join(columns) or 'none'}")
    inputs = {key: value for key, value in columns.items() if given is None or key in given}
    closure = mean = None
    if with_closure:
        own = list(data.experiment.system.closure_targets)
        missing = [target for target in targets if target not in own]
        if missing:
            raise UsageError(f"targets has {missing}, but the closure of the data set is that of {own}")
        order = [own.index(target) for target in targets]
        closure, mean = split.closure[..., order], split.closure_mean[..., order]
    return Recording(
        name,
        split.resolved,
        closure,
        mean,
        trajectory_inputs(inputs, name, split.resolved.shape[0], split.time),
        np.isnan(split.closure).any(axis=2) if split.masked else None,
        np.isnan(split.closure_mean).any(axis=2) if split.masked else None,
    )


def add_clock(given: Recording, dt: float) -> Recording:
    """The time as one more variable, after the others."""
    count, times = given.resolved.shape[:2]
    clock = np.broadcast_to(dt * np.arange(times)[:, None], (count, times, 1))
    return replace(given, resolved=np.concatenate([given.resolved, clock], axis=2))


def with_closure(given: Recording, rhs: Function, targets: Sequence[int], dt: float, order: int, quiet: bool) -> Arrays:
    """The arrays of a data file; the closure that is not given is what rhs leaves out of dy/dt."""
    if given.closure is not None:
        return split_arrays(given.name, given.resolved, given.closure, given.closure_mean) | given.inputs.arrays()
    computed = difference_closure(given.resolved, dt, rhs, targets, order)
    note = f"closure of {given.name}: differences of order {order}, error about {100 * computed.error:.2g} %"
    if computed.unexplained > 0.01:
        note += f"; {100 * computed.unexplained:.0f} % of dy/dt - rhs lies in equations that are not among the targets"
    say(note, quiet)
    if given.unknown is not None:
        computed.closure[given.unknown] = np.nan
        computed.mean[given.unknown_step] = np.nan
    return split_arrays(given.name, given.resolved, computed.closure, computed.mean) | given.inputs.arrays()


def check_landing(splits: Mapping[str, Arrays], dt: float, rhs: Function, targets: Sequence[int], substeps: int, strict: bool) -> bool:
    """Where rollouts take a closure step in several, so must the means that make it land. Whether they are new; where means
    are asked for, a warning says where they do not land."""
    missed = 0.0
    for arrays in splits.values():
        means = step_means(arrays["resolved"], dt, rhs, targets, substeps)
        known = ~np.isnan(arrays["closure_mean"])
        missed = max(missed, means.missed)
        arrays["closure_mean"][known] = means.mean[known]
    if strict and missed > 0:
        warn(
            f'in {100 * missed:.2g} % of the steps no constant closure makes the reduced step land on the next state: target = "mean" is '
            "not exact there, for the step is long for rhs"
        )
    return substeps > 1


def shares(arrays: Arrays, share: float, past: int) -> tuple[Arrays, Arrays]:
    """The last trajectories are kept for validation; of a single one its last part, after a history of `past` steps."""
    if not 0 <= share < 1:
        raise UsageError(f"validation is {share}, expected a share of the trajectories, or (resolved, closure)")
    count, times = arrays["resolved"].shape[:2]
    if count > 1:
        kept = max(1, round(float(share) * count))
        if kept >= count:
            raise UsageError(f"{count} trajectories leave none for validation: give arrays")
        return {key: array[:-kept] for key, array in arrays.items()}, {key: array[-kept:] for key, array in arrays.items()}
    end = times - max(2, round(float(share) * times))
    if end < past + 2:
        raise UsageError(f"one trajectory of {times} times leaves none for validation: give arrays")
    first, last = dict(arrays), dict(arrays)
    for key, array in arrays.items():
        if key != "parameters":  # which have no times
            first[key] = array[:, : end - 1 if key == "closure_mean" else end]
            last[key] = array[:, end - past :]
    return first, last
