"""The closure of recorded trajectories: what the reduced right-hand side leaves out of dy/dt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._mac import UsageError
from .checks import numbers

Floats = NDArray[np.float64]
Function = Callable[[float, Floats], ArrayLike]
Derivative = Callable[[float, Floats, Floats], ArrayLike]

# First differences of an order at the order + 1 points of a stencil: row k is for the k-th point.
_STENCILS = {
    2: np.array([[-3, 4, -1], [-1, 0, 1], [1, -4, 3]]),
    4: np.array(
        [
            [-25, 48, -36, 16, -3],
            [-3, -10, 18, -6, 1],
            [1, -8, 0, 8, -1],
            [-1, 6, -18, 10, 3],
            [3, -16, 36, -48, 25],
        ]
    ),
}
_UNITS = {2: 2, 4: 12}  # of 1/dt, in which they are


def check_order(order: int) -> None:
    if order not in _STENCILS or isinstance(order, bool):
        raise UsageError(f"order is {order!r}, expected 2 or 4")


def _central(y: Floats, dt: float, order: int, step: int = 1) -> Floats:
    """dy/dt by differences of times `step` apart, where there are order / 2 of them on either side."""
    last = y.shape[1] - order * step
    weights = _STENCILS[order][order // 2]
    total = np.zeros_like(y[:, :last])
    for k in np.flatnonzero(weights):
        total += weights[k] * y[:, k * step : last + k * step]
    return total / (_UNITS[order] * step * dt)


def derivative(y: Floats, dt: float, order: int = 4) -> Floats:
    """dy/dt (trajectories, times, variables) by differences, one-sided at the ends."""
    times, points, reach = y.shape[1], order + 1, order // 2
    if times < points:
        raise UsageError(f"trajectories of {times} times are too short for differences of order {order}, which need {points}")
    rate = np.empty_like(y)
    rate[:, reach:-reach] = _central(y, dt, order)
    for k in range(reach):
        rate[:, k] = np.einsum("s,nsv->nv", _STENCILS[order][k], y[:, :points]) / (_UNITS[order] * dt)
        rate[:, -1 - k] = np.einsum("s,nsv->nv", _STENCILS[order][order - k], y[:, -points:]) / (_UNITS[order] * dt)
    return rate


@dataclass(frozen=True)
class Computed:
    """A closure from differences. The error is that of the differences, relative to the closure."""

    closure: Floats  # (trajectories, times, components)
    mean: Floats  # (trajectories, times - 1, components), over the step that follows
    error: float
    unexplained: float  # share of dy/dt - rhs that lies in equations without a closure


def evaluate(rhs: Function, y: Floats) -> Floats:
    """rhs at all states of y (trajectories, times, variables), in one call, of a copy: it may write onto it."""
    columns = y.reshape(-1, y.shape[-1])
    rate = numbers("what the right-hand side gave", rhs(0.0, columns.copy()))
    if rate.shape != columns.shape:
        raise UsageError(f"the right-hand side gave the shape {rate.shape}, expected that of y, {columns.shape}")
    return rate.reshape(y.shape)


def depends_on_time(rhs: Function, y: Floats, dt: float) -> bool:
    """Whether it gives something else at another time of the data."""
    states = np.ascontiguousarray(y[:, 0])
    later_times = dt * np.array([0.37, 0.61]) * (y.shape[1] - 1)  # two: a period may be half of the data's length
    first, *later = (numbers("what rhs gave", rhs(float(time), states.copy())) for time in (0.0, *later_times))
    if first.shape == states.shape and not np.all(np.isfinite(first)):
        row = int(np.argwhere(~np.isfinite(first).all(axis=1))[0, 0])
        raise UsageError(f"rhs gave {first[row]}, not finite, at the state {states[row]}")
    return any(first.shape == at.shape and not np.array_equal(first, at, equal_nan=True) for at in later)


def with_clock(rhs: Function) -> Function:
    """The same of states whose last variable is the time: a function of the state alone."""

    def clocked(t: float, y: Floats) -> Floats:
        rate = np.ones_like(y)
        # One call for each time: rows that started together are together.
        times, rows = np.unique(y[:, -1], return_inverse=True)
        for k, time in enumerate(times):
            now = rows == k
            states = np.ascontiguousarray(y[now, :-1])
            values = numbers("what rhs gave", rhs(float(time), states.copy()))
            if values.shape != states.shape:
                raise UsageError(f"rhs gave the shape {values.shape}, expected that of y, {states.shape}")
            rate[now, :-1] = values
        return rate

    return clocked


def check_derivative(key: str, derivative: Derivative, rhs: Function, y: Floats) -> None:
    """Central differences at some states: v^T J w of both must be the same."""
    states = np.ascontiguousarray(y[:8, y.shape[1] // 2])
    rng = np.random.default_rng(0)
    size = np.max(np.abs(y), axis=(0, 1)) + 1e-300
    v, w = rng.normal(size=states.shape), rng.normal(size=states.shape)
    v, w = (v, w * size) if key == "rhs_vjp" else (v * size, w)
    product = numbers(f"what {key} gave", derivative(0.0, states.copy(), v.copy()))
    if product.shape != states.shape:
        raise UsageError(f"{key} gave the shape {product.shape}, expected that of y, {states.shape}")
    along = w if key == "rhs_vjp" else v
    step = 1e-5
    change = (np.asarray(rhs(0.0, states + step * along)) - np.asarray(rhs(0.0, states - step * along))) / (2 * step)
    left, right = np.sum(product * w, axis=1), np.sum(change * (v if key == "rhs_vjp" else w), axis=1)
    scale = np.sum(np.abs(change * (v if key == "rhs_vjp" else w)), axis=1) + np.sum(np.abs(product * w), axis=1)
    if not np.all(np.abs(left - right) <= 1e-4 * scale):  # differences of a step of 1e-5 of the data's size
        raise UsageError(f"{key} is not the derivative of rhs: {left[0]:.6g} where differences give {right[0]:.6g}")


def difference_closure(y: Floats, dt: float, rhs: Function, targets: Sequence[int], order: int = 4) -> Computed:
    """dy/dt - rhs(y) by differences, and the step means that make the reduced RK4 step land on the next state."""
    reduced = evaluate(rhs, y)
    rate = derivative(y, dt, order)
    whole = rate - reduced
    closure = whole[..., list(targets)]
    size = float(np.sqrt(np.mean(closure**2)))
    # Differences of the double step are 2^order times as wrong: what they differ by, over that less one, is the error.
    error = float("nan")
    if y.shape[1] > 2 * order:
        change = (_central(y, dt, order, 2) - rate[:, order:-order])[..., list(targets)]
        error = float(np.sqrt(np.mean(change**2))) / (2**order - 1)
    total = float(np.sum(whole**2))
    rest = 1 - float(np.sum(closure**2)) / total if total > 0 else 0.0
    mean = step_means(y, dt, rhs, targets).mean
    return Computed(closure, mean, error / size if size > 0 else np.nan, max(rest, 0.0))


@dataclass(frozen=True)
class StepMeans:
    """The constant closure of each step with which the reduced equations land on the next saved state."""

    mean: Floats  # (trajectories, times - 1, components)
    missed: float  # share of the steps that do not land: the equations have no such closure, or are too stiff


def step_means(y: Floats, dt: float, rhs: Function, targets: Sequence[int], substeps: int = 1) -> StepMeans:
    """By a fixed point: each pass adds what is still missing of a step, divided by dt.

    It contracts by about dt times the Jacobian, so that a few passes reach rounding wherever RK4 is accurate at all. What
    they leave is done by Newton's method.
    """
    chosen = list(targets)
    start, end = (part.reshape(-1, y.shape[-1]) for part in (y[:, :-1], y[:, 1:]))
    landing = _Landing(start, end, dt, rhs, chosen, substeps)
    mean, left = landing.fixed_point(np.zeros((len(start), len(chosen))))
    late = np.flatnonzero(~(left <= landing.tolerance))
    if late.size:
        mean[late], left[late] = landing.newton(late, mean[late], left[late])
    missed = float(np.mean(~(left <= landing.tolerance)))
    return StepMeans(mean.reshape(y.shape[0], y.shape[1] - 1, len(chosen)), missed)


class _Landing:
    """What is missing of the steps from `start` to `end`, (rows, variables)."""

    def __init__(self, start: Floats, end: Floats, dt: float, rhs: Function, targets: list[int], substeps: int) -> None:
        self._start, self._end, self._dt, self._rhs, self._targets, self._substeps = start, end, dt, rhs, targets, substeps
        slope = np.max(np.abs(end - start), axis=1, initial=0.0) / dt
        size = np.max(np.abs(start), axis=1, initial=0.0) / dt
        self.tolerance = 1e-11 * slope + 1e-14 * size  # beside the step, and the rounding of its ends

    def missing(self, rows: NDArray[np.intp], mean: Floats) -> Floats:
        """(rows, components), per time."""
        h = self._dt / self._substeps
        y = self._start[rows]
        forcing = np.zeros_like(y)
        forcing[:, self._targets] = mean
        with np.errstate(all="ignore"):  # a pass may leave the domain of rhs: it is then not taken
            for _ in range(self._substeps):
                k1 = evaluate(self._rhs, y) + forcing
                k2 = evaluate(self._rhs, y + h / 2 * k1) + forcing
                k3 = evaluate(self._rhs, y + h / 2 * k2) + forcing
                k4 = evaluate(self._rhs, y + h * k3) + forcing
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return ((self._end[rows] - y) / self._dt)[:, self._targets]

    def fixed_point(self, mean: Floats, passes: int = 50) -> tuple[Floats, Floats]:
        """The means, and what they leave missing of each row."""
        rows = np.arange(len(mean))
        left = np.full(len(mean), np.inf)
        trial = mean.copy()
        for _ in range(passes):
            missing = self.missing(rows, trial[rows])
            now = np.max(np.abs(missing), axis=1, initial=0.0)
            better = now < left[rows]  # else rounding, or steps too long to contract
            rows, missing, now = rows[better], missing[better], now[better]
            mean[rows], left[rows] = trial[rows], now
            rows_on = now > 0
            rows = rows[rows_on]
            if not rows.size:
                break
            trial[rows] = mean[rows] + missing[rows_on]
        return mean, left

    def newton(self, rows: NDArray[np.intp], mean: Floats, left: Floats, passes: int = 20) -> tuple[Floats, Floats]:
        """With a Jacobian by differences, and steps that are halved until they help."""
        count = mean.shape[1]
        for _ in range(passes):
            on = np.flatnonzero(~(left <= self.tolerance[rows]))
            if not on.size:
                break
            at = self.missing(rows[on], mean[on])
            step = 1e-6 * (np.abs(mean[on]) + left[on, None])
            jacobian = np.empty((on.size, count, count))
            for j in range(count):
                moved = mean[on].copy()
                moved[:, j] += step[:, j]
                jacobian[:, :, j] = (self.missing(rows[on], moved) - at) / (moved - mean[on])[:, j : j + 1]
            sound = np.isfinite(jacobian).all(axis=(1, 2)) & np.isfinite(at).all(axis=1)
            sound[sound] &= np.abs(np.linalg.det(jacobian[sound])) > 0
            on, at, jacobian = on[sound], at[sound], jacobian[sound]
            if not on.size:
                break
            change = -np.linalg.solve(jacobian, at[..., None])[..., 0]
            helped = False
            for halving in range(6):
                trial = mean[on] + change / 2**halving
                now = np.max(np.abs(self.missing(rows[on], trial)), axis=1, initial=0.0)
                better = now < left[on]
                mean[on[better]], left[on[better]] = trial[better], now[better]
                helped |= bool(np.any(better))
                on, change = on[~better], change[~better]
                if not on.size:
                    break
            if not helped:
                break
        return mean, left
