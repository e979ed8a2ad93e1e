"""A small Burgers study that all tests share, and the program to compare with."""

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mac

STUDY = """
[system]
name = "burgers"
grid = 32
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 6
horizon = 0.3
[data.validation]
trajectories = 2
horizon = 0.3
[data.test]
trajectories = 5
horizon = 0.5
[[models]]
name = "mac"
kind = "mamba"
d_model = 6
blocks = 2
d_state = 3
[training]
steps = 12
batch = 4
validate_every = 6
"""


@pytest.fixture(scope="session")
def program():
    """Runs `mac ARGUMENTS` and expects success."""

    def run(*arguments):
        subprocess.run([os.environ["MAC_PROGRAM"], *map(str, arguments)], check=True, capture_output=True)

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="session")
def experiment(folder):
    path = folder / "study.toml"
    path.write_text(STUDY)
    return mac.Experiment.read(path)


@pytest.fixture(scope="session")
def data(folder, experiment):
    """Path of the study's data file."""
    path = folder / "data.h5"
    mac.generate(experiment, path, threads=1)
    return path


@pytest.fixture(scope="session")
def model(folder, experiment, data):
    """Path of a trained Mamba."""
    path = folder / "mac.safetensors"
    mac.train(experiment, data, path, threads=1)
    return path


def write_safetensors(path, tensors):
    """A file of named arrays alone, as safetensors.torch.save_file writes a state_dict."""
    header, chunks, offset = {}, [], 0
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        dtype = {"float32": "F32", "float64": "F64"}[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(raw)]}
        chunks.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read_safetensors(path):
    """All F32 and F64 arrays of a file."""
    raw = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = {"F32": np.float32, "F64": np.float64}[entry["dtype"]]
        tensors[name] = np.frombuffer(raw[8 + size + begin : 8 + size + end], dtype).reshape(entry["shape"])
    return tensors
