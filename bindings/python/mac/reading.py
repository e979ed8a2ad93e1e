"""mac.read: files of other programs as a data set."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
import weakref
from typing import Mapping, Optional, Sequence, Union

from . import _mac
from ._mac import UsageError
from .checks import DataWarning
from .data import DataSet
from .systems import toml_lines

PathLike = Union[str, os.PathLike[str]]
Names = Union[str, Sequence[str]]


def _list(value: Optional[Names]) -> Optional[list[str]]:
    if value is None:
        return None
    return [value] if isinstance(value, str) else [str(item) for item in value]


def read(
    files: Union[PathLike, Sequence[PathLike]],
    path: Optional[PathLike] = None,
    *,
    variables: Optional[Names] = None,
    time: Optional[str] = None,
    dt: Optional[float] = None,
    trajectory: Optional[str] = None,
    group: Optional[str] = None,
    axes: Optional[Names] = None,
    names: Optional[Names] = None,
    units: Optional[Names] = None,
    time_unit: Optional[str] = None,
    closure: Optional[Names] = None,
    forcing: Optional[Names] = None,
    parameters: Optional[Names] = None,
    given: Optional[Mapping[str, str]] = None,
    targets: Optional[Names] = None,
    system: Optional[PathLike] = None,
    order: Optional[int] = None,
    missing: Union[None, float, Sequence[float]] = None,
    gaps: Optional[str] = None,
    longest_gap: Optional[float] = None,
    resample: Optional[float] = None,
    outliers: Optional[str] = None,
    split: Optional[str] = None,
    validation: Optional[float] = None,
    test: Optional[float] = None,
    validation_files: Optional[Names] = None,
    test_files: Optional[Names] = None,
    seed: Optional[int] = None,
    length: Optional[float] = None,
    allow_leakage: Optional[bool] = None,
    quiet: bool = True,
) -> DataSet:
    """`mac import`: NumPy, HDF5, NetCDF and CSV files as a data set, written to `path` or to a temporary file.

    The options are those of the command (docs/import.md). What looks wrong is a DataWarning; what was done is printed
    with quiet = False.
    """
    sources = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    settings = {
        "variables": _list(variables),
        "time": time,
        "dt": dt,
        "trajectory": trajectory,
        "group": group,
        "axes": _list(axes),
        "names": _list(names),
        "units": _list(units),
        "time-unit": time_unit,
        "closure": _list(closure),
        "forcing": _list(forcing),
        "parameters": _list(parameters),
        "given": None if given is None else "; ".join(f"{name} = {text}" for name, text in given.items()),
        "targets": _list(targets),
        "system": system,
        "order": order,
        "missing": [float(missing)] if isinstance(missing, (int, float)) else missing,
        "gaps": gaps,
        "longest-gap": longest_gap,
        "resample": resample,
        "outliers": outliers,
        "split": split,
        "validation": validation,
        "test": test,
        "validation-files": _list(validation_files),
        "test-files": _list(test_files),
        "seed": seed,
        "length": length,
        "allow-leakage": allow_leakage,
    }
    if not sources:
        raise UsageError("there is no file to read")
    text = toml_lines({key: value for key, value in settings.items() if value is not None})
    folder = None
    if path is None:
        folder = tempfile.TemporaryDirectory(prefix="mac-read-")
        path = os.path.join(folder.name, "data.h5")
    try:
        notes, messages = _mac.import_data([str(file) for file in sources], text, str(path), quiet)
    except BaseException:
        if folder is not None:
            folder.cleanup()
        raise
    if not quiet:
        for note in notes:
            print(note, file=sys.stderr)
    for message in messages:
        warnings.warn(message, DataWarning, stacklevel=2)
    data = DataSet(path)
    if folder is not None:  # lives as long as the data set
        weakref.finalize(data, folder.cleanup)
    return data
