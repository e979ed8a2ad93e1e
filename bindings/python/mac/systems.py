"""Systems, built-in or one's own, and the experiments that describe studies of them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mac
from ._mac import UsageError


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else toml_value(key)


def toml_value(value: Any) -> str:
    """A Python value as TOML writes it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # as TOML wants it
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    raise UsageError(f"a setting is a {type(value).__name__}, expected a number, text, a list or a dict")


def toml_lines(settings: dict[str, Any]) -> str:
    """key = value, a line each."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in settings.items())


def system_names() -> list[str]:
    """Names that mac.System and the [system] table of an experiment know."""
    return _mac.system_names()


def _system_table(text: str, source: str) -> dict[str, Any]:
    """The [system] table of TOML text, or all of it."""
    try:
        import tomllib
    except ImportError as error:  # before Python 3.11
        raise UsageError("mac.System.from_equations needs Python 3.11 or later") from error
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from error
    table = root.get("system", root)
    if not isinstance(table, dict):
        raise UsageError(f"{source}: system is a {type(table).__name__}, expected a table")
    return table


class System:
    """A system: its variables and its reduced right-hand side.

    mac.System("burgers", viscosity=0.1) is a built-in one, with the parameters of an experiment's [system] table;
    System.from_equations and System.from_functions make others. mac.Experiment(text, system=system) is a study of it.
    """

    _table: Optional[dict[str, Any]] = None  # what [system] says in an experiment

    def __init__(self, name: str, **parameters: Any) -> None:
        self._table = {"name": name, **parameters}
        self._system = _mac.System(toml_lines(self._table))

    @classmethod
    def from_equations(cls, source: Union[str, os.PathLike[str]]) -> System:
        """A system whose equations are text (docs/your-system.md).

        source: the path of an experiment, whose [system] it is, or TOML text: that table, or its keys alone.
        """
        text, name = (source, "equations") if isinstance(source, str) and "\n" in source else (None, str(source))
        if text is None:
            try:
                text = Path(source).read_text(encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
        table = _system_table(text, name)
        if table.get("kind") != "equations":
            raise UsageError(f'{name}: kind is {table.get("kind")!r}, expected "equations"')
        system = cls._wrap(_mac.text_system(text, name))
        system._table = table
        return system

    @classmethod
    def from_functions(
        cls,
        name: str,
        *,
        full: Callable[[NDArray[np.float64]], ArrayLike],
        reduced: Callable[[NDArray[np.float64]], ArrayLike],
        sample: Callable[[np.random.Generator], ArrayLike],
        names: Optional[Sequence[str]] = None,
        targets: Optional[Sequence[Union[int, str]]] = None,
        reduced_vjp: Optional[Callable[[NDArray[np.float64], NDArray[np.float64]], ArrayLike]] = None,
        warmup_steps: int = 0,
        size: Optional[int] = None,
        resolved: Optional[Sequence[str]] = None,
    ) -> System:
        """A system whose equations are NumPy functions, known by its name for the rest of the process.

        full(z) are the rates of full states z (columns, size), whose first variables are the resolved ones;
        reduced(y) those of y (columns, resolved) without closure; sample(rng) is a random initial state (size,).
        names: of the resolved variables; resolved is an older word for it. size is what sample gives where not said.
        targets: the resolved variables whose equations have a closure, by name or number, all by default.
        reduced_vjp(y, v): the rows of v times the Jacobian of reduced at those of y; differences without it.
        """
        if (names is None) == (resolved is None):
            raise UsageError("from_functions takes the names of the resolved variables, names=[...]")
        known = list(names if names is not None else resolved or [])
        if targets is None:
            targets = range(len(known))
        chosen = []
        for target in targets:
            if isinstance(target, str) and target not in known:
                raise UsageError(f"targets has {target!r}, expected some of {', '.join(known)}")
            chosen.append(known.index(target) if isinstance(target, str) else int(target))
        if any(target < 0 for target in chosen):
            raise UsageError(f"targets is {chosen}, expected whole numbers from 0 on")
        if size is None:
            size = np.asarray(sample(np.random.default_rng(0))).size
        if warmup_steps < 0 or size < 0:
            raise UsageError("size and warmup_steps are whole numbers from 0 on")
        system = cls._wrap(
            _mac.function_system(name, full, reduced, sample, known, size, chosen, warmup_steps, reduced_vjp)
        )
        system._table = {"name": name}
        return system

    @classmethod
    def _wrap(cls, system: _mac.System) -> System:
        wrapped = cls.__new__(cls)
        wrapped._system = system
        return wrapped

    def _in_experiment(self, text: str) -> str:
        """The text of an experiment that lacks its [system]."""
        if self._table is None:
            raise UsageError("the system is part of an experiment already")
        return f"system = {toml_value(self._table)}\n{text}"

    @property
    def name(self) -> str:
        return self._system.name

    @property
    def resolved_names(self) -> list[str]:
        return self._system.resolved_names

    @property
    def closure_names(self) -> list[str]:
        return self._system.closure_names

    @property
    def closure_targets(self) -> list[int]:
        """Closure component j is added to equation closure_targets[j]."""
        return self._system.closure_targets

    def reduced_rhs(self, y: ArrayLike) -> NDArray[np.float64]:
        """The right-hand side without closure of y, (variables,) or (columns, variables)."""
        return self._system.reduced_rhs(y)

    def __call__(self, t: float, y: ArrayLike) -> NDArray[np.float64]:
        return self.reduced_rhs(y)

    def __repr__(self) -> str:
        return f"<mac.System {self.name}: {' '.join(self.resolved_names)}>"


class Experiment:
    """A study as an experiment file describes it (docs/experiments.md)."""

    def __init__(self, text: str, name: str = "experiment", *, system: Optional[System] = None) -> None:
        """From TOML text, with `system` if it has no [system] of its own; `name` stands for the file in messages."""
        self._experiment = _mac.Experiment.parse(system._in_experiment(text) if system else text, name)

    @classmethod
    def read(cls, path: Union[str, os.PathLike[str]]) -> Experiment:
        """From an experiment file."""
        return cls._wrap(_mac.Experiment.read(str(path)))

    @classmethod
    def _wrap(cls, experiment: _mac.Experiment) -> Experiment:
        wrapped = cls.__new__(cls)
        wrapped._experiment = experiment
        return wrapped

    @property
    def text(self) -> str:
        return self._experiment.text

    @property
    def system(self) -> System:
        return System._wrap(self._experiment.system)

    @property
    def closure_step(self) -> float:
        """Time between two saved times, and between two steps of a closure."""
        return self._experiment.closure_step

    @property
    def splits(self) -> dict[str, dict[str, Any]]:
        """Trajectories, times and horizon of each split."""
        return self._experiment.splits

    @property
    def models(self) -> dict[str, str]:
        """Name and kind of each model."""
        return self._experiment.models

    def __repr__(self) -> str:
        return f"<mac.Experiment {self._experiment.file}: {self.system.name}, models {', '.join(self.models) or 'none'}>"


AnyExperiment = Union[Experiment, str, "os.PathLike[str]"]


def as_experiment(experiment: AnyExperiment) -> Experiment:
    """An experiment, or the path of its file."""
    if isinstance(experiment, Experiment):
        return experiment
    if isinstance(experiment, str) and "\n" in experiment:
        raise UsageError("the experiment is TOML text, expected a path; mac.Experiment(text) reads it")
    if isinstance(experiment, (str, os.PathLike)):
        return Experiment.read(Path(experiment))
    raise UsageError(f"an experiment is a mac.Experiment or a path, not {type(experiment).__name__}")


def as_rhs(rhs: Any) -> Any:
    """A system by name, a mac.System or a function, as the compiled rollout takes it."""
    if isinstance(rhs, str):
        rhs = System(rhs)
    return rhs._system if isinstance(rhs, System) else rhs


__all__ = ["AnyExperiment", "Experiment", "System", "system_names"]
