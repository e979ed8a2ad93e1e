"""mac.fit on trajectories alone: the closure computed, trials judged with a Python function, warnings."""

import json
import warnings

import numpy as np
import pytest

import mac
from mac.data import split_arrays
from mac.study import seconds
from mac.tendency import derivative, difference_closure, step_means

DT = 0.1
QUICK = dict(steps=12, d_model=3, blocks=1, d_state=2, threads=1)


def relaxing(n, times=31, seed=1):
    """x' = -x + z, z' = (x^2 - z)/0.2, z(0) = 0: resolved x, closure z."""
    x, z = np.random.default_rng(seed).uniform(-1, 1, n), np.zeros(n)
    xs, zs = [], []
    for _ in range(times):
        xs.append(x), zs.append(z)
        for _ in range(100):
            x, z = x + DT / 100 * (z - x), z + DT / 100 * (x**2 - z) / 0.2
    return np.stack(xs, 1)[:, :, None], np.stack(zs, 1)[:, :, None]


def decay(t, y):
    return -y


@pytest.mark.parametrize("order", [2, 4])
def test_derivatives_are_exact_for_polynomials_of_their_order_up_to_the_ends(order):
    t = np.linspace(0, 1, 9)
    y = np.stack([t**k for k in range(order + 1)], axis=-1)[None]
    expected = np.stack([k * t ** max(k - 1, 0) for k in range(order + 1)], axis=-1)[None]
    np.testing.assert_allclose(derivative(y, t[1], order), expected, atol=1e-12)
    with pytest.raises(mac.UsageError, match=f"too short for differences of order {order}"):
        derivative(y[:, :order], t[1], order)


@pytest.mark.parametrize("order", [2, 4])
def test_computed_closures_converge_with_their_order_and_estimate_their_error(order):
    def closure_of(steps):
        t = np.linspace(0, 2, steps + 1)
        computed = difference_closure(np.sin(3 * t)[None, :, None], t[1], decay, [0], order)
        exact = 3 * np.cos(3 * t) + np.sin(3 * t)
        return np.sqrt(np.mean((computed.closure[0, :, 0] - exact) ** 2)), computed.error * np.sqrt(np.mean(exact**2))

    errors, estimates = np.transpose([closure_of(steps) for steps in (40, 80, 160)])
    # An end is one point in so many: its larger error falls faster in the mean, by half an order.
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), order, atol=0.5)
    np.testing.assert_allclose(np.log2(estimates[:-1] / estimates[1:]), order, atol=0.1)
    assert np.all(estimates < errors) and np.all(errors < 5 * estimates)  # the ends are in none


def test_the_closure_is_computed_with_an_estimate_of_its_error():
    y, c = relaxing(8)
    computed = difference_closure(y, DT, decay, [0])
    error = np.linalg.norm(computed.closure[:, 4:-4] - c[:, 4:-4]) / np.linalg.norm(c)
    assert error < 0.02  # differences of a step of half the fast time
    assert error / 5 < computed.error < 5 * error
    assert computed.unexplained == 0


def test_with_the_step_means_the_reduced_step_lands_on_the_next_state():
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(0, 0.1, (3, 6, 2)), axis=1)

    def rhs(t, y):
        return np.stack([y[..., 1], -np.sin(y[..., 0])], axis=-1)

    mean = step_means(y, DT, rhs, [0, 1]).mean
    for n in range(5):
        run = mac.rollout(lambda t, z: rhs(t, z) + mean[:, n], y[:, n], [0, DT])
        np.testing.assert_allclose(run.resolved[:, -1], y[:, n + 1], rtol=0, atol=1e-13)


