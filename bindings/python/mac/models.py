"""Opening trained closures, from a file or from the zoo."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Optional, Union

from ._mac import Closure, Error, UsageError

PathLike = Union[str, "os.PathLike[str]"]


def _zoo_folders() -> list[Path]:
    """Where trained models may lie: $MAC_ZOO, the package, the installation, the source tree around a build."""
    package = Path(__file__).resolve().parent
    folders = [Path(os.environ["MAC_ZOO"])] if os.environ.get("MAC_ZOO") else []
    folders += [package / "zoo", Path(sys.prefix) / "share" / "mac" / "zoo", Path("/usr/local/share/mac/zoo")]
    folders += [parent / "zoo" for parent in package.parents[1:3]]
    return [folder for folder in folders if folder.is_dir()]


def zoo() -> dict[str, Path]:
    """The trained models that came with MAC, by name."""
    models: dict[str, Path] = {}
    for folder in _zoo_folders():
        for path in sorted(folder.rglob("*.safetensors")):
            models.setdefault(path.stem, path)
    return models


def model_path(model: PathLike) -> Path:
    """A file as it is; else the model of the zoo with that name."""
    if not isinstance(model, (str, os.PathLike)):
        raise UsageError(f"model is a {type(model).__name__}, expected a file or the name of a model of the zoo")
    path = Path(model)
    if path.exists() or path.name != str(model) or path.suffix:
        return path
    models = zoo()
    if path.name not in models:
        there = ", ".join(sorted(models)) or "no model at all"
        raise UsageError(f"{model}: is neither a file nor a model of the zoo, which has {there}")
    return models[path.name]


def load(model: PathLike, precision: Optional[str] = None) -> Closure:
    """Open a trained closure: a .safetensors file, or the name of a model of the zoo.

    The network computes in precision, "float32" or "float64", by default in what the file stores. The closure
    starts at rest.
    """
    path = model_path(model)
    if precision is not None and not isinstance(precision, str):
        raise UsageError(f'precision is {precision!r}, expected "float32" or "float64"')
    try:
        file_bytes = path.read_bytes()
    except OSError as error:
        raise Error(f"{path}: cannot be read: {error.strerror}") from None
    return Closure(file_bytes, str(path), precision)
