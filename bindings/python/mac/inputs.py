"""Numbers that are no unknowns: parameters of a trajectory, and forcing over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Union

import numpy as np
from numpy.typing import ArrayLike

from ._mac import UsageError
from .checks import Floats, numbers

Inputs = Mapping[str, Union[ArrayLike, Callable[[float], ArrayLike]]]


def _finite(name: str, value: Any) -> Floats:
    array = numbers(f"inputs: {name}", value, "a number, or numbers of each trajectory or time")
    if not np.all(np.isfinite(array)):
        raise UsageError(f"inputs: {name} holds a number that is not finite")
    return array


def _named(inputs: Any) -> dict[str, Any]:
    if not isinstance(inputs, Mapping):
        raise UsageError(f'inputs is a {type(inputs).__name__}, expected a dict of arrays by name, {{"wind": ...}}')
    for name in inputs:
        if not isinstance(name, str) or not name:
            raise UsageError(f"inputs has the name {name!r}, expected text")
    return dict(inputs)


@dataclass(frozen=True)
class GivenInputs:
    """Of the trajectories of a split."""

    parameters: dict[str, Floats]  # (trajectories,) each
    forcing: dict[str, Floats]  # (trajectories, times) each

    @property
    def names(self) -> list[str]:
        return [*self.parameters, *self.forcing]

    def arrays(self) -> dict[str, Floats]:
        """As a data file has them: (trajectories, parameters) and (trajectories, times, series)."""
        stacks = {"parameters": self.parameters, "forcing": self.forcing}
        return {key: np.stack(list(named.values()), axis=-1) for key, named in stacks.items() if named}


def _of_time(name: str, function: Callable[[float], ArrayLike], times: Floats, rows: int, kind: str) -> Floats:
    """(rows, times) of a function of the time that gives a number, or one for each row."""
    array = _finite(name, [function(float(t)) for t in times])
    array = array.T if array.ndim == 2 else array[None]
    if array.ndim != 2 or array.shape[0] not in (1, rows):
        raise UsageError(f"inputs: the function {name} gave the shape {array.shape[:-1]}, expected a number, or one for each of {rows} {kind}")
    return np.broadcast_to(array, (rows, times.size))


def trajectory_inputs(inputs: Optional[Inputs], split: str, trajectories: int, times: Floats) -> GivenInputs:
    """A number a trajectory is a parameter, a number a trajectory and time a forcing, as is a function of the time."""
    given = GivenInputs({}, {})
    for name, value in _named(inputs or {}).items():
        if callable(value):
            given.forcing[name] = _of_time(name, value, times, trajectories, "trajectories")
            continue
        array = _finite(name, value)
        if array.shape == (trajectories,):
            given.parameters[name] = array
        elif array.shape == (trajectories, times.size):
            given.forcing[name] = array
        else:
            raise UsageError(
                f"inputs: {name} of {split} has shape {array.shape}, expected ({trajectories},), a number a trajectory, "
                f"or ({trajectories}, {times.size}), one for every time"
            )
    return given


def run_inputs(inputs: Optional[Inputs], columns: Optional[int], times: Floats) -> tuple[list[str], Floats]:
    """Names, and their numbers (columns, times, names) at the closure steps of a rollout; columns None: y0 has none."""
    named = _named(inputs or {})
    count = 1 if columns is None else columns
    values = np.zeros((count, times.size, len(named)))
    for k, (name, value) in enumerate(named.items()):
        if callable(value):
            array = _of_time(name, value, times, count, "columns")
        else:
            array = _finite(name, value)
            shapes = [(), (times.size,)] if columns is None else [(), (count,), (count, times.size)]
            if array.shape not in shapes:
                raise UsageError(
                    f"inputs: {name} has shape {array.shape}, expected one of {', '.join(str(s) for s in shapes)}: a number, "
                    + ("one a column, " if columns is not None else "")
                    + f"or one at each of the {times.size} closure steps from {times[0]:g} to {times[-1]:g}"
                )
            if columns is not None and array.shape == (count,):
                array = array[:, None]
        values[:, :, k] = array
    return list(named), values