def test_fit_computes_the_closure_and_judges_by_the_given_function(tmp_path):
    y, c = relaxing(20)
    calls = []

    def rhs(t, y):
        calls.append(y.shape)
        return -y

    closure = mac.fit(tmp_path / "m.safetensors", y, dt=DT, rhs=rhs, names=["x"], **QUICK)
    assert any(len(shape) == 2 and shape[0] == 2 for shape in calls)  # both validation trajectories in one call
    search = json.loads(closure.metadata("search"))
    assert "given" in search["equations"] and len(search["trials"]) >= 6
    data = mac.read_data(tmp_path / "m.data.h5")
    np.testing.assert_allclose(data["train"].closure[:, 4:-4], c[:18, 4:-4], atol=0.01)
    assert not (tmp_path / "m.trials").exists()


def test_fit_is_the_same_bytes_with_the_same_seed_and_threads_do_not_matter(tmp_path):
    y, c = relaxing(20)
    arguments = dict(dt=DT, rhs=decay, **{**QUICK, "threads": 1})
    first = mac.fit(tmp_path / "a.safetensors", y, c, **arguments)
    second = mac.fit(tmp_path / "b.safetensors", y, c, **{**arguments, "threads": 2})
    assert first.file_bytes == second.file_bytes


def forced_duffing(n, times=31, seed=2):
    """x'' = x - x^3 - .2 x' + .3 cos t + .8 q drags the hidden q along, which starts at rest: resolved x, v, closure .8 q."""
    x, v = np.random.default_rng(seed).uniform(-1, 1, (2, n))
    q, p, h = np.zeros(n), np.zeros(n), DT / 50
    ys, cs = [], []
    for k in range(50 * (times - 1) + 1):  # symplectic Euler: its error is far below what is asked for here
        if k % 50 == 0:
            ys.append(np.stack([x, v], -1)), cs.append(0.8 * q)
        v = v + h * (x - x**3 - 0.2 * v + 0.3 * np.cos(k * h) + 0.8 * q)
        p = p + h * (x - 2 * q - 0.5 * p)
        x, q = x + h * v, q + h * p
    return np.stack(ys, 1), np.stack(cs, 1)


def forced(t, y):
    assert np.ndim(t) == 0  # as in mac.rollout
    x, v = y[..., 0], y[..., 1]
    return np.stack([v, x - x**3 - 0.2 * v + 0.3 * np.cos(t)], axis=-1)


def test_a_rhs_may_depend_on_the_time_of_the_trajectories(tmp_path):
    y, c = forced_duffing(20)
    duffing = dict(dt=DT, names=["x", "v"], targets=["v"], **QUICK)
    closure = mac.fit(tmp_path / "m.safetensors", y, rhs=forced, **duffing)
    data = mac.read_data(tmp_path / "m.data.h5")
    np.testing.assert_allclose(data["train"].closure[:, 2:-2, 0], c[:18, 2:-2], atol=0.01)
    search = json.loads(closure.metadata("search"))
    assert "given" in search["equations"] and search["beyond"] == 0
    # Without a closure the trials' rollouts are those of mac.rollout; their error is a mean over x, v and the time itself.
    none = mac.rollout(forced, y[18:, 0], DT * np.arange(31)).resolved
    norms = np.linalg.norm(none - y[18:], axis=1) / np.linalg.norm(y[18:], axis=1)
    assert search["error_without_closure"] == pytest.approx(np.sum(np.mean(norms, axis=0)) / 3, rel=0.02)
    assert closure.input_names == ["x", "v"]
    assert np.all(np.isfinite(mac.rollout(forced, y[:3, 0], DT * np.arange(31), closure).resolved))
    # With rollout losses, whose gradients are differences; and from the later part of a single trajectory.
    rollouts = {"stages": [{"loss": "rollout", "rollout_steps": 5, "steps": 3}]}
    mac.fit(tmp_path / "r.safetensors", y, rhs=forced, recipe="fast", training=rollouts, **{**duffing, "steps": None})
    mac.fit(tmp_path / "one.safetensors", forced_duffing(1, 80)[0], rhs=forced, validation=0.25, **duffing)
    for arguments in (dict(names=["x", "t"], targets=[1]), dict(rhs_vjp=lambda t, y, v: v), dict(inputs={"p": np.arange(20.0)})):
        with pytest.raises(mac.UsageError, match="depends on t, which goes with arrays"):
            mac.fit(tmp_path / "t.safetensors", y, rhs=forced, **{**duffing, **arguments})


