"""MAC: learned closures for reduced-order models.

    closure = mac.load("burgers.safetensors")        # a trained network
    c = closure.step(y)                              # state in, closure out, one call a time step

    run = mac.rollout("burgers", y0, t, closure)     # the reduced equations with the closure
    run = mac.rollout(lambda t, y: ..., y0, t, closure)

    data = mac.read("runs.nc")                       # trajectories of another program
    data = mac.read_data("data.h5")                  # data sets as NumPy arrays
    closure = mac.fit("my.safetensors", trajectories, dt=0.01, rhs=reduced)
    result = mac.run("experiments/burgers.toml", "runs/burgers")

The reference page is docs/python.md.
"""

from ._mac import Closure, Coupler, Error, Tape, UsageError, __version__
from .checks import DataWarning
from .coupling import ClosureWarning, Rollout, rollout
from .data import DataSet, Split, read_data, write_data
from .device import DeviceState
from .fitting import fit
from .models import load, zoo
from .reading import read
from .study import (
    RolloutSplit,
    RunResult,
    TrainingResult,
    evaluate,
    export_onnx,
    generate,
    read_rollout,
    report,
    rollout_data,
    run,
    train,
)
from .systems import Experiment, System, system_names

__all__ = [
    "Closure",
    "ClosureWarning",
    "Coupler",
    "DataSet",
    "DataWarning",
    "DeviceState",
    "Error",
    "Experiment",
    "Rollout",
    "RolloutSplit",
    "RunResult",
    "Split",
    "System",
    "Tape",
    "TrainingResult",
    "UsageError",
    "__version__",
    "evaluate",
    "export_onnx",
    "fit",
    "generate",
    "load",
    "read",
    "read_data",
    "read_rollout",
    "report",
    "rollout",
    "rollout_data",
    "run",
    "system_names",
    "train",
    "write_data",
    "zoo",
]
