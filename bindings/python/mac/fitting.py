"""mac.fit: from somebody's trajectories to a closure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike

from . import _mac
from ._mac import Closure, UsageError
from .coupling import Rhs
from .checks import check_leakage, check_units, time_step
from .data import DataSet
from .fields import Lattice, index_of, read_local
from .inputs import Inputs
from .models import PathLike, load
from .recordings import Arrays, Fields, Recording, add_clock, check_landing, from_arrays, from_data_set, say, shares, with_closure
from .study import _seed, _threads, seconds, training_result
from .systems import Experiment, System, as_rhs, toml_lines
from .tendency import Derivative, Function, check_derivative, check_order, depends_on_time, evaluate, with_clock

Split = Union[float, Fields, tuple[Fields, Fields], Mapping[str, Any]]


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


def _lattice(local: Any, resolved: Any, names: Optional[Sequence[str]]) -> Optional[Lattice]:
    """Of fields: an array of one, or a dict of several."""
    if local is None:
        if isinstance(resolved, Mapping) and not isinstance(resolved, DataSet):
            raise UsageError("resolved is a dict of fields: say in local what a site sees, or give an array")
        return None
    if isinstance(resolved, DataSet):
        return read_local(local, None if names is None else names, (1, 1, len(resolved.names)))
    if isinstance(resolved, Mapping):
        if names is not None or not resolved:
            raise UsageError("resolved is a dict of fields, whose names are its keys: leave out names, and give a field")
        return read_local(local, list(resolved), np.shape(next(iter(resolved.values()))))
    if names is not None and len(names) != 1:
        raise UsageError(f"there are {len(names)} names for one field; give several fields as a dict")
    return read_local(local, names, np.shape(resolved))


def _names(names: Optional[Sequence[str]], lattice: Optional[Lattice], variables: int) -> list[str]:
    if lattice is not None:
        return lattice.names()
    if isinstance(names, str):
        raise UsageError(f'names is the text "{names}", expected a list of names')
    chosen = [str(name) for name in names] if names is not None else [f"y{i + 1}" for i in range(variables)]
    if len(chosen) != variables:
        raise UsageError(f"there are {len(chosen)} names for {variables} variables")
    return chosen


def _targets(
    targets: Optional[Sequence[Union[int, str]]], lattice: Optional[Lattice], names: Sequence[str], closure: Optional[Any]
) -> list[int]:
    """The equations of the closure's components."""
    chosen = lattice.targets(targets) if lattice is not None else None
    if chosen is None:
        if targets is None and closure is not None and closure.shape[-1] != len(names):
            raise UsageError(
                f"{closure.shape[-1]} closure components for {len(names)} variables: say in targets which equation each is for"
            )
        chosen = list(range(len(names))) if targets is None else [index_of(target, names, "variables") for target in targets]
    if not chosen or len(set(chosen)) < len(chosen):
        raise UsageError(f"targets is {list(targets or [])}, expected each equation with a closure once")
    if closure is not None and closure.shape[-1] != len(chosen):
        raise UsageError(f"targets are {len(chosen)} equations for {closure.shape[-1]} closure components")
    return chosen


def _far_from_zero(arrays: Arrays) -> bool:
    """Numbers whose changes would be lost beside their mean."""
    y = arrays["resolved"]
    mean, spread = np.mean(y, axis=(0, 1)), np.std(y, axis=(0, 1))
    closures = np.nanstd(arrays["closure"], axis=(0, 1))  # what is constant has no standard deviation to be scaled by
    return bool(np.all(spread > 0) and np.all(closures > 0) and np.any(np.abs(mean) > 10 * spread))


def _check_inputs_vary(arrays: Arrays, given: Recording) -> None:
    """What never changes cannot be learnt from, and has no scale."""
    for name, values in [*given.inputs.parameters.items(), *given.inputs.forcing.items()]:
        train = values[: arrays["resolved"].shape[0]]
        if np.ptp(train) == 0:
            raise UsageError(
                f"inputs: {name} is {train.flat[0]:g} in all of the training data, so that nothing can be learnt from it: leave it out"
            )


