"""Rollouts from Python: the program's numbers with a built-in system, the same with a Python function."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import mac


@pytest.fixture
def closure(model):
    return mac.load(model)


@pytest.fixture(scope="module")
def test_split(data):
    return mac.read_data(data)["test"]


@pytest.mark.parametrize("hold", ["zero", "linear", "stage"])
def test_a_built_in_system_gives_mac_rollout_to_the_last_bit(program, folder, model, data, test_split, closure, hold):
    path = folder / f"{hold}.h5"
    program("rollout", model, "--data", data, "-o", path, "--hold", hold, "--quiet")
    expected = mac.read_rollout(path)["test"]
    run = mac.rollout("burgers", test_split.resolved[:, 0], test_split.time, closure, hold=hold)
    np.testing.assert_array_equal(run.resolved, expected.resolved)
    np.testing.assert_array_equal(run.closure, expected.closure)
    assert np.all(np.isnan(run.blow_up_time))


def test_a_model_is_rolled_out_in_the_precision_one_asks_for(folder, model, data, test_split):
    y0, t, path = test_split.resolved[:, 0], test_split.time, folder / "precision.h5"
    results = []
    for precision in ["float32", "float64"]:
        mac.rollout_data(model, data, path, precision=precision)
        run = mac.rollout("burgers", y0, t, mac.load(model, precision))
        np.testing.assert_array_equal(run.resolved, mac.read_rollout(path)["test"].resolved)
        results.append(run.resolved)
    assert np.any(results[0] != results[1])
    np.testing.assert_allclose(results[0], results[1], atol=1e-5)  # float32 rounds to 6e-8 a step


def test_a_python_function_gives_the_same(test_split, closure):
    y0, t = test_split.resolved[:, 0], test_split.time
    system = mac.System("burgers")
    expected = mac.rollout(system, y0, t, closure)
    run = mac.rollout(lambda _, y: system.reduced_rhs(y), y0, t, closure)
    np.testing.assert_array_equal(run.resolved, expected.resolved)
    np.testing.assert_array_equal(run.closure, expected.closure)


def test_one_column_has_no_axis_of_columns(test_split, closure):
    t = test_split.time
    many = mac.rollout("burgers", test_split.resolved[:, 0], t, closure)
    one = mac.rollout("burgers", test_split.resolved[1, 0], t, closure)
    assert one.resolved.shape == (len(t), 6) and one.blow_up_time.shape == ()
    np.testing.assert_array_equal(one.resolved, many.resolved[1])
    shapes = set()
    mac.rollout(lambda t, y: shapes.add(y.shape) or 0 * y, test_split.resolved[1, 0], t, closure)
    assert shapes == {(6,)}


def test_times_may_be_several_closure_steps_apart(test_split, closure):
    y0, t = test_split.resolved[:, 0], test_split.time
    fine = mac.rollout("burgers", y0, t, closure)
    coarse = mac.rollout("burgers", y0, t[::5], closure)
    np.testing.assert_array_equal(coarse.resolved, fine.resolved[:, ::5])
    np.testing.assert_array_equal(coarse.closure, fine.closure[:, ::5])


def test_the_past_is_read_first(test_split, closure):
    y, t = test_split.resolved, test_split.time
    closure.reset()
    closure.sequence(y[:, :7])
    expected = mac.rollout("burgers", y[:, 7], t[7:], closure, continued=True)
    run = mac.rollout("burgers", y[:, 7], t[7:], closure, past=y[:, :7])
    np.testing.assert_array_equal(run.resolved, expected.resolved)
    np.testing.assert_array_equal(run.closure, expected.closure)
    one = mac.rollout("burgers", y[1, 7], t[7:], closure, past=y[1, :7])
    np.testing.assert_array_equal(one.resolved, expected.resolved[1])
    for past, message in [(y[:, :7, :5], "past has shape"), (y[0, :7], "past has shape"), (np.full((5, 7, 6), np.nan), "not finite")]:
        with pytest.raises(mac.UsageError, match=message):
            mac.rollout("burgers", y[:, 7], t[7:], closure, past=past)
    with pytest.raises(mac.UsageError, match="there is none"):
        mac.rollout("burgers", y[:, 7], t[7:], past=y[:, :7])


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_a_step_may_be_a_whole_fraction_of_the_closure_step(test_split, closure, hold):
    y0, t, pieces = test_split.resolved[:2, 0], test_split.time[:6], 4
    system, h = mac.System("burgers"), 0.01 / pieces
    run = mac.rollout("burgers", y0, t, closure, hold=hold, dt=h)
    y = y0.copy()
    closure.reset()
    for n in range(5):
        np.testing.assert_allclose(run.resolved[:, n], y, rtol=0, atol=1e-13)  # the same sums in another order
        closure.step(y)
        for piece in range(pieces):
            at = lambda stage: closure.at((piece + stage) / pieces, hold)
            k1 = system.reduced_rhs(y) + at(0)
            k2 = system.reduced_rhs(y + h / 2 * k1) + at(0.5)
            k3 = system.reduced_rhs(y + h / 2 * k2) + at(0.5)
            k4 = system.reduced_rhs(y + h * k3) + at(1)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    fine = mac.rollout("burgers", y0, np.linspace(t[0], t[-1], 5 * pieces + 1), closure, hold=hold)  # as t says
    np.testing.assert_array_equal(fine.resolved[:, ::pieces], run.resolved)
    np.testing.assert_array_equal(fine.closure[:, ::pieces], run.closure)


def test_a_step_may_be_a_multiple_of_the_closure_step_which_are_all_taken(test_split, closure):
    y0, t = test_split.resolved[:, 0], test_split.time[:31]
    whole = mac.rollout("burgers", y0, t, closure)
    coarse = mac.rollout("burgers", y0, t[::10], closure, dt=0.05)
    np.testing.assert_array_equal(coarse.resolved, whole.resolved[:, ::10])


def test_a_rollout_that_ended_within_a_closure_step_is_not_continued(test_split, closure):
    y0, half = test_split.resolved[:, 0], 0.005
    whole = mac.rollout("burgers", y0, half * np.arange(9), closure)
    first = mac.rollout("burgers", y0, half * np.arange(4), closure)
    with pytest.raises(mac.UsageError, match="ended within a closure step"):
        mac.rollout("burgers", first.resolved[:, -1], half * np.arange(3, 9), closure, continued=True)
    first = mac.rollout("burgers", y0, half * np.arange(5), closure)
    second = mac.rollout("burgers", first.resolved[:, -1], half * np.arange(4, 9), closure, continued=True)
    np.testing.assert_array_equal(second.resolved, whole.resolved[:, 4:])


def test_a_continued_rollout_equals_an_uninterrupted_one(test_split, closure, model):
    y0, t = test_split.resolved[:, 0], test_split.time
    whole = mac.rollout("burgers", y0, t, closure)
    first = mac.rollout("burgers", y0, t[:18], closure)
    fresh = mac.load(model)
    fresh.state = closure.state  # as a restarted program would
    second = mac.rollout("burgers", first.resolved[:, -1], t[17:], fresh, continued=True)
    np.testing.assert_array_equal(second.resolved, whole.resolved[:, 17:])
    np.testing.assert_array_equal(second.closure, whole.closure[:, 17:])


def test_without_a_closure_it_is_the_markovian_model(program, folder, data, test_split):
    program("rollout", "markov", "--data", data, "-o", folder / "markov.h5", "--quiet")
    expected = mac.read_rollout(folder / "markov.h5")["test"].resolved
    run = mac.rollout("burgers", test_split.resolved[:, 0], test_split.time)
    np.testing.assert_array_equal(run.resolved, expected)


def test_rk4_converges_at_fourth_order_with_time_in_the_right_hand_side():
    # dy/dt = -y + t, y(0) = 1: y(1) = 2/e
    errors = []
    for steps in [10, 20]:
        run = mac.rollout(lambda t, y: t - y, [1.0], np.linspace(0, 1, steps + 1))
        errors.append(abs(run.resolved[-1, 0] - 2 / np.e))
    assert 14 < errors[0] / errors[1] < 18  # 2^4 = 16, and the next order


def test_a_column_that_blows_up_is_reported_and_the_others_go_on():
    run = mac.rollout(lambda t, y: y**2, [[1.0], [-1.0]], np.linspace(0, 2, 201))
    assert 0.9 < run.blow_up_time[0] < 1.3 and np.isnan(run.blow_up_time[1])
    assert np.isnan(run.resolved[0, -1, 0]) and run.resolved[1, -1, 0] == pytest.approx(-1 / 3, rel=1e-6)


def test_closure_components_go_to_their_equations(tmp_path):
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=(4, 30, 3)), axis=1)
    closure = mac.fit(tmp_path / "m.safetensors", y, y[:, :, 1:2], 0.1, targets=[2], steps=2, d_model=3, blocks=1, threads=1)
    t = np.linspace(0, 0.1, 2)
    run = mac.rollout(lambda t, y: 0 * y, np.ones(3), t, closure, targets=[2], hold="zero")
    np.testing.assert_allclose(run.resolved[1], [1, 1, 1 + 0.1 * run.closure[0, 0]], rtol=1e-15)
    by_name = mac.rollout(lambda t, y: 0 * y, np.ones(3), t, closure, hold="zero")  # the file says C_y3
    assert closure.closure_targets == [2] and np.array_equal(by_name.resolved, run.resolved)
    closure = mac.fit(
        tmp_path / "m.safetensors", y, y[:, :, :2], 0.1, targets=[2, 0], steps=2, d_model=3, blocks=1, threads=1
    )
    run = mac.rollout(lambda t, y: 0 * y, np.ones(3), t, closure, hold="zero")
    expected = [1 + 0.1 * run.closure[0, 1], 1, 1 + 0.1 * run.closure[0, 0]]
    np.testing.assert_allclose(run.resolved[1], expected, rtol=1e-15)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(rhs="burger"), 'did you mean "burgers"'),
        (dict(rhs=3), "neither a function"),
        (dict(rhs=None), "neither a function"),
        (dict(rhs=lambda t, y: y[:1]), "gave the shape"),
        (dict(rhs=lambda t, y: None), "right-hand side gave"),
        (dict(rhs="kdv"), "is a closure for burgers"),
        (dict(y0=np.ones(5)), "5"),
        (dict(y0=np.full(6, np.nan)), "not finite"),
        (dict(y0=np.ones((1, 1, 6))), "y0 has shape"),
        (dict(y0="ones"), "y0 is no array of numbers but a str, expected a state or several"),
        (dict(y0=np.ones(6) * 1j), "complex numbers"),
        (dict(rhs=lambda t, y: y * 1j), "what the right-hand side gave is an array of complex numbers"),
        (dict(t={}), "t is no array of numbers but a dict, expected times"),
        (dict(t=[0.0]), "at least two times"),
        (dict(t=[0, 0.01, 0.03]), "equal steps"),
        (dict(t=[0, 0.015]), "no multiple of the closure step"),
        (dict(t=[0, np.nan]), "not finite"),
        (dict(dt=0.0), "dt is 0.0"),
        (dict(dt=np.nan), "dt is nan"),
        (dict(dt=0.004), "trained for a step of 0.01"),
        (dict(dt=0.015), "trained for a step of 0.01"),
        (dict(dt=0.05), "no multiple of the step"),
        (dict(inputs={"wind": 1.0}), "inputs has wind, which"),
        (dict(closure=None, inputs={"wind": 1.0}), "there is none"),
        (dict(closure="mac.safetensors"), "closure is a str"),
        (dict(hold="cubic"), "unknown hold"),
        (dict(hold=3), "hold is 3"),
        (dict(targets=[0, 1]), "2 targets for 6"),
        (dict(targets=[0, 1, 2, 3, 4, 6]), "target 6"),
        (dict(targets=[0, 1, 2, 3, 4, -1]), "targets is"),
    ],
)
def test_wrong_use_gets_a_sentence(closure, arguments, message):
    right = dict(rhs="burgers", y0=np.ones(6), t=[0, 0.01], closure=closure)
    with pytest.raises(mac.UsageError, match=message):
        mac.rollout(**{**right, **arguments})


def test_an_exception_in_the_right_hand_side_comes_through(closure):
    def rhs(t, y):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        mac.rollout(rhs, np.ones(6), [0, 0.01], closure)


@pytest.mark.parametrize("rhs", ["burgers", lambda t, y: 0 * y])
def test_ctrl_c_stops_a_rollout(closure, rhs):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        mac.rollout(rhs, np.zeros((50, 6)), [0, 1e4], closure)  # a million steps
        time.sleep(10)
    assert time.monotonic() - began < 5
    timer.join()
    with pytest.raises(KeyboardInterrupt):  # Python's own handler is back
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
