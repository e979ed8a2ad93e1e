# %% [markdown]
# # A closure for Burgers' equation, from Python
# Cells as editors with notebook support know them; `python burgers.py FOLDER` runs them all.

# %%
import sys
from pathlib import Path

import numpy as np

import mac

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "burgers-python")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Data
# An experiment says what is simulated; a data file holds the resolved variables and the closure as arrays.

# %%
experiment = mac.Experiment("""
[system]
name = "burgers"
grid = 64
[data]
dt = 1e-3
stride = 50
[data.train]
trajectories = 200
horizon = 1.0
[data.validation]
trajectories = 10
horizon = 1.0
[data.test]
trajectories = 20
horizon = 2.0
[[models]]
name = "mac"
kind = "mamba"
d_model = 12
blocks = 2
d_state = 8
[training]
steps = 2000
validate_every = 250
""")
mac.generate(experiment, folder / "data.h5")
data = mac.read_data(folder / "data.h5")
test = data["test"]
print(f"{len(data['train'].resolved)} training trajectories of {experiment.system.resolved_names}")

# %% [markdown]
# ## Training

# %%
result = mac.train(experiment, folder / "data.h5", folder / "mac.safetensors", threads=1)  # small: one is enough
closure = mac.load(result.path)
print(closure)

# %% [markdown]
# ## The closure alone
# One call a time step, along the true states of the test trajectories.

# %%
predicted = closure.sequence(test.resolved)
print(f"closure along the truth: {np.linalg.norm(predicted - test.closure) / np.linalg.norm(test.closure):.1%} off")

# %% [markdown]
# ## Rollouts
# All test trajectories at once, with the closure and without; the right-hand side is the built-in one. A function
# f(t, y) of arrays would do as well.

# %%
y0 = test.resolved[:, 0]
with_closure = mac.rollout("burgers", y0, test.time, closure)
without = mac.rollout("burgers", y0, test.time)


def error(run):
    """Relative to the size of each variable, over all trajectories."""
    difference = np.sqrt(np.mean((run.resolved - test.resolved) ** 2, axis=(0, 1)))
    return difference / np.sqrt(np.mean(test.resolved**2, axis=(0, 1)))


for name, mine, markov in zip(experiment.system.resolved_names, error(with_closure), error(without)):
    print(f"{name}: {mine:7.2%} off with the closure, {markov:7.2%} without")

# %% [markdown]
# ## A restart
# Stop half way, save, start anew: the same numbers to the last bit.

# %%
half = len(test.time) // 2
first = mac.rollout("burgers", y0, test.time[: half + 1], closure)
np.savez(folder / "restart.npz", y=first.resolved[:, -1], state=np.frombuffer(closure.state, dtype=np.uint8))

saved = np.load(folder / "restart.npz")
again = mac.load(folder / "mac.safetensors")
again.state = saved["state"].tobytes()
second = mac.rollout("burgers", saved["y"], test.time[half:], again, continued=True)
assert np.array_equal(second.resolved, with_closure.resolved[:, half:])
print("the restarted rollout is the uninterrupted one to the last bit")

# %% [markdown]
# ## A figure

# %%
try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("no figure: matplotlib is not installed")
else:
    variable = experiment.system.resolved_names.index("psi3")
    shown = np.argmax(np.ptp(test.resolved[:, :, variable], axis=1))  # where most happens
    plt.figure(figsize=(7, 3.5))
    plt.plot(test.time, test.resolved[shown, :, variable], "k", label="full model")
    plt.plot(test.time, with_closure.resolved[shown, :, variable], "C0--", label="reduced with closure")
    plt.plot(test.time, without.resolved[shown, :, variable], "C1:", label="reduced alone")
    plt.xlabel("t")
    plt.ylabel("ψ₃")
    plt.legend(frameon=False)
    plt.tight_layout()
    plt.savefig(folder / "psi3.png", dpi=120)
    print(f"figure: {folder / 'psi3.png'}")
