"""Problems that nobody tuned: trajectories of a full model of which a part is seen.

Each is a Problem: trajectories of the resolved variables for training, validation and testing (the test five times as
long as the training window), the reduced right-hand side, and the closure that the full model would add to it. NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

Rhs = Callable[[float, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Problem:
    name: str
    seen: str  # what is seen and what is hidden, in words
    dt: float  # between saved times
    window: float  # length of the training trajectories; after the history
    names: list[str]
    targets: list[int]
    rhs: Rhs  # (t, y (columns, d)) -> (columns, d)
    train: np.ndarray  # (trajectories, times, d)
    train_closure: np.ndarray  # (trajectories, times, c)
    validation: np.ndarray
    validation_closure: np.ndarray
    test: np.ndarray  # history + 5 windows
    test_closure: np.ndarray
    history: float = 0.0  # hidden variables start where the resolved ones do not show: the past is read this long
    equations: bool = True  # mac.fit is told rhs; if not, the closure is the whole of dy/dt, and rhs is zero
    closures: bool = True  # mac.fit is told the closure; if not, it computes it


def rk4(rate: Callable[[np.ndarray], np.ndarray], z: np.ndarray, dt: float, substeps: int, intervals: int) -> np.ndarray:
    """(columns, n) -> (columns, intervals + 1, n), saved every dt."""
    h = dt / substeps
    saved = [z]
    for _ in range(intervals):
        for _ in range(substeps):
            k1 = rate(z)
            k2 = rate(z + h / 2 * k1)
            k3 = rate(z + h / 2 * k2)
            k4 = rate(z + h * k3)
            z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        saved.append(z)
    return np.stack(saved, axis=1)


def make(
    name: str,
    seen: str,
    *,
    start: Callable[[np.random.Generator, int], np.ndarray],  # full states (columns, n)
    simulate: Callable[[np.ndarray, int], np.ndarray],  # (columns, n), intervals -> (columns, times, n)
    resolved: Callable[[np.ndarray], np.ndarray],  # of full states (..., n)
    closure: Callable[[np.ndarray], np.ndarray],
    rhs: Callable[[np.ndarray], np.ndarray],  # of resolved states (..., d)
    dt: float,
    window: float,
    names: Sequence[str],
    targets: Sequence[int],
    trajectories: int = 80,
    history: float = 0.0,
    noise: float = 0.0,  # of what is recorded for training, in standard deviations of each variable
    equations: bool = True,
    closures: bool = True,
    seed: int = 1,
) -> Problem:
    random = np.random.default_rng(seed)

    def split(count: int, length: float) -> tuple[np.ndarray, np.ndarray]:
        z = simulate(start(random, count), round((history + length) / dt))
        return resolved(z), closure(z)

    (train, train_closure), (validation, validation_closure) = split(trajectories, window), split(trajectories // 5, window)
    test, test_closure = split(20, 5 * window)
    for y in (train, validation) if noise else ():
        y += noise * train.std(axis=(0, 1)) * random.normal(size=y.shape)
    return Problem(
        name, seen, dt, window, list(names), list(targets), lambda t, y: rhs(y),
        train, train_closure, validation, validation_closure, test, test_closure, history, equations, closures,
    )  # fmt: skip


def double_pendulum() -> Problem:
    """Two unit masses on two unit arms: the upper arm is seen; the lower one starts hanging at rest.

    The reduced model is a single pendulum, th1'' = -g sin th1.
    """
    g = 9.81

    def rate(z: np.ndarray) -> np.ndarray:
        th1, w1, th2, w2 = np.moveaxis(z, -1, 0)
        d = th1 - th2
        down = 3 - np.cos(2 * d)
        a1 = (-3 * g * np.sin(th1) - g * np.sin(th1 - 2 * th2) - 2 * np.sin(d) * (w2**2 + w1**2 * np.cos(d))) / down
        a2 = 2 * np.sin(d) * (2 * w1**2 + 2 * g * np.cos(th1) + w2**2 * np.cos(d)) / down
        return np.stack([w1, a1, w2, a2], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([random.uniform(-1, 1, n), random.uniform(-1, 1, n), np.zeros(n), np.zeros(n)], axis=-1)

    def rhs(y: np.ndarray) -> np.ndarray:
        return np.stack([y[..., 1], -g * np.sin(y[..., 0])], axis=-1)

    return make(
        "double pendulum", "upper arm; lower arm hidden",
        start=start, simulate=lambda z, n: rk4(rate, z, 0.04, 8, n), resolved=lambda z: z[..., :2],
        closure=lambda z: rate(z)[..., 1:2] - rhs(z[..., :2])[..., 1:2], rhs=rhs,
        dt=0.04, window=10.0, names=["th1", "w1"], targets=[1],
    )  # fmt: skip


def lorenz63() -> Problem:
    """x and y of Lorenz '63 on its attractor; the reduced model has z at its mean."""
    sigma, rho, beta, mean = 10.0, 28.0, 8 / 3, 23.5

    def rate(v: np.ndarray) -> np.ndarray:
        x, y, z = np.moveaxis(v, -1, 0)
        return np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        v = np.stack([random.normal(0, 5, n), random.normal(0, 5, n), random.normal(25, 5, n)], axis=-1)
        return rk4(rate, v, 0.01, 1, 1000)[:, -1]

    def rhs(v: np.ndarray) -> np.ndarray:
        x, y = v[..., 0], v[..., 1]
        return np.stack([sigma * (y - x), x * (rho - mean) - y], axis=-1)

    return make(
        "Lorenz '63", "x, y; z hidden", start=start, simulate=lambda z, n: rk4(rate, z, 0.02, 4, n),
        resolved=lambda z: z[..., :2], closure=lambda z: z[..., :1] * (mean - z[..., 2:3]), rhs=rhs,
        dt=0.02, window=2.0, names=["x", "y"], targets=[1], history=1.0,
    )  # fmt: skip


