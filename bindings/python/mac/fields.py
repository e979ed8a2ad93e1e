"""Fields on a lattice: what mac.fit(local=...) makes of their arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._mac import UsageError
from .checks import numbers

Floats = NDArray[np.float64]
EDGES = ("periodic", "nearest", "zero", "mirror")
_SETTINGS = {"stencil", "edges", "state"}


@dataclass(frozen=True)
class Lattice:
    """Fields at the same sites, one after the other in a state."""

    fields: list[str]
    extents: tuple[int, ...]
    settings: Mapping[str, Any]  # stencil, edges, state

    @property
    def sites(self) -> int:
        return int(np.prod(self.extents))

    def names(self) -> list[str]:
        return [f"{field}{site + 1}" for field in self.fields for site in range(self.sites)]

    def targets(self, targets: Optional[Sequence[Union[int, str]]]) -> list[int]:
        """Equations of all sites of the fields that are meant."""
        chosen = range(len(self.fields)) if targets is None else [index_of(target, self.fields, "fields") for target in targets]
        return [field * self.sites + site for field in chosen for site in range(self.sites)]

    def system(self) -> dict[str, Any]:
        """[system.lattices]"""
        entry = {"edges": self.settings["edges"], "extents": list(self.extents)}
        return {
            field: {**entry, "variables": [f"{field}{site + 1}" for site in range(self.sites)]} if len(self.fields) > 1 else entry
            for field in self.fields
        }

    def model(self) -> dict[str, Any]:
        """`local` of a model."""
        stencil = self.settings.get("stencil", [[-1, 1]] * len(self.extents) if len(self.extents) > 1 else [-1, 1])
        return {"of": self.fields, "stencil": stencil}


def index_of(target: Any, names: Sequence[str], what: str) -> int:
    """A number or a name as a number."""
    if isinstance(target, str) and target in names:
        return list(names).index(target)
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool) and 0 <= target < len(names):
        return int(target)
    raise UsageError(f"targets has {target!r}, expected numbers from 0 or names of {what}: {', '.join(names)}")


def read_local(local: Any, names: Optional[Sequence[str]], shape: tuple[int, ...]) -> Lattice:
    """The lattice of arrays (trajectories, times, sites...), one for each field."""
    if not isinstance(local, Mapping):
        raise UsageError(f'local is {local!r}, expected a dict: {{"stencil": [-2, 2], "edges": "periodic"}}')
    unknown = set(local) - _SETTINGS
    if unknown:
        raise UsageError(f"local has an unknown {' and '.join(sorted(map(str, unknown)))}; expected {', '.join(sorted(_SETTINGS))}")
    edges = local.get("edges")
    if not edges or not set([edges] if isinstance(edges, str) else edges) <= set(EDGES):
        raise UsageError(f"local: edges is {edges!r}, expected what lies beyond the ends of the field: {', '.join(EDGES)}")
    if not 3 <= len(shape) <= 5:
        raise UsageError(f"a field has shape {shape}, expected (trajectories, times, sites), with up to three axes of sites")
    fields = list(names) if names is not None else ["u"]
    for field in fields:
        if not re.fullmatch(r"[^\W\d]\w*", field):
            raise UsageError(f"the field {field!r} needs a name of letters, digits and _: the network's inputs are called {field}[-1], ...")
    return Lattice(fields, tuple(shape[2:]), local)


def flat(name: str, values: Union[ArrayLike, Mapping[str, ArrayLike]], fields: Optional[Sequence[str]]) -> Floats:
    """(trajectories, times, fields * sites) from an array of one field, or from one for each field."""
    if isinstance(values, Mapping):
        missing = [field for field in fields or values if field not in values]
        if missing:
            raise UsageError(f"{name} has no field {', '.join(missing)}, only {', '.join(values)}")
        arrays = [numbers(f"{field} of {name}", values[field]) for field in (fields or values)]
    else:
        arrays = [numbers(name, values)]
    for array in arrays:
        if array.ndim < 3 or array.shape != arrays[0].shape:
            raise UsageError(
                f"{name} has fields of shapes {', '.join(str(a.shape) for a in arrays)}, expected (trajectories, times, sites), all the same"
            )
    return np.concatenate([array.reshape(*array.shape[:2], -1) for array in arrays], axis=2)