def _validation(split: Split, train: Recording, lattice: Optional[Lattice], dt: float) -> Optional[Recording]:
    """None: a share of the trajectories."""
    if isinstance(split, Mapping) and "resolved" in split:
        unknown = set(split) - {"resolved", "closure", "inputs"}
        if unknown:
            raise UsageError(f"validation has an unknown {', '.join(sorted(map(str, unknown)))}")
        found = from_arrays("validation", split["resolved"], split.get("closure"), split.get("inputs"), lattice, dt)
    elif isinstance(split, (tuple, list)):
        if len(split) != 2:
            raise UsageError(f"validation has {len(split)} arrays, expected (resolved, closure)")
        found = from_arrays("validation", split[0], split[1], None, lattice, dt)
    elif not isinstance(split, Mapping) and np.ndim(split) == 0:
        if not isinstance(split, (int, float, np.number)):
            raise UsageError(f"validation is {split!r}, expected a share of the trajectories, or arrays")
        return None
    else:
        found = from_arrays("validation", split, None, None, lattice, dt)
    if found.resolved.shape[2] != train.resolved.shape[2]:
        raise UsageError(f"validation has {found.resolved.shape[2]} variables, the training data {train.resolved.shape[2]}")
    if (found.closure is None) != (train.closure is None):
        raise UsageError(
            "validation is an array, expected (resolved, closure)"
            if found.closure is None
            else "validation has a closure, the training data have none"
        )
    if found.inputs.names != train.inputs.names:
        raise UsageError(
            f"validation has the inputs {', '.join(found.inputs.names) or 'none'}, the training data {', '.join(train.inputs.names) or 'none'}: "
            'give validation={"resolved": ..., "closure": ..., "inputs": {...}}'
        )
    return found


