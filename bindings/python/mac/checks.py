"""What looks wrong with arrays: said before anything is trained on them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._mac import UsageError

Floats = NDArray[np.float64]

_LARGEST, _SMALLEST = 1e12, 1e-100  # rollouts count states beyond the first as blown up; squares below the second vanish
_OTHER_UNITS = 30  # times: dy/dt and rhs of one system are rarely further apart
_UNCORRELATED, _SMOOTH = 0.5, 0.05  # mean square of neighbours' differences, in variances


class DataWarning(UserWarning):
    """Something in the data looks wrong: an outlier, a constant variable, a trajectory that is there twice."""


def warn(message: str) -> None:
    """As if it stood where mac.fit was called."""
    warnings.warn(message, DataWarning, stacklevel=4)


def numbers(name: str, values: Any, expected: str = "(trajectories, times, variables), all of one length") -> Floats:
    """Real numbers in an array of their own type; what would be lost on the way is refused."""
    if np.ma.is_masked(values):
        raise UsageError(
            f"{name} is a masked array, expected numbers everywhere: cut the trajectories at what is masked; of files, mac.read(gaps=...) does"
        )
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise UsageError(f"{name} holds complex numbers, expected real ones: give real and imaginary parts as variables")
        return array.astype(float, order="C")
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{name} is no array of numbers but a {type(values).__name__}, expected {expected}") from None


def time_step(dt: Any) -> float:
    """The time between two saved times."""
    try:
        step = float(dt)
    except (TypeError, ValueError):
        step = 0.0
    if not 0 < step < float("inf"):
        raise UsageError(f"dt is {dt!r}, expected the time between two saved times")
    return step


def check_sizes(name: str, y: Floats) -> None:
    """Units in which rollouts can be judged."""
    for variable, size in enumerate(np.max(np.abs(y), axis=(0, 1))):
        if size >= _LARGEST or 0 < size < _SMALLEST:
            raise UsageError(
                f"{name}: variable {variable} reaches {size:.3g}: choose units in which it lies between {_SMALLEST:g} and {_LARGEST:g}"
            )


def check_states(name: str, y: Floats) -> None:
    """Shape, size and order of the axes of (trajectories, times, variables)."""
    if y.ndim != 3 or y.size == 0:
        raise UsageError(f"{name} has shape {y.shape}, expected (trajectories, times, variables)")
    if y.shape[1] < 2:
        raise UsageError(f"{name} has shape {y.shape}, expected (trajectories, times, variables) with at least two times")
    if not np.all(np.isfinite(y)):
        trajectory, time, variable = (int(i) for i in np.argwhere(~np.isfinite(y))[0])
        raise UsageError(
            f"{name} is {y[trajectory, time, variable]}, not finite, in trajectory {trajectory} at time {time}, variable {variable}: "
            "cut the trajectories there; of files, mac.read(gaps=...) does"
        )
    check_sizes(name, y)
    if y.shape[0] < 4 or y.shape[1] < 4:
        return
    variance = np.var(y, axis=(0, 1))
    moves = variance > 0
    if not np.any(moves):
        return
    along_time = np.mean(np.mean(np.diff(y, axis=1) ** 2, axis=(0, 1))[moves] / variance[moves])
    along_trajectories = np.mean(np.mean(np.diff(y, axis=0) ** 2, axis=(0, 1))[moves] / variance[moves])
    if along_time > _UNCORRELATED and along_trajectories < _SMOOTH:
        warn(
            f"{name} has shape {y.shape}, but it is smooth along its first axis, not its second: are the axes (trajectories, times, "
            "variables)?"
        )


def check_units(y: Floats, reduced: Floats, dt: float) -> None:
    """A step in seconds with equations in hours shows in their rates."""
    rate = np.diff(y, axis=1) / dt
    size, expected = (np.sqrt(np.mean(values**2, axis=(0, 1))) for values in (rate, reduced))
    moving = (size > 0) & (expected > 0)
    if not np.any(moving):
        return
    ratio = float(np.exp(np.median(np.log(size[moving] / expected[moving]))))
    if not 1 / _OTHER_UNITS < ratio < _OTHER_UNITS:
        warn(f"dy/dt of the data is {ratio:.2g} times as large as rhs: is dt = {dt:g} in the units of time that rhs has?")


def check_leakage(train: Floats, validation: Floats) -> None:
    """A trajectory that is learnt by heart says nothing about others."""
    known = {trajectory.tobytes(): i for i, trajectory in enumerate(train[:, :2])}
    for i, trajectory in enumerate(validation[:, :2]):
        copy = known.get(trajectory.tobytes())
        times = min(train.shape[1], validation.shape[1])
        if copy is not None and np.array_equal(train[copy, :times], validation[i, :times]):
            warn(f"trajectory {i} of the validation data is trajectory {copy} of the training data: it judges what was learnt by heart")
            return
