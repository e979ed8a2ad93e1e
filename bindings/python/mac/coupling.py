"""Rollouts: a right-hand side with a closure beside it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Callable, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import Closure, UsageError
from .checks import numbers
from .inputs import Inputs, run_inputs
from .systems import System, as_rhs


class ClosureWarning(UserWarning):
    """A closure that should not be trusted: worse than none, blown up, out of its range (docs/verdict.md)."""


Rhs = Union[None, str, System, Callable[[float, NDArray[np.float64]], ArrayLike]]


@dataclass(frozen=True)
class Rollout:
    """A rollout. The arrays have a leading axis of columns exactly if y0 had one."""

    time: NDArray[np.float64]  # (times,)
    resolved: NDArray[np.float64]  # ([columns,] times, variables); NaN from a blow-up on
    closure: NDArray[np.float64]  # ([columns,] times, components)
    blow_up_time: NDArray[np.float64]  # ([columns]); NaN where there was none


def _whole_ratio(a: float, b: float) -> int:
    """a / b where that is a whole number, else 0."""
    ratio = round(a / b)
    return ratio if ratio >= 1 and abs(ratio * b - a) <= 1e-6 * b else 0


def _steps_between(time: NDArray[np.float64], dt: Optional[float], own: Optional[float]) -> tuple[float, int]:
    """The RK4 step, and how many of them lie between two saved times; `own` is the closure step."""
    if time.ndim != 1 or time.size < 2:
        raise UsageError(f"t has shape {time.shape}, expected at least two times")
    if not np.all(np.isfinite(time)):
        raise UsageError("t holds a time that is not finite")
    spacing = float(time[-1] - time[0]) / (time.size - 1)
    if spacing <= 0 or np.max(np.abs(np.diff(time) - spacing)) > 1e-6 * spacing:
        raise UsageError("the times of t must increase by equal steps")
    if dt is not None and (not dt > 0 or not np.isfinite(dt)):
        raise UsageError(f"dt is {dt}, expected a step > 0")
    if own is not None and dt is None and not _whole_ratio(spacing, own):
        pieces = _whole_ratio(own, spacing)
        if not pieces:
            raise UsageError(f"t has steps of {spacing:g}, which is no multiple of the closure step {own:g}, and no whole fraction of it")
        return own / pieces, 1
    if own is not None and dt is not None:
        pieces = _whole_ratio(own, dt)
        if not pieces and not _whole_ratio(dt, own):
            raise UsageError(f"dt is {dt}, but the closure was trained for a step of {own}: expected a whole fraction or a multiple of it")
        step = own / max(pieces, 1)  # of a longer host step every closure step is taken
    else:
        step = spacing if dt is None and own is None else float(own if dt is None else dt)  # type: ignore[arg-type]
    every = _whole_ratio(spacing, step)
    if not every or (dt is not None and not _whole_ratio(spacing, dt)):
        raise UsageError(f"t has steps of {spacing:g}, which is no multiple of the step {step if dt is None else dt:g}")
    return step, every


def _past(past: Optional[ArrayLike], closure: Optional[Closure], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns, times, variables)"""
    if past is None:
        return np.zeros((1, 0, 0))
    if closure is None:
        raise UsageError("the past is what a closure reads, and there is none")
    states = numbers("past", past, "the states before y0")
    if start.ndim == 1:
        states = states[None]
    columns = start.reshape(-1, start.shape[-1]).shape
    if states.ndim != 3 or (states.shape[0], states.shape[2]) != columns:
        shape = "(times, variables)" if start.ndim == 1 else "(columns, times, variables)"
        raise UsageError(f"past has shape {np.shape(past)}, expected {shape} for y0 of shape {start.shape}")
    if not np.all(np.isfinite(states)):
        raise UsageError("past holds a number that is not finite")
    return np.ascontiguousarray(states)


def _nothing(closure: Optional[Closure]) -> Callable[[float, NDArray[np.float64]], ArrayLike]:
    """The right-hand side of a closure that needs none."""
    text = closure.metadata("data_experiment") if closure is not None else None
    if not text or _mac.Experiment.parse(text, "closure").recorded_equations != "zero":
        raise UsageError(
            "rhs is None, neither a function f(t, y) nor a mac.System: only a closure that is the whole of dy/dt, as mac.fit makes it "
            "without rhs, runs without"
        )
    return lambda t, y: np.zeros_like(y)