def fit(
    path: PathLike,
    resolved: Union[Fields, DataSet],
    closure: Optional[Fields] = None,
    dt: Optional[float] = None,
    *,
    rhs: Optional[Rhs] = None,
    rhs_vjp: Optional[Derivative] = None,
    rhs_jvp: Optional[Derivative] = None,
    inputs: Union[None, Inputs, Sequence[str]] = None,
    local: Optional[Mapping[str, Any]] = None,
    validation: Split = 0.1,
    names: Optional[Sequence[str]] = None,
    targets: Optional[Sequence[Union[int, str]]] = None,
    target: Optional[str] = None,
    order: int = 4,
    history: float = 0.0,
    recipe: Optional[str] = None,
    budget: Union[None, float, str] = None,
    kind: Optional[str] = None,
    d_model: Optional[int] = None,
    blocks: Optional[int] = None,
    d_state: Optional[int] = None,
    steps: Optional[int] = None,
    training: Optional[Mapping[str, Any]] = None,
    seed: int = 0,
    resume: bool = False,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = True,
) -> Closure:
    """Train a closure on arrays, write it to `path` and open it.

    resolved    (trajectories, times, variables), saved every dt; with local, a field (trajectories, times, sites), or
                several by name; or a data set, as mac.read gives it, with its splits train and validation, names, dt,
                targets, inputs and masks
    closure     (trajectories, times, components), the closure at those times; None: dy/dt - rhs, by differences;
                without rhs the whole of dy/dt
    rhs         the reduced right-hand side f(t, y), vectorised over rows, as in mac.rollout: trials are judged with it.
                Where it depends on t, trajectories start at t = 0
    rhs_vjp     v^T J of its Jacobian J at the rows of y, as f(t, y, v); or rhs_jvp: J v. For losses through rollouts, which
                take differences otherwise
    inputs      numbers that are no unknowns, by name: (trajectories,) a parameter, (trajectories, times) a forcing, or
                a function of the time, which starts at 0, that gives a number or one for each trajectory.
                The network reads them. Of a data set their names; default: all that it has
    local       one network for every site of a field: {"stencil": [-2, 2], "edges": "periodic"}
    validation  the share of the trajectories that is kept for it (at least one; of a single one its last part), or
                arrays of their own: resolved, (resolved, closure), or a dict of resolved, closure and inputs
    names       of the variables, or of a field; default y1, y2, ..., or u
    targets     the equations, by number or name, of the closure's components; default: all in order. Of fields: which
    target      "instant": the closure at a time; "mean": over the step that follows, so that the reduced RK4 step
                lands on the next saved state exactly; default: with "auto" what couples better, else "instant"
    order       of these differences: 4, or 2, which makes less of the noise in data
    history     length of the true past that is read before the closure runs: for hidden variables that the
                resolved ones do not show at first
    recipe      "auto" searches for the kind of the network, noise, learning rate and size, and judges by free
                rollouts over the validation data; "fast" trains once with the settings as they are
    budget      seconds, or "10min": trials that would take longer are left out
    kind        of the network: "mamba", "gru", ...; default: mamba or gru, whichever does better; with "fast" mamba
    d_model, blocks, d_state  sizes of the network; default: searched for
    steps       of a whole training; default: by the number of training sequences with "auto", else 4000
    training    further settings of the [training] table: noise, max_lr, batch, loss_weights, window, ...

    closure.verdict says how many times better than no closure its free rollouts are over the validation data, and how
    long they were; closure.metadata("search") as JSON what was tried and why it was chosen. A ClosureWarning says what
    speaks against the closure. Beside `path` it writes the data as PATH.data.h5, and on Ctrl-C what resume = True goes on from.
    """
    data_set = resolved if isinstance(resolved, DataSet) else None
    recorded = data_set.experiment._experiment.recorded_equations if data_set is not None else ""
    if data_set is not None and not recorded and rhs is None and not data_set.parameters:
        rhs = data_set.experiment.system
    lattice = _lattice(local, resolved, names)
    if data_set is not None:
        dt = data_set.dt if dt is None else dt
        names = data_set.names if names is None and lattice is None else names
        if targets is None and lattice is None:
            targets = list(data_set.experiment.system.closure_targets)
    step = time_step(dt)
    check_order(order)
    if not 0 <= history < float("inf"):
        raise UsageError(f"history is {history!r}, expected a length of time")
    if not str(path) or not Path(path).name:
        raise UsageError(f"path is {str(path)!r}, expected the name of a file to write")
    function = _as_function(rhs)
    if data_set is None:
        train = from_arrays("train", resolved, closure, inputs, lattice, step)  # type: ignore[arg-type]
        names = _names(names, lattice, train.resolved.shape[2])
        target_list = _targets(targets, lattice, names, train.closure)
        kept = _validation(validation, train, lattice, step)
    else:
        if closure is not None or isinstance(inputs, Mapping):
            raise UsageError("a data set has its closure and inputs: leave out closure, and say of inputs only the names")
        names = _names(names, lattice, len(data_set.names))
        target_list = _targets(targets, lattice, names, None)
        stored = recorded != "zero" or function is None  # else the closure there is the whole of dy/dt
        chosen = None if inputs is None else list(inputs)
        train = from_data_set(data_set, "train", target_list, chosen, stored)
        kept = from_data_set(data_set, "validation", target_list, chosen, stored) if "validation" in data_set else None
    clock = function is not None and depends_on_time(function, train.resolved, step)
    if function is not None and clock:
        others = [data_set is not None, lattice is not None, bool(train.inputs.names), rhs_vjp is not None, rhs_jvp is not None, "t" in names]
        if any(others):
            raise UsageError(
                "rhs(t, y) depends on t, which goes with arrays whose times start at 0, without inputs, local, rhs_vjp and rhs_jvp, and "
                'without a variable "t": else make what drives it a resolved variable, and the right-hand side a function of y alone'
            )
        function, train, kept = with_clock(function), add_clock(train, step), None if kept is None else add_clock(kept, step)
    elif function is not None:
        for key, given_derivative in [("rhs_vjp", rhs_vjp), ("rhs_jvp", rhs_jvp)]:
            if given_derivative is not None:
                check_derivative(key, given_derivative, function, train.resolved)
    elif rhs_vjp is not None or rhs_jvp is not None:
        raise UsageError("rhs_vjp and rhs_jvp are derivatives of rhs, which is not given")
    whole = train.closure is None or recorded == "zero"
    equations = "function" if function is not None else "zero" if whole else "none"
    reduced: Function = function if function is not None else lambda t, y: np.zeros_like(y)
    train_arrays = with_closure(train, reduced, target_list, step, order, quiet)
    if kept is not None:
        validation_arrays = with_closure(kept, reduced, target_list, step, order, quiet)
    else:
        train_arrays, validation_arrays = shares(train_arrays, float(np.asarray(validation)), round(history / step))
    splits = {"train": train_arrays, "validation": validation_arrays}
    _check_inputs_vary(train_arrays, train)
    check_leakage(train_arrays["resolved"], validation_arrays["resolved"])
    if function is not None:
        check_units(train_arrays["resolved"], evaluate(function, train_arrays["resolved"]), step)

    given = dict(training or {})
    if recipe is None:  # what says how to select or what to do one after the other is not for a search
        recipe = "fast" if {"select", "stages"} & set(given) else str(given.get("recipe", "auto"))
    settings: dict[str, Any] = {"recipe": recipe, "augmentation": False, "seed": seed}
    if target is not None:
        settings["target"] = target
    settings["normalisation"] = "mean_std" if _far_from_zero(train_arrays) else "max_abs"
    if target == "mean":
        settings["hold"] = "zero"  # held constant, the mean is what makes a step exact
    if clock and recipe == "auto":
        settings["validation_beyond"] = 1e-9  # rollouts end with the data: what rhs is at later times nobody said
    if history:
        settings["history"] = float(history)
    if recipe != "auto":
        settings["select"] = "loss"
    if steps is not None or recipe != "auto":
        settings["steps"] = 4000 if steps is None else steps
    if kind is None:
        kind = "auto" if recipe == "auto" and d_state is None else "mamba"
    model: dict[str, Any] = {"name": "closure", "kind": kind}
    sizes = {"d_model": d_model, "blocks": blocks, "d_state": d_state if kind != "auto" and _mac.layer_kind_has_states(kind) else None}
    if recipe != "auto":
        usual = {"d_model": 16, "blocks": 2, "d_state": 8 if _mac.layer_kind_has_states(kind) else None}
        sizes = {key: usual[key] if value is None else value for key, value in sizes.items()}
    model |= {key: value for key, value in sizes.items() if value is not None}
    if clock:
        names = [*names, "t"]
    system: dict[str, Any] = {"name": "recorded", "resolved": names, "targets": [names[i] for i in target_list]}
    if equations != "none":
        system["equations"] = equations
    model_inputs: dict[str, Any] = {"given": train.inputs.names} if train.inputs.names else {}
    if clock:  # the network reads the state without it, so that rollouts need no more than rhs(t, y)
        model_inputs["state"] = names[:-1]
    if lattice is not None:
        system["lattices"] = lattice.system()
        model["local"] = lattice.model()
        model_inputs |= {"state": list(lattice.settings["state"])} if "state" in lattice.settings else {}
    if model_inputs:
        model["inputs"] = model_inputs
    data_table: dict[str, Any] = {"dt": step}
    data_table |= {"parameters": list(train.inputs.parameters)} if train.inputs.parameters else {}
    data_table |= {"forcing": list(train.inputs.forcing)} if train.inputs.forcing else {}
    text = _table("system", system) + _table("data", data_table)
    for name, arrays in splits.items():
        trajectories, times = arrays["resolved"].shape[:2]
        text += _table(f"data.{name}", {"trajectories": trajectories, "horizon": (times - 1) * step})
    text += "[" + _table("models", model).replace("]\n", "]]\n", 1) + _table("training", {**settings, **given})
    experiment = Experiment(text, "fit")

    data = Path(path).with_suffix(".data.h5")
    masked = set(splits) if train.unknown is not None else set()
    _mac.write_data(experiment._experiment, splits, str(data), masked)
    if target != "instant" and train.closure is None:
        derivatives = (function, rhs_vjp, rhs_jvp)
        substeps = 1 if function is None else _mac.closure_substeps(experiment._experiment, str(data), *derivatives)
        asked = target == "mean"
        if (asked or substeps > 1) and check_landing(splits, step, reduced, target_list, substeps, asked):
            _mac.write_data(experiment._experiment, splits, str(data), masked)
    with np.errstate(all="ignore"):  # rollouts of a trial may leave the domain of rhs: that is counted, not shouted
        result = _mac.train(
            experiment._experiment, "closure", str(data), str(path), _seed(seed), resume, device, _threads(threads), quiet,
            function, seconds(budget), rhs_vjp, rhs_jvp,
        )  # fmt: skip
    outcome = training_result(path, result)
    trained = load(path)
    trained.verdict = list(outcome.verdict)
    say("\n".join([outcome.table, *(f"verdict: {sentence}" for sentence in outcome.verdict)]).lstrip("\n"), quiet)
    return trained