def test_without_equations_the_closure_is_the_whole_tendency(tmp_path):
    y, _ = relaxing(20)
    closure = mac.fit(tmp_path / "m.safetensors", y, dt=DT, **QUICK)
    data = mac.read_data(tmp_path / "m.data.h5")
    np.testing.assert_allclose(data["train"].closure, derivative(y[:18], DT))
    assert closure.outputs == 1
    mac.rollout_data(tmp_path / "m.safetensors", tmp_path / "m.data.h5", tmp_path / "r.h5", splits="validation", threads=1)
    run = mac.rollout(lambda t, y: np.zeros_like(y), y[18:, 0], DT * np.arange(31), closure)
    np.testing.assert_allclose(run.resolved, mac.read_rollout(tmp_path / "r.h5")["validation"].resolved, rtol=1e-6)


def test_fit_chooses_the_kind_unless_it_is_said(tmp_path):
    y, c = relaxing(20)
    sizes = dict(steps=12, d_model=3, blocks=1, threads=1)
    closure = mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=decay, **sizes)
    search = json.loads(closure.metadata("search"))
    assert {trial["kind"] for trial in search["trials"]} == {"mamba", "gru"}
    assert closure.kind == search["trials"][search["chosen"]]["kind"]
    lstm = mac.fit(tmp_path / "lstm.safetensors", y, c, DT, rhs=decay, kind="lstm", **sizes)
    assert {trial["kind"] for trial in json.loads(lstm.metadata("search"))["trials"]} == {"lstm"}
    assert mac.fit(tmp_path / "f.safetensors", y, c, DT, recipe="fast", **sizes).kind == "mamba"


def test_means_of_given_closures_are_of_fourth_order_where_four_are_known():
    def means(c):
        return split_arrays("train", c, c)["closure_mean"][0, :, 0]

    def cubes(dt, times=9):
        t = 0.3 + dt * np.arange(times)
        return t[None, :, None] ** 3, np.diff(t**4) / (4 * dt)

    c, exact = cubes(0.1)
    np.testing.assert_allclose(means(c), exact, rtol=1e-13)  # rounding: a cubic is integrated exactly
    np.testing.assert_allclose(means(c[:, :3]), (c[0, 1:3, 0] + c[0, :2, 0]) / 2)
    c[0, 4] = np.nan
    gapped = means(c)
    np.testing.assert_array_equal(np.isnan(gapped), [n in (3, 4) for n in range(8)])
    np.testing.assert_allclose(gapped[2], (c[0, 2, 0] + c[0, 3, 0]) / 2)  # its cubic would need the missing one
    np.testing.assert_allclose(gapped[:2], exact[:2], rtol=1e-13)


def test_fit_learns_means_where_they_couple_better_unless_the_target_is_said(tmp_path):
    """A closure that oscillates fast beside the step: its straight line from the last two values is far off."""
    t = DT * np.arange(61)
    phase = np.random.default_rng(3).uniform(0, 2 * np.pi, (20, 1, 1))
    y = np.cos(4 * t[None, :, None] + phase)
    y = np.concatenate([y, np.sin(4 * t[None, :, None] + phase)], axis=2)
    rhs = lambda t, y: -0.1 * y
    chosen = mac.fit(tmp_path / "m.safetensors", y, dt=DT, rhs=rhs, **QUICK)
    assert chosen.target == "mean"
    assert "mean over a step" in json.loads(chosen.metadata("search"))["coupling"]
    assert mac.fit(tmp_path / "i.safetensors", y, dt=DT, rhs=rhs, target="instant", **QUICK).target == "instant"
    assert mac.fit(tmp_path / "f.safetensors", y, dt=DT, rhs=rhs, recipe="fast", **QUICK).target == "instant"