def fitzhugh_nagumo() -> Problem:
    """A ring of eight excitable cells of which the slow recovery variables w are seen, the fast v hidden.

    v' = v - v^3/3 - w + I + D (v_left - 2 v + v_right),  w' = (v + a - b w)/tau; reduced: the same with v = 0.
    """
    a, b, tau, drive, coupling, n_cells = 0.7, 0.8, 12.5, 0.5, 0.15, 8

    def rate(z: np.ndarray) -> np.ndarray:
        v, w = z[..., :n_cells], z[..., n_cells:]
        spread = np.roll(v, 1, -1) - 2 * v + np.roll(v, -1, -1)
        return np.concatenate([v - v**3 / 3 - w + drive + coupling * spread, (v + a - b * w) / tau], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        z = np.concatenate([random.uniform(-2, 2, (n, n_cells)), random.uniform(-0.5, 1.5, (n, n_cells))], axis=-1)
        return rk4(rate, z, 0.2, 2, 100)[:, -1]

    return make(
        "FitzHugh-Nagumo ring", "8 recovery variables; fast variables hidden",
        start=start, simulate=lambda z, n: rk4(rate, z, 0.2, 4, n), resolved=lambda z: z[..., n_cells:],
        closure=lambda z: z[..., :n_cells] / tau, rhs=lambda w: (a - b * w) / tau,
        dt=0.2, window=20.0, names=[f"w{i + 1}" for i in range(n_cells)], targets=range(n_cells), history=10.0,
    )  # fmt: skip


def kuramoto_sivashinsky() -> Problem:
    """u_t = -u u_x - u_xx - u_xxxx on a circle of length 36: the Fourier modes 1 to 8 are seen, 9 to 31 hidden."""
    length, grid, modes = 36.0, 64, 8
    k = np.arange(grid // 2 + 1)
    q = 2 * np.pi / length * k
    linear = q**2 - q**4
    keep = k <= grid // 3  # no aliasing

    def nonlinear(v: np.ndarray) -> np.ndarray:  # v = rfft(u)/grid
        u = np.fft.irfft(v * grid, axis=-1)
        return -0.5j * q * keep * np.fft.rfft(u * u, axis=-1) / grid

    def seen(v: np.ndarray) -> np.ndarray:
        return np.concatenate([v[..., 1 : modes + 1].real, v[..., 1 : modes + 1].imag], axis=-1)

    def rhs(y: np.ndarray) -> np.ndarray:
        v = np.zeros(y.shape[:-1] + (grid // 2 + 1,), complex)
        v[..., 1 : modes + 1] = y[..., :modes] + 1j * y[..., modes:]
        return seen(linear * v + nonlinear(v))

    def simulate(v: np.ndarray, intervals: int, dt: float = 0.1) -> np.ndarray:
        """ETDRK4 of Cox and Matthews, its coefficients by contour integrals (Kassam and Trefethen)."""
        whole, half = np.exp(dt * linear), np.exp(dt * linear / 2)
        r = dt * linear[:, None] + np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)
        weight = dt * np.mean((np.exp(r / 2) - 1) / r, axis=1).real
        f1 = dt * np.mean((-4 - r + np.exp(r) * (4 - 3 * r + r**2)) / r**3, axis=1).real
        f2 = dt * np.mean((2 + r + np.exp(r) * (-2 + r)) / r**3, axis=1).real
        f3 = dt * np.mean((-4 - 3 * r - r**2 + np.exp(r) * (4 - r)) / r**3, axis=1).real
        saved = [v]
        for _ in range(intervals):
            nv = nonlinear(v)
            a = half * v + weight * nv
            na = nonlinear(a)
            b = half * v + weight * na
            nb = nonlinear(b)
            c = half * a + weight * (2 * nb - nv)
            v = whole * v + nv * f1 + 2 * (na + nb) * f2 + nonlinear(c) * f3
            saved.append(v)
        return np.stack(saved, axis=1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        v = np.zeros((n, grid // 2 + 1), complex)
        v[:, 1:6] = random.normal(0, 0.2, (n, 5)) + 1j * random.normal(0, 0.2, (n, 5))
        return simulate(v, 1000)[:, -1]

    return make(
        "Kuramoto-Sivashinsky", "modes 1-8; modes 9-21 hidden", start=start, simulate=simulate, resolved=seen,
        closure=lambda v: seen(linear * v + nonlinear(v)) - rhs(seen(v)), rhs=rhs,
        dt=0.1, window=10.0, names=[f"{part}{i + 1}" for part in ("re", "im") for i in range(modes)],
        targets=range(2 * modes), history=2.0,
    )  # fmt: skip


def lotka_volterra() -> Problem:
    """A food chain of five: the two lowest species are seen, those above them start at their equilibrium."""
    eat, loss, crowd = 0.6, 0.1, 0.2

    def rate(x: np.ndarray) -> np.ndarray:
        growth = np.empty_like(x)
        growth[..., 0] = 1.2 - 0.4 * x[..., 0]
        growth[..., 1:] = eat * x[..., :-1] - loss - crowd * x[..., 1:]
        growth[..., :-1] -= eat * x[..., 1:]
        return x * growth

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        x = np.full((n, 5), 0.7)
        x[:, :2] = np.exp(random.uniform(-1, 1, (n, 2))) * 0.8
        return x

    def rhs(y: np.ndarray) -> np.ndarray:
        first, second = y[..., 0], y[..., 1]
        return np.stack(
            [first * (1.2 - 0.4 * first - eat * second), second * (eat * first - loss - crowd * second)], axis=-1
        )

    return make(
        "Lotka-Volterra chain", "2 species; 3 above them hidden",
        start=start, simulate=lambda z, n: rk4(rate, z, 0.1, 4, n), resolved=lambda z: z[..., :2],
        closure=lambda z: -eat * z[..., 1:2] * z[..., 2:3], rhs=rhs,
        dt=0.1, window=12.0, names=["x1", "x2"], targets=[1],
    )  # fmt: skip


def duffing() -> Problem:
    """Example 07: an oscillator in a double well that drags a hidden one along, which starts at rest."""
    d, k, w, g = 0.2, 0.8, 1.5, 0.5

    def rhs(y: np.ndarray) -> np.ndarray:
        x, v = y[..., 0], y[..., 1]
        return np.stack([v, x - x**3 - d * v], axis=-1)

    def rate(z: np.ndarray) -> np.ndarray:
        x, v, q, p = np.moveaxis(z, -1, 0)
        return np.stack([v, x - x**3 - d * v + k * q, p, x - w**2 * q - g * p], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([random.uniform(-1.5, 1.5, n), random.uniform(-1, 1, n), np.zeros(n), np.zeros(n)], axis=-1)

    return make(
        "Duffing", "x, v; a hidden oscillator", start=start, simulate=lambda z, n: rk4(rate, z, 0.1, 4, n),
        resolved=lambda z: z[..., :2], closure=lambda z: k * z[..., 2:3], rhs=rhs,
        dt=0.1, window=10.0, names=["x", "v"], targets=[1],
    )  # fmt: skip


def damped_string() -> Problem:
    """A string with a damper at a third of its length: modes 1 to 4 are seen, 5 to 8, at rest first, hidden.

    q_n'' + (n)^2 q_n + sum_m c_nm q_m' = 0,  c_nm = 2 c sin(n pi x0) sin(m pi x0)
    """
    modes, seen, c, x0 = 8, 4, 0.4, 0.29
    frequency = np.arange(1, modes + 1.0)
    shape = np.sin(frequency * np.pi * x0)
    damping = 2 * c * np.outer(shape, shape)

    def motion(q: np.ndarray, v: np.ndarray, n: int) -> np.ndarray:
        return np.concatenate([v, -frequency[:n] ** 2 * q - v @ damping[:n, :n]], axis=-1)

    def rate(z: np.ndarray) -> np.ndarray:
        return motion(z[..., :modes], z[..., modes:], modes)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        z = np.zeros((n, 2 * modes))
        z[:, :seen] = random.normal(0, 1, (n, seen)) / frequency[:seen]
        z[:, modes : modes + seen] = random.normal(0, 1, (n, seen))
        return z

    return make(
        "damped string", "modes 1-4; modes 5-8 hidden",
        start=start, simulate=lambda z, n: rk4(rate, z, 0.05, 2, n),
        resolved=lambda z: np.concatenate([z[..., :seen], z[..., modes : modes + seen]], axis=-1),
        closure=lambda z: -z[..., modes + seen :] @ damping[seen:, :seen],
        rhs=lambda y: motion(y[..., :seen], y[..., seen:], seen),
        dt=0.05, window=6.0, names=[f"{part}{i + 1}" for part in "qv" for i in range(seen)],
        targets=range(seen, 2 * seen),
    )  # fmt: skip


def kuramoto() -> Problem:
    """Twelve coupled phase oscillators; cosine and sine of four are seen, eight start near their locked state, hidden."""
    n_all, seen, strength = 12, 4, 1.6
    frequency = np.array([0.9, -0.6, 0.3, -0.2, 0.5, -0.8, 0.1, 0.7, -0.4, -0.1, 0.2, -0.6])

    def rate(theta: np.ndarray) -> np.ndarray:
        z = np.mean(np.exp(1j * theta), axis=-1, keepdims=True)
        return frequency + strength * (z * np.exp(-1j * theta)).imag

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        theta = np.tile(0.8 * frequency, (n, 1))
        theta[:, :seen] = random.uniform(-np.pi, np.pi, (n, seen))
        return theta

    def resolved(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([np.cos(theta[..., :seen]), np.sin(theta[..., :seen])], axis=-1)

    def turned(z: np.ndarray, speed: np.ndarray) -> np.ndarray:
        return np.concatenate([-z.imag * speed, z.real * speed], axis=-1)

    def rhs(y: np.ndarray) -> np.ndarray:
        z = y[..., :seen] + 1j * y[..., seen:]
        mean = np.sum(z, axis=-1, keepdims=True) / n_all
        return turned(z, frequency[:seen] + strength * (mean * z.conj()).imag)

    def closure(theta: np.ndarray) -> np.ndarray:
        z = np.exp(1j * theta)
        mean = np.sum(z[..., seen:], axis=-1, keepdims=True) / n_all
        return turned(z[..., :seen], strength * (mean * z[..., :seen].conj()).imag)

    return make(
        "Kuramoto oscillators", "4 of 12", start=start, simulate=lambda z, n: rk4(rate, z, 0.1, 2, n),
        resolved=resolved, closure=closure, rhs=rhs,
        dt=0.1, window=10.0, names=[f"{part}{i + 1}" for part in "cs" for i in range(seen)], targets=range(2 * seen),
    )  # fmt: skip


def van_der_pol() -> Problem:
    """Two Van der Pol oscillators joined by a spring: the slow one is seen; the stiffer one, hidden, starts at rest."""

    def rate(z: np.ndarray) -> np.ndarray:
        x, v, q, p = np.moveaxis(z, -1, 0)
        return np.stack([v, (1 - x**2) * v - x + 0.6 * (q - x), p, 0.5 * (1 - q**2) * p - 2.3 * q + 0.6 * (x - q)], axis=-1)

    def rhs(y: np.ndarray) -> np.ndarray:
        x, v = y[..., 0], y[..., 1]
        return np.stack([v, (1 - x**2) * v - 1.6 * x], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([random.uniform(-2, 2, n), random.uniform(-2, 2, n), np.zeros(n), np.zeros(n)], axis=-1)

    return make(
        "Van der Pol pair", "one of two oscillators", start=start, simulate=lambda z, n: rk4(rate, z, 0.1, 4, n),
        resolved=lambda z: z[..., :2], closure=lambda z: 0.6 * z[..., 2:3], rhs=rhs,
        dt=0.1, window=12.0, names=["x", "v"], targets=[1],
    )  # fmt: skip


def recorded_chain() -> Problem:
    """Prey and predator of a chain on a resource that nobody measured: trajectories alone, without equations. With
    resource r, prey x and predator y:  r' = r (2 - r - 1.4 x),  x' = x (r - .3 - 2 y/(1 + 2 x)),  y' = y (.8 x/(1 + 2 x) - .15)
    """

    def rate(z: np.ndarray) -> np.ndarray:
        r, x, y = np.moveaxis(z, -1, 0)
        eaten = x * y / (1 + 2 * x)
        return np.stack([r * (2 - r - 1.4 * x), x * (r - 0.3) - 2 * eaten, 0.8 * eaten - 0.15 * y], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([random.uniform(0.3, 1, n), random.uniform(0.1, 0.6, n), random.uniform(0.1, 0.6, n)], axis=-1)

    return make(
        "recorded chain", "prey, predator; resource hidden; no equations",
        start=start, simulate=lambda z, n: rk4(rate, z, 0.25, 4, n), resolved=lambda z: z[..., 1:],
        closure=lambda z: rate(z)[..., 1:], rhs=np.zeros_like,
        dt=0.25, window=25.0, names=["prey", "predator"], targets=[0, 1], history=5.0, equations=False, closures=False,
    )  # fmt: skip


def heat_exchanger() -> Problem:
    """Two streams in three cells each, through a wall whose temperatures, three, nobody measures. Ten short recordings
    with an error of 1 %; the reduced model has the two streams in contact, without a wall between them.
    """
    cells, flow, to_wall, slow = 3, 1.0, 2.0, 0.4

    def carried(hot: np.ndarray, cold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        enters_hot, enters_cold = np.full_like(hot[..., :1], 2.0), np.full_like(hot[..., :1], 0.5)
        return (
            flow * (np.concatenate([enters_hot, hot[..., :-1]], axis=-1) - hot),
            flow * (np.concatenate([cold[..., 1:], enters_cold], axis=-1) - cold),
        )

    def parts(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return z[..., :cells], z[..., cells : 2 * cells], z[..., 2 * cells :]

    def rate(z: np.ndarray) -> np.ndarray:
        hot, cold, wall = parts(z)
        into_hot, into_cold = carried(hot, cold)
        return np.concatenate(
            [into_hot + to_wall * (wall - hot), into_cold + to_wall * (wall - cold), slow * (hot + cold - 2 * wall)], axis=-1
        )

    def rhs(y: np.ndarray) -> np.ndarray:
        hot, cold = y[..., :cells], y[..., cells:]
        into_hot, into_cold = carried(hot, cold)
        return np.concatenate([into_hot + to_wall / 2 * (cold - hot), into_cold + to_wall / 2 * (hot - cold)], axis=-1)

    def start(random: np.random.Generator, n: int) -> np.ndarray:
        z = np.ones((n, 3 * cells))
        z[:, : 2 * cells] = random.uniform(0.5, 2, (n, 2 * cells))
        return z

    return make(
        "heat exchanger", "two streams; the wall hidden; ten recordings, 1 % noise",
        start=start, simulate=lambda z, n: rk4(rate, z, 0.1, 2, n), resolved=lambda z: z[..., : 2 * cells],
        closure=lambda z: rate(z)[..., : 2 * cells] - rhs(z[..., : 2 * cells]), rhs=rhs,
        dt=0.1, window=5.0, names=[f"{part}{i + 1}" for part in ("hot", "cold") for i in range(cells)],
        targets=range(2 * cells), trajectories=10, noise=0.01, closures=False,
    )  # fmt: skip


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "pendulum": double_pendulum,
    "lorenz63": lorenz63,
    "fitzhugh_nagumo": fitzhugh_nagumo,
    "kuramoto_sivashinsky": kuramoto_sivashinsky,
    "lotka_volterra": lotka_volterra,
    "duffing": duffing,
    "string": damped_string,
    "kuramoto": kuramoto,
}

# Three more, invented after the rules of recipe = "auto" were made.
LATER: dict[str, Callable[[], Problem]] = {
    "van_der_pol": van_der_pol,
    "recorded_chain": recorded_chain,
    "heat_exchanger": heat_exchanger,
}
