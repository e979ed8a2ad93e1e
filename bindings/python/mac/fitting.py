"""mac.fit: from somebody's trajectories to a closure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import Closure, UsageError
from .coupling import Rhs
from .data import DataSet, split_arrays
from .models import PathLike, load
from .study import _seed, _threads, seconds, training_result
from .systems import Experiment, as_rhs, toml_lines
from .tendency import Function, check_autonomous, difference_closure

Floats = NDArray[np.float64]
Arrays = dict[str, Floats]


def _table(name: str, settings: Mapping[str, Any]) -> str:
    return f"[{name}]\n{toml_lines(dict(settings))}"


def _as_function(rhs: Optional[Rhs]) -> Optional[Function]:
    if rhs is None:
        return None
    found = as_rhs(rhs)
    if isinstance(found, _mac.System):
        return lambda t, y: found.reduced_rhs(y)
    if not callable(found):
        raise UsageError("rhs is neither a function f(t, y) nor a mac.System nor the name of one")
    return found  # type: ignore[no-any-return]


def _trajectories(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=float)
    if array.ndim != 3:
        raise UsageError(f"{name} has shape {array.shape}, expected (trajectories, times, variables)")
    return array


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr)


def _with_closure(
    name: str, resolved: ArrayLike, closure: Optional[ArrayLike], rhs: Function, targets: Sequence[int], dt: float, quiet: bool
) -> Arrays:
    if closure is not None:
        return split_arrays(name, resolved, closure)
    y = _trajectories(f"resolved of {name}", resolved)
    if not np.all(np.isfinite(y)):
        raise UsageError(f"resolved of {name} holds a number that is not finite")
    computed = difference_closure(y, dt, rhs, targets)
    note = f"closure of {name}: differences of 4th order, error about {100 * computed.error:.2g} %"
    if computed.unexplained > 0.01:
        note += f"; {100 * computed.unexplained:.0f} % of dy/dt - rhs lies in equations that are not among the targets"
    _say(note, quiet)
    return split_arrays(name, y, computed.closure, computed.mean)


def _shares(arrays: Arrays, share: float, past: int) -> tuple[Arrays, Arrays]:
    """The last trajectories are kept for validation; of a single one its last part, after a history of `past` steps."""
    if not 0 <= share < 1:
        raise UsageError(f"validation is {share}, expected a share of the trajectories, or (resolved, closure)")
    count, times = arrays["resolved"].shape[:2]
    if count == 1:
        end = times - max(2, round(float(share) * times))
        if end < past + 2:
            raise UsageError(f"one trajectory of {times} times leaves none for validation: give arrays")
        ends = {"resolved": end, "closure": end, "closure_mean": end - 1}
        learned = {key: array[:, : ends[key]] for key, array in arrays.items()}
        return learned, {key: array[:, end - past :] for key, array in arrays.items()}
    kept = max(1, round(float(share) * count))
    if kept >= count:
        raise UsageError(f"{count} trajectories leave none for validation: give arrays")
    return {key: array[:-kept] for key, array in arrays.items()}, {key: array[-kept:] for key, array in arrays.items()}


def fit(
    path: PathLike,
    resolved: Union[ArrayLike, DataSet],
    closure: Optional[ArrayLike] = None,
    dt: Optional[float] = None,
    *,
    rhs: Optional[Rhs] = None,
    validation: Union[float, ArrayLike, tuple[ArrayLike, ArrayLike]] = 0.1,
    names: Optional[Sequence[str]] = None,
    targets: Optional[Sequence[int]] = None,
    target: str = "instant",
    history: float = 0.0,
    recipe: Optional[str] = None,
    budget: Union[None, float, str] = None,
    kind: Optional[str] = None,
    d_model: Optional[int] = None,
    blocks: Optional[int] = None,
    d_state: Optional[int] = None,
    steps: int = 4000,
    training: Optional[Mapping[str, Any]] = None,
    seed: int = 0,
    resume: bool = False,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = True,
) -> Closure:
    """Train a closure on arrays, write it to `path` and open it.

    resolved    (trajectories, times, variables), saved every dt; or a data set, as mac.read gives it, with its
                splits train and validation, its names and its dt
    closure     (trajectories, times, components), the closure at those times; None: dy/dt - rhs, by differences of
                fourth order; without rhs the whole of dy/dt
    rhs         the reduced right-hand side f(t, y), vectorised over rows, as in mac.rollout: trials are judged with it
    validation  the share of the trajectories that is kept for it (at least one; of a single one its last part), or
                arrays of their own
    names       of the variables; default y1, y2, ...
    targets     the equation of each closure component; default: all in order
    target      "instant": the closure at a time; "mean": over the step that follows, so that the reduced RK4 step
                lands on the next saved state exactly
    history     length of the true past that is read before the closure runs: for hidden variables that the
                resolved ones do not show at first
    recipe      "auto" searches for the kind of the network, noise, learning rate and size, and judges by free
                rollouts over the validation data; "fast" trains once with the settings as they are
    budget      seconds, or "10min": trials that would take longer are left out
    kind        of the network: "mamba", "gru", ...; default: mamba or gru, whichever does better; with "fast" mamba
    d_model, blocks, d_state  sizes of the network; default: searched for
    training    further settings of the [training] table: noise, max_lr, batch, loss_weights, window, ...

    closure.metadata("search") says as JSON what was tried; a ClosureWarning says where nothing was better than no
    closure. Beside `path` it writes the data as PATH.data.h5, and on Ctrl-C what resume = True goes on from.
    """
    if isinstance(resolved, DataSet):
        data_set = resolved
        dt = data_set.dt if dt is None else dt
        names = data_set.names if names is None else names
        if "validation" in data_set and np.ndim(validation) == 0:
            validation = data_set["validation"].resolved
        resolved = data_set["train"].resolved
    if dt is None or not float(dt) > 0:
        raise UsageError(f"dt is {dt}, expected the time between two saved times")
    first = _trajectories("resolved of train", resolved)
    variables = first.shape[2]
    names = list(names) if names is not None else [f"y{i + 1}" for i in range(variables)]
    if len(names) != variables:
        raise UsageError(f"there are {len(names)} names for {variables} variables")
    components = variables if closure is None else np.shape(closure)[-1]
    if targets is None and closure is not None and components != variables:
        raise UsageError(f"{components} closure components for {variables} variables: say in targets which equation each is for")
    target_list = list(targets) if targets is not None else list(range(variables))
    if closure is None:
        components = len(target_list)
    if len(target_list) != components or not all(0 <= index < variables for index in target_list):
        raise UsageError(f"targets is {target_list}, expected {components} numbers of variables, below {variables}")

    function = _as_function(rhs)
    if function is not None:
        check_autonomous(function, first, float(dt))
    equations = "function" if function is not None else "zero" if closure is None else "none"
    reduced: Function = function if function is not None else lambda t, y: np.zeros_like(y)
    train_arrays = _with_closure("train", resolved, closure, reduced, target_list, float(dt), quiet)
    if isinstance(validation, (tuple, list)):
        if len(validation) != 2:
            raise UsageError(f"validation has {len(validation)} arrays, expected (resolved, closure)")
        validation_arrays = _with_closure("validation", *validation, reduced, target_list, float(dt), quiet)
    elif np.ndim(validation) == 0:
        train_arrays, validation_arrays = _shares(train_arrays, float(np.asarray(validation)), round(history / float(dt)))
    elif closure is None:
        validation_arrays = _with_closure("validation", validation, None, reduced, target_list, float(dt), quiet)
    else:
        raise UsageError("validation is an array, expected (resolved, closure)")
    splits = {"train": train_arrays, "validation": validation_arrays}

    given = dict(training or {})
    if recipe is None:  # what says how to select or what to do one after the other is not for a search
        recipe = "fast" if {"select", "stages"} & set(given) else str(given.get("recipe", "auto"))
    settings: dict[str, Any] = {"recipe": recipe, "steps": steps, "augmentation": False, "seed": seed, "target": target, "normalisation": "max_abs"}
    if target == "mean":
        settings["hold"] = "zero"  # held constant, the mean is what makes a step exact
    if history:
        settings["history"] = float(history)
    if recipe != "auto":
        settings["select"] = "loss"
    if kind is None:
        kind = "auto" if recipe == "auto" and d_state is None else "mamba"
    model: dict[str, Any] = {"name": "closure", "kind": kind}
    sizes = {"d_model": d_model, "blocks": blocks, "d_state": d_state if kind != "auto" and _mac.layer_kind_has_states(kind) else None}
    if recipe != "auto":
        usual = {"d_model": 16, "blocks": 2, "d_state": 8 if _mac.layer_kind_has_states(kind) else None}
        sizes = {key: usual[key] if value is None else value for key, value in sizes.items()}
    model |= {key: value for key, value in sizes.items() if value is not None}
    system: dict[str, Any] = {"name": "recorded", "resolved": names, "targets": [names[i] for i in target_list]}
    if equations != "none":
        system["equations"] = equations
    text = _table("system", system) + _table("data", {"dt": float(dt)})
    for name, arrays in splits.items():
        trajectories, times = arrays["resolved"].shape[:2]
        text += _table(f"data.{name}", {"trajectories": trajectories, "horizon": (times - 1) * float(dt)})
    text += "[" + _table("models", model).replace("]\n", "]]\n", 1) + _table("training", {**settings, **given})
    experiment = Experiment(text, "fit")

    data = Path(path).with_suffix(".data.h5")
    _mac.write_data(experiment._experiment, splits, str(data))
    with np.errstate(all="ignore"):  # rollouts of a trial may leave the domain of rhs: that is counted, not shouted
        result = _mac.train(
            experiment._experiment, "closure", str(data), str(path), _seed(seed), resume, device, _threads(threads), quiet,
            function, seconds(budget),
        )  # fmt: skip
    outcome = training_result(path, result)
    _say(outcome.table, quiet)
    return load(path)
