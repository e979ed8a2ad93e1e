"""The closure of recorded trajectories: what the reduced right-hand side leaves out of dy/dt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._mac import UsageError

Floats = NDArray[np.float64]
Function = Callable[[float, Floats], ArrayLike]
Derivative = Callable[[float, Floats, Floats], ArrayLike]

# Fourth-order first differences at the five points of a stencil, in units of 1/(12 dt): row k is for the k-th point.
_STENCILS = np.array(
    [
        [-25, 48, -36, 16, -3],
        [-3, -10, 18, -6, 1],
        [1, -8, 0, 8, -1],
        [-1, 6, -18, 10, 3],
        [3, -16, 36, -48, 25],
    ],
    dtype=float,
)


def derivative(y: Floats, dt: float) -> Floats:
    """dy/dt (trajectories, times, variables) by differences of fourth order, one-sided at the ends."""
    times = y.shape[1]
    if times < 5:
        raise UsageError(f"trajectories of {times} times are too short for differences of fourth order, which need 5")
    rate = np.empty_like(y)
    rate[:, 2:-2] = y[:, :-4] - 8 * y[:, 1:-3] + 8 * y[:, 3:-1] - y[:, 4:]
    for k in (0, 1):
        rate[:, k] = np.einsum("s,nsv->nv", _STENCILS[k], y[:, :5])
        rate[:, -1 - k] = np.einsum("s,nsv->nv", _STENCILS[4 - k], y[:, -5:])
    return rate / (12 * dt)


@dataclass(frozen=True)
class Computed:
    """A closure from differences. The error is that of the differences, relative to the closure."""

    closure: Floats  # (trajectories, times, components)
    mean: Floats  # (trajectories, times - 1, components), over the step that follows
    error: float
    unexplained: float  # share of dy/dt - rhs that lies in equations without a closure


def evaluate(rhs: Function, y: Floats) -> Floats:
    """rhs at all states of y (trajectories, times, variables), in one call."""
    columns = y.reshape(-1, y.shape[-1])
    rate = np.asarray(rhs(0.0, columns), dtype=float)
    if rate.shape != columns.shape:
        raise UsageError(f"the right-hand side gave the shape {rate.shape}, expected that of y, {columns.shape}")
    return rate.reshape(y.shape)


def check_autonomous(rhs: Function, y: Floats, dt: float) -> None:
    """Trials start at any time of a trajectory, so the right-hand side must not depend on it."""
    states = np.ascontiguousarray(y[:, 0])
    first, later = np.asarray(rhs(0.0, states)), np.asarray(rhs(17.3 * dt + 1.7, states))
    if first.shape == later.shape and not np.array_equal(first, later, equal_nan=True):
        raise UsageError("rhs(t, y) depends on t: make what drives it a resolved variable, and the right-hand side a function of y alone")


def check_derivative(key: str, derivative: Derivative, rhs: Function, y: Floats) -> None:
    """Central differences at some states: v^T J w of both must be the same."""
    states = np.ascontiguousarray(y[:8, y.shape[1] // 2])
    rng = np.random.default_rng(0)
    size = np.max(np.abs(y), axis=(0, 1)) + 1e-300
    v, w = rng.normal(size=states.shape), rng.normal(size=states.shape)
    v, w = (v, w * size) if key == "rhs_vjp" else (v * size, w)
    product = np.asarray(derivative(0.0, states.copy(), v.copy()), dtype=float)
    if product.shape != states.shape:
        raise UsageError(f"{key} gave the shape {product.shape}, expected that of y, {states.shape}")
    along = w if key == "rhs_vjp" else v
    step = 1e-5
    change = (np.asarray(rhs(0.0, states + step * along)) - np.asarray(rhs(0.0, states - step * along))) / (2 * step)
    left, right = np.sum(product * w, axis=1), np.sum(change * (v if key == "rhs_vjp" else w), axis=1)
    scale = np.sum(np.abs(change * (v if key == "rhs_vjp" else w)), axis=1) + np.sum(np.abs(product * w), axis=1)
    if not np.all(np.abs(left - right) <= 1e-4 * scale):  # differences of a step of 1e-5 of the data's size
        raise UsageError(f"{key} is not the derivative of rhs: {left[0]:.6g} where differences give {right[0]:.6g}")


def difference_closure(y: Floats, dt: float, rhs: Function, targets: Sequence[int]) -> Computed:
    """dy/dt - rhs(y) by differences, and the step means that make the reduced RK4 step land on the next state."""
    reduced = evaluate(rhs, y)
    rate = derivative(y, dt)
    whole = rate - reduced
    closure = whole[..., list(targets)]
    size = float(np.sqrt(np.mean(closure**2)))
    # Differences of the double step are 16 times as wrong: a fifteenth of what they differ by is the error.
    if y.shape[1] >= 9:
        inner = y[:, 4:-4]
        coarse = (y[:, :-8] - 8 * y[:, 2:-6] + 8 * y[:, 6:-2] - y[:, 8:]) / (24 * dt)
        fine = rate[:, 4:-4]
        error = float(np.sqrt(np.mean((coarse - fine)[..., list(targets)] ** 2))) / 15 if inner.size else np.nan
    else:
        error = float("nan")
    total = float(np.sum(whole**2))
    rest = 1 - float(np.sum(closure**2)) / total if total > 0 else 0.0
    return Computed(closure, step_means(y, dt, rhs, targets), error / size if size > 0 else np.nan, max(rest, 0.0))


def step_means(y: Floats, dt: float, rhs: Function, targets: Sequence[int], iterations: int = 50) -> Floats:
    """The constant closure of each step with which RK4 of the reduced equations lands on the next saved state.

    A fixed point: each pass adds what is still missing of the step, divided by dt. It contracts by about dt times
    the Jacobian, so a few passes reach rounding wherever RK4 is accurate at all.
    """
    chosen = list(targets)
    start, end = y[:, :-1], y[:, 1:]
    mean = np.zeros(start.shape[:-1] + (len(chosen),))
    missing, last = np.zeros(()), np.inf
    for _ in range(iterations):
        forcing = np.zeros_like(start)
        forcing[..., chosen] = mean
        k1 = evaluate(rhs, start) + forcing
        k2 = evaluate(rhs, start + dt / 2 * k1) + forcing
        k3 = evaluate(rhs, start + dt / 2 * k2) + forcing
        k4 = evaluate(rhs, start + dt * k3) + forcing
        missing = ((end - start) / dt - (k1 + 2 * k2 + 2 * k3 + k4) / 6)[..., chosen]
        left = float(np.max(np.abs(missing), initial=0.0))
        if not left < last:  # rounding, or steps too long to contract
            break
        mean = mean + missing
        last = left
    return mean