def rollout(
    rhs: Rhs,
    y0: ArrayLike,
    t: ArrayLike,
    closure: Optional[Closure] = None,
    *,
    hold: Optional[str] = None,
    targets: Optional[Sequence[int]] = None,
    dt: Optional[float] = None,
    inputs: Optional[Inputs] = None,
    past: Optional[ArrayLike] = None,
    continued: bool = False,
    allow_other_parameters: bool = False,
) -> Rollout:
    """Advance dy/dt = rhs(t, y) + closure from y0 by RK4 and give y at the times t.

    rhs      "burgers" or another system's name, a mac.System, or a function f(t, y) of arrays shaped like y0; None: nothing, for
             a closure that is the whole of dy/dt
    y0       (variables,) or (columns, variables): all columns advance together
    t        equally spaced times, a multiple or a whole fraction of the closure step apart
    closure  a mac.Closure; None: none
    hold     the closure within a step: "zero" (constant), "linear" (extrapolated) or "stage" (predicted at every
             Runge-Kutta stage); default: as the closure was trained
    targets  the equations to which the closure's components belong; default: the system's, or as the closure says
    dt       the step of RK4: a whole fraction of the closure step, within which the closure is held as `hold` says, or a
             multiple, of which every closure step is taken; default: the closure step, or the spacing of t
    inputs   what the closure reads beside the state, by name: a number, one a column (columns,), one at each closure step
             (columns, closure steps + 1) from t[0] on, or a function of t; with a past, from its first time on
    past     ([columns,] times, variables): the true states at the closure steps before y0, which the closure reads first
    continued  go on from the closure's memory instead of from rest
    allow_other_parameters  take a closure that was trained with other parameters of the system, with a warning

    With a built-in system the numbers are those of `mac rollout` to the last bit. Afterwards the closure's
    memory is that of the end: rollout(rhs, run.resolved[..., -1, :], later, closure, continued=True) goes on as
    if there had been no break, and closure.state saves it.
    """
    if closure is not None and not isinstance(closure, Closure):
        raise UsageError(f"closure is a {type(closure).__name__}, expected a mac.Closure; mac.load() opens one")
    if hold is not None and not isinstance(hold, str):
        raise UsageError(f'hold is {hold!r}, expected "zero", "linear" or "stage"')
    time = numbers("t", t, "times")
    own = closure.closure_step if closure is not None else None
    step, every = _steps_between(time, dt, own)
    if targets is not None and not all(isinstance(i, (int, np.integer)) and i >= 0 for i in targets):
        raise UsageError(f"targets is {list(targets)}, expected the numbers of equations, from 0")
    start = numbers("y0", y0, "a state or several")
    if not np.all(np.isfinite(start)):
        raise UsageError("y0 holds a number that is not finite")
    closure_step, steps = own or step, every * (time.size - 1)
    before = _past(past, closure, start)
    ahead = int(np.ceil(steps * step / closure_step - 1e-6)) + 1
    closure_times = time[0] + closure_step * np.arange(-before.shape[1], ahead)
    if inputs is not None and closure is None:
        raise UsageError("inputs are what a closure reads, and there is none")
    given_names, given = run_inputs(inputs, None if start.ndim == 1 else start.shape[0], closure_times)
    right_hand_side = _nothing(closure) if rhs is None else as_rhs(rhs)
    built_in = isinstance(right_hand_side, _mac.System)
    if closure is not None and built_in and closure.system in ("", right_hand_side.name):  # else refused below
        difference = _mac.other_parameters(closure, right_hand_side)
        if difference and not allow_other_parameters:
            raise UsageError(f"{difference}; allow_other_parameters=True uses it all the same")
        if difference:
            warnings.warn(difference, ClosureWarning, stacklevel=2)
    resolved, closures, blow_up_time = _mac.roll_out(
        right_hand_side,
        start,
        float(time[0]),
        step,
        steps,
        every,
        closure,
        hold,
        None if targets is None else list(targets),
        continued,
        given_names,
        given,
        before,
    )
    if start.ndim == 1:
        resolved, closures, blow_up_time = resolved[0], closures[0], blow_up_time[0]
    return Rollout(time, resolved, closures, blow_up_time)