def test_of_a_single_trajectory_the_last_part_is_for_validation(tmp_path):
    y, c = relaxing(1, times=80)
    mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=decay, validation=0.25, **QUICK)
    data = mac.read_data(tmp_path / "m.data.h5")
    np.testing.assert_array_equal(data["train"].resolved, y[:, :60])
    np.testing.assert_array_equal(data["validation"].resolved, y[:, 60:])
    np.testing.assert_allclose(data["validation"].closure_mean[:, 0], (c[:, 60] + c[:, 61]) * 13 / 24 - (c[:, 59] + c[:, 62]) / 24)
    mac.fit(tmp_path / "past.safetensors", y, c, DT, rhs=decay, validation=0.25, history=1.0, **QUICK)
    np.testing.assert_array_equal(mac.read_data(tmp_path / "past.data.h5")["validation"].resolved, y[:, 50:])


def test_rollouts_that_leave_the_domain_of_the_function_are_not_shouted_about(tmp_path):
    y, c = relaxing(20)

    calls = []

    def rhs(t, y):
        if y.shape == (2, 1):  # a rollout of both validation trajectories
            calls.append(np.sqrt(-1 - np.abs(y)))
        return -y

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=rhs, **QUICK)
    assert calls
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]


def test_fit_warns_where_nothing_is_better_than_no_closure(tmp_path):
    rng = np.random.default_rng(5)
    t = DT * np.arange(21)
    y = rng.uniform(-1, 1, (20, 1, 1)) * np.exp(-t)[None, :, None]  # the reduced equation is exact
    noise = rng.normal(size=y.shape)
    with pytest.warns(mac.ClosureWarning, match="without a closure"):
        mac.fit(tmp_path / "m.safetensors", y, noise, DT, rhs=decay, **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mac.fit(tmp_path / "fast.safetensors", y, noise, DT, recipe="fast", **QUICK)  # judges nothing


def test_fit_ends_with_a_verdict_and_the_horizon_over_which_it_was_judged(tmp_path, capfd):
    y, c = relaxing(20)
    closure = mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=decay, quiet=False, **QUICK)
    assert len(closure.verdict) == 1
    assert "than no closure on validation data over [0,3]" in closure.verdict[0]
    assert closure.verdict[0].endswith("; judged over free rollouts of length 3: beyond that nothing was tested")
    assert closure.clone().verdict == closure.verdict
    search = json.loads(closure.metadata("search"))
    assert search["horizon"] == pytest.approx(3)
    said = capfd.readouterr().err
    assert f"verdict: {closure.verdict[0]}\n" in said and search["reason"] in said
    assert mac.load(tmp_path / "m.safetensors").verdict == []  # a file is a function of its training alone
    mac.fit(tmp_path / "quiet.safetensors", y, c, DT, rhs=decay, **QUICK)
    assert capfd.readouterr().err == ""


def test_fit_says_what_is_wrong_with_its_function_and_budget(tmp_path):
    y, c = relaxing(6, times=12)
    wrong = [
        (dict(rhs=lambda t, y: y[:, :0]), "gave the shape"),
        (dict(rhs=3), "neither a function"),
        (dict(rhs=decay, budget="soon"), "budget is 'soon'"),
        (dict(rhs=decay, history=5.0), "history"),
        (dict(rhs=decay, order=3), "order is 3, expected 2 or 4"),
        (dict(dt=None), "dt is None"),
        (dict(training={"recipe": "auto", "select": "loss"}), "decides this itself"),
    ]
    for arguments, message in wrong:
        with pytest.raises(mac.UsageError, match=message):
            mac.fit(tmp_path / "m.safetensors", y, c, **{"dt": DT, **QUICK, **arguments})
    assert [seconds(text) for text in (None, 90, "90s", "1.5min", "2h")] == [0, 90, 90, 90, 7200]


def test_an_error_of_the_function_comes_through(tmp_path):
    y, c = relaxing(20)

    def rhs(t, y):
        if y.shape[0] == 2:  # a validation rollout
            raise KeyError("mine")
        return -y

    with pytest.raises(KeyError, match="mine"):
        mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=rhs, **QUICK)
