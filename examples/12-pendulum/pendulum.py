# %% [markdown]
# # A double pendulum of which one arm is seen
# Nobody tuned this problem: trajectories go in, `mac.fit` finds its settings, and the free run is compared with the truth.
# `python pendulum.py FOLDER` runs all cells in some minutes; a second argument is the steps of a training (4000 by default).

# %%
import sys
from pathlib import Path

import numpy as np

import mac

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pendulum")
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
folder.mkdir(parents=True, exist_ok=True)
g, dt = 9.81, 0.04

# %% [markdown]
# ## Data
# Two unit masses on two unit arms, angles th1, th2 and their speeds. Your own trajectories would be read from files here (`mac.read`).


# %%
def full(z):
    th1, w1, th2, w2 = np.moveaxis(z, -1, 0)
    d = th1 - th2
    down = 3 - np.cos(2 * d)
    a1 = (-3 * g * np.sin(th1) - g * np.sin(th1 - 2 * th2) - 2 * np.sin(d) * (w2**2 + w1**2 * np.cos(d))) / down
    a2 = 2 * np.sin(d) * (2 * w1**2 + 2 * g * np.cos(th1) + w2**2 * np.cos(d)) / down
    return np.stack([w1, a1, w2, a2], axis=-1)


def simulate(count, length, seed, substeps=8):
    """(count, times, 2): the upper arm of pendulums whose lower arm starts hanging at rest."""
    random = np.random.default_rng(seed)
    z = np.stack([random.uniform(-1, 1, count), random.uniform(-1, 1, count), np.zeros(count), np.zeros(count)], axis=-1)
    seen, h = [z[:, :2]], dt / substeps
    for _ in range(round(length / dt)):
        for _ in range(substeps):
            k1 = full(z)
            k2 = full(z + h / 2 * k1)
            k3 = full(z + h / 2 * k2)
            k4 = full(z + h * k3)
            z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        seen.append(z[:, :2])
    return np.stack(seen, axis=1)


train, validation, test = simulate(80, 10, seed=1), simulate(16, 10, seed=2), simulate(20, 10, seed=3)

# %% [markdown]
# ## Fit
# The reduced model is a single pendulum. What is missing in its second equation is the closure; `mac.fit` computes it from the
# trajectories, tries settings in short trainings and says what it chose.


# %%
def reduced(t, y):
    return np.stack([y[..., 1], -g * np.sin(y[..., 0])], axis=-1)


closure = mac.fit(
    folder / "closure.safetensors", train, dt=dt, rhs=reduced, validation=validation,
    names=["th1", "w1"], targets=[1], steps=steps, quiet=False,
)  # fmt: skip

# %% [markdown]
# ## Verdict
# Free runs from the first states of trajectories that the training never saw.

# %%
times = dt * np.arange(test.shape[1])
run, none = mac.rollout(reduced, test[:, 0], times, closure), mac.rollout(reduced, test[:, 0], times)


def error(resolved, first, last):
    part = slice(round(first / dt), round(last / dt) + 1)
    return 100 * np.mean(np.linalg.norm(resolved[:, part] - test[:, part], axis=1) / np.linalg.norm(test[:, part], axis=1))


for first, last in [(0, 2), (2, 10)]:
    print(f"[{first},{last}]: {error(run.resolved, first, last):.2f} % off with the closure, {error(none.resolved, first, last):.0f} % without")
print(mac.evaluate({"closure": run, "none": none}, test, dt=dt, names=["th1", "w1"])["verdict"]["models"]["closure"]["sentence"])
