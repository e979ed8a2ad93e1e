"""Scripts that measure what the program does not."""

import json
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
STUDY = """
[system]
name = "lorenz96"
N = 4
J = 4
F = 10.0
warmup_steps = 500
[data]
dt = 0.005
[data.train]
trajectories = 2
horizon = 10.0
[data.validation]
trajectories = 2
horizon = 10.0
[data.test]
trajectories = 2
horizon = 10.0
[[models]]
name = "wilks"
kind = "wilks"
[[models]]
name = "likely"
kind = "mlp"
d_model = 8
blocks = 1
deviations = true
noise_time = 0.05
[models.training]
recipe = "fast"
loss = "likelihood"
hold = "zero"
target = "mean"
select = "loss"
steps = 400
validate_every = 100
"""


def test_the_log_likelihood_is_that_of_the_training_loss_and_of_the_formula(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    program = os.environ["MAC_PROGRAM"]
    for command in ["generate study.toml -o data.h5", "train study.toml --data data.h5 -o models/"]:
        subprocess.run([program, *command.split(), "--quiet"], check=True)
    subprocess.run([ROOT / "scripts/log-likelihood", "data.h5", "models/wilks.h5", "models/likely-seed0.safetensors",
                    "--split", "validation", "--members", "100", "--json", "found.json"],
                   check=True, env={**os.environ, "MAC": program})
    found = {name: entry["log_likelihood"] for name, entry in json.loads(Path("found.json").read_text()).items()}
    with h5py.File("data.h5") as file:
        x, closure = file["validation/resolved"][:, :-1], file["validation/closure_mean"][:]
        scale = np.sqrt(np.mean((file["train/closure"][:] - np.mean(file["train/closure"][:])) ** 2))
    with h5py.File("models/wilks.h5") as file:
        r = closure - np.polynomial.polynomial.polyval(x, file["coefficients"][:])
        phi, sigma = file.attrs["phi"], file.attrs["sigma"]
    spread = sigma * np.sqrt(1 - phi**2)
    u = (r[:, 1:] - phi * r[:, :-1])[:, 99:] / spread
    assert abs(found["wilks.h5"] - np.mean(-(u**2) / 2 - np.log(np.sqrt(2 * np.pi) * spread * 0.005))) < 1e-3  # rounded
    # The loss is that of the normalised closure, over all times; the first hundred of 2000 do not count here. Deviations
    # of 100 members are known to 7 %.
    history = np.genfromtxt("models/likely-seed0.history.csv", delimiter=",", names=True)["validation"]
    assert abs(found["likely-seed0.safetensors"] - (-np.nanmin(history) - np.log(scale * 0.005))) < 0.05
