"""Derivatives of steps from Python: dot products, differences of steps, and wrong use."""

import numpy as np
import pytest

import mac


@pytest.fixture
def closure(model):
    closure = mac.load(model, "float64")
    rng = np.random.default_rng(1)
    for _ in range(4):
        closure.step(0.3 * rng.standard_normal((3, closure.inputs)))
    return closure


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_adjoint_is_the_transpose_of_the_tangent(closure, rng):
    y, dy = 0.3 * rng.standard_normal((2, 3, closure.inputs))
    dmemory, gmemory = rng.standard_normal((2, *closure.memory.shape))
    gclosure = rng.standard_normal((3, closure.outputs))
    dclosure, dnext = closure.tangent(y, dy, dmemory)
    gy, gbefore = closure.adjoint(y, gclosure, gmemory)
    left = np.sum(dclosure * gclosure) + np.sum(dnext * gmemory)
    assert abs(left - np.sum(gy * dy) - np.sum(gbefore * dmemory)) < 1e-12 * (abs(left) + 1)
    jacobian = closure.jacobian(y)
    np.testing.assert_allclose(np.einsum("coi,ci->co", jacobian, dy), closure.tangent(y, dy)[0], rtol=1e-10, atol=1e-13)


def test_the_tangent_is_that_of_the_step(closure, rng):
    y, dy = 0.3 * rng.standard_normal((2, 3, closure.inputs))
    memory, dmemory = closure.memory, rng.standard_normal(closure.memory.shape)
    h = 1e-5

    def moved(sign):
        clone = closure.clone()
        clone.memory = memory + sign * h * dmemory
        return clone.step(y + sign * h * dy), clone.memory

    (up, up_memory), (down, down_memory) = moved(1), moved(-1)
    dclosure, dnext = closure.tangent(y, dy, dmemory)
    # Central differences: h squared and rounding over h, both near 1e-10.
    assert np.abs((up - down) / (2 * h) - dclosure).max() < 1e-7 * np.abs(dclosure).max()
    assert np.abs((up_memory - down_memory) / (2 * h) - dnext).max() < 1e-7 * np.abs(dnext).max()


def test_a_tape_gives_the_gradient_of_a_window(closure, rng):
    y = 0.3 * rng.standard_normal((6, 3, closure.inputs))
    g = rng.standard_normal((6, 3, closure.outputs))
    start, tape = closure.clone(), mac.Tape(closure, steps=6, columns=3)
    for state in y:
        tape.step(closure, state)
    assert tape.steps == 6
    gmemory = None
    for step in reversed(range(6)):
        _, gmemory = tape.adjoint(step, g[step], gmemory)
    direction, h = rng.standard_normal(start.memory.shape), 1e-5

    def objective(sign):
        clone = start.clone()
        clone.memory = start.memory + sign * h * direction
        return sum(np.sum(g[t] * clone.step(y[t])) for t in range(6))

    slope = np.sum(gmemory * direction)
    assert abs((objective(1) - objective(-1)) / (2 * h) - slope) < 1e-7 * abs(slope)


def test_wrong_use_gets_a_sentence(model, closure):
    y = np.zeros((3, closure.inputs))
    with pytest.raises(mac.UsageError, match=r"dy has 2 columns, expected 3"):
        closure.tangent(y, y[:2])
    with pytest.raises(mac.UsageError, match=r"has no columns yet"):
        mac.load(model).memory
    with pytest.raises(mac.UsageError, match=r"memory has shape"):
        closure.memory = np.zeros((3, 1))
    tape = mac.Tape(closure, 1, 3)
    with pytest.raises(mac.UsageError, match="step 0 is not on the tape, which has 0"):
        tape.adjoint(0, np.zeros((3, closure.outputs)))
