"""Burgers' equation and KdV in NumPy: the full model from any resolved state, with the closure of three modes, and the cubic memory model along a trajectory.

    u_t = -(u^2/2)_x + L u,    d theta_k/dt = -ik/2 (theta * theta)_k + lambda_k theta_k

The numbers are those of `mac generate` (to 1e-13 for Burgers, 1e-10 for KdV). It is here because experiments start full models from initial states of a kind; an
experiment on data wants to start them anywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
STEP = 0.01  # the closure step
HALF_WIDTHS = np.exp(-np.array([1.0, 2, 3, 1, 2, 3]))  # of the box of initial states, phi_1..phi_3 psi_1..psi_3


class FullModel:
    """ETDRK4 (Cox and Matthews, coefficients by the contour integrals of Kassam and Trefethen), pseudospectral."""

    def __init__(self, system: str, dt: float = 1e-3) -> None:
        self.points = {"burgers": 64, "kdv": 128}[system]
        self.k = np.arange(self.points // 2 + 1)
        rate = {"burgers": -0.1 * self.k**2 + 0j, "kdv": 0.01j * self.k**3.0}[system]
        rate[-1] = 0  # the Nyquist mode stays zero
        circle = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 16)
        z = dt * rate[:, None] + circle
        self.full, self.half = np.exp(dt * rate), np.exp(dt * rate / 2)
        self.inner = dt * ((np.exp(z / 2) - 1) / z).mean(1)
        self.first = dt * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).mean(1)
        self.middle = dt * ((2 + z + np.exp(z) * (-2 + z)) / z**3).mean(1)
        self.last = dt * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).mean(1)
        self.steps = round(STEP / dt)

    def quadratic(self, theta):
        u = np.fft.irfft(theta * self.points, self.points, axis=1)
        n = -0.5j * self.k * np.fft.rfft(u * u, axis=1) / self.points
        n[:, -1] = 0
        return n

    def step(self, theta):
        n = self.quadratic(theta)
        a = self.half * theta + self.inner * n
        n_a = self.quadratic(a)
        b = self.half * theta + self.inner * n_a
        n_b = self.quadratic(b)
        c = self.half * a + self.inner * (2 * n_b - n)
        return self.full * theta + self.first * n + 2 * self.middle * (n_a + n_b) + self.last * self.quadratic(c)

    def run(self, start: Array, horizon: float) -> tuple[Array, Array]:
        """(resolved, closure), (trajectories, times, 6), from resolved states; the other modes are zero at first."""
        theta = np.zeros((len(start), len(self.k)), complex)
        theta[:, 1:4] = start[:, :3] + 1j * start[:, 3:]
        resolved, closure = [], []
        for time in range(round(horizon / STEP) + 1):
            for _ in range(self.steps if time else 0):
                theta = self.step(theta)
            low = np.zeros_like(theta)
            low[:, 1:4] = theta[:, 1:4]
            resolved.append(numbers(theta[:, 1:4]))
            closure.append(numbers((self.quadratic(theta) - self.quadratic(low))[:, 1:4]))
        return np.stack(resolved, 1), np.stack(closure, 1)


def numbers(modes) -> Array:
    """phi_1..phi_3 psi_1..psi_3 of complex modes."""
    return np.concatenate([modes.real, modes.imag], axis=-1)


def turned(y: Array, angle: Array) -> Array:
    """The same fields, moved: theta_k e^{ik angle}, an angle for each trajectory."""
    modes = y[..., :3] + 1j * y[..., 3:]
    return numbers(modes * np.exp(1j * angle.reshape(-1, *[1] * (y.ndim - 1)) * np.array([1, 2, 3])))


def box(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-HALF_WIDTHS, HALF_WIDTHS, (count, 6))


class MemoryModel:
    """The kernels of a file of `kind = "cubic_memory"`, whose closure is a sum over the past by the trapezoid rule, in the frame of each initial state: its quadrature alone
    does not treat all translations alike, and a network in a frame could not learn what is left."""

    def __init__(self, path) -> None:
        import h5py

        with h5py.File(path) as file:
            every = round(STEP / file.attrs["step"])
            self.kernel, self.degrees = file["kernel"][:, :, ::every], file["degrees"][:].astype(int)

    def basis(self, y: Array) -> Array:
        x = y / HALF_WIDTHS
        table = np.stack([np.ones_like(x), x, (x**2 - 1) / np.sqrt(2), (x**3 - 3 * x) / np.sqrt(6)], -1)
        values = np.ones((*x.shape[:-1], len(self.degrees)))
        for variable in range(6):
            values *= table[..., variable, :][..., self.degrees[:, variable]]
        return values

    def at(self, past: list[Array]) -> Array:
        """The closure at the last of these values of `basis`, the first of which is at t = 0."""
        last = len(past) - 1
        if last == 0:
            return np.zeros((len(past[0]), 6))
        weighted = np.stack([past[0] / 2, *past[1:-1], past[-1] / 2], 1)
        lags = self.kernel[:, :, last::-1].transpose(2, 0, 1)
        return STEP * weighted.reshape(len(weighted), -1) @ lags.reshape(-1, 6)

    def along(self, resolved: Array) -> Array:
        phase = np.arctan2(resolved[:, 0, 3], resolved[:, 0, 0])
        values = self.basis(turned(resolved, -phase))
        past = [values[:, time] for time in range(values.shape[1])]
        return turned(np.stack([self.at(past[: time + 1]) for time in range(len(past))], 1), phase)
