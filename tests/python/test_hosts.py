"""Columns that rest, limits and couplers from Python: the C interface's numbers, and wrong use."""

import copy
import pickle

import numpy as np
import pytest

import mac


@pytest.fixture
def closure(model):
    return mac.load(model)


@pytest.fixture(scope="module")
def states(data):
    """(5 trajectories, times, 6 variables)"""
    return mac.read_data(data)["test"].resolved


def test_columns_that_rest_keep_everything(closure, states):
    alone = closure.clone()
    closure.step(states[:, 0]), alone.step(states[:, 0])
    everywhere = alone.step(states[:, 1])
    for chosen in [[1, 4], np.array([False, True, False, False, True])]:
        some = closure.clone()
        some.set_active(chosen)
        assert some.active == 2
        y = states[:, 1].copy()
        y[0] = np.nan  # what rests is not read
        c = some.step(y)
        np.testing.assert_array_equal(c[[1, 4]], everywhere[[1, 4]])
        assert np.isnan(c[[0, 2, 3]]).all()
        assert np.isnan(some.sequence(states[:, 2:4])[[0, 2, 3]]).all()
        some.set_active(None)
        np.testing.assert_array_equal(some.step(states[:, 1])[[0, 2, 3]], everywhere[[0, 2, 3]])


def test_a_choice_of_columns_that_cannot_be_meant_is_refused(closure, states):
    with pytest.raises(mac.UsageError, match="has no columns yet"):
        closure.set_active([0])
    closure.step(states[:, 0])
    with pytest.raises(mac.UsageError, match="column 9 is beyond the 5 of the state"):
        closure.set_active([1, 9])
    with pytest.raises(mac.UsageError, match="the mask has 2 elements: expected 5"):
        closure.set_active(np.array([True, False]))
    for wrong in ["text", [-1], [0.5]]:
        with pytest.raises(mac.UsageError, match="expected a list of columns"):
            closure.set_active(wrong)
    closure.set_active([2])
    with pytest.raises(mac.UsageError, match="1 of 5 columns are active"):
        mac.rollout("burgers", states[:, 0], 0.01 * np.arange(3), closure, continued=True)


def test_limits_clip_and_count(closure, states):
    low, high = closure.training_range["output_low"], closure.training_range["output_high"]
    free = closure.clone()
    closure.set_limits("clip", closure="clip", margin=0.0)  # before there are columns
    y = states[:, 0].copy()
    y[3, 2] = 50.0
    c = closure.step(y)
    assert ((c >= low) & (c <= high)).all()
    seen = closure.diagnostics()
    assert seen["steps"].tolist() == [1] * 5 and seen["inputs_outside"][3] == 1 and seen["changed"][3] == 1
    assert seen["input_excess"][3] > 10 and seen["distance"][3] > 10
    at_bound = np.clip(y, closure.training_range["input_low"], closure.training_range["input_high"])
    np.testing.assert_array_equal(c, np.clip(free.step(at_bound), low, high))


def test_limits_stay_with_a_closure(closure, states):
    wide = {"input_low": -np.ones(6), "input_high": np.ones(6), "output_low": -9 * np.ones(6), "output_high": 9 * np.ones(6)}
    closure.set_limits(closure="fade", fade=0.5, **wide)
    closure.step(states[:, 0])
    memory = closure.state
    closure.reset()
    closure.state = memory
    fresh = mac.Closure(closure.file_bytes)
    fresh.set_limits(closure="fade", fade=0.5, **wide)
    fresh.state = memory[:]
    far = states[:, 1].copy()
    far[2, 0] = 4.0  # more than half a width of 2 outside
    for other in [closure, closure.clone(), copy.deepcopy(closure), pickle.loads(pickle.dumps(closure)), fresh]:
        assert other.limits["closure"] == "fade" and other.limits["fade"] == 0.5
        other.set_fallback(np.full((5, 6), 0.25))
        np.testing.assert_allclose(other.step(far)[2], 0.25, rtol=1e-12)
    closure.clear_limits()
    assert closure.limits is None
    with pytest.raises(mac.UsageError, match="the state has no limits"):
        closure.diagnostics()


def test_limits_hold_in_rollouts_where_they_can(closure, states):
    times = 0.01 * np.arange(6)
    closure.set_limits(closure="clip")
    run = mac.rollout("burgers", states[:, 0], times, closure, hold="zero")
    assert (closure.diagnostics()["steps"] >= 5).all()
    assert (run.closure <= closure.training_range["output_high"]).all()
    with pytest.raises(mac.UsageError, match="has limits"):
        mac.rollout("burgers", states[:, 0], times, closure, hold="stage")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"inputs": "scale"}, 'inputs is "scale", expected "count" or "clip"'),
        ({"closure": "cut"}, 'closure is "cut", expected "count", "clip", "scale" or "fade"'),
        ({"margin": -1.0}, "margin is -1: expected 0 or more"),
        ({"closure": "fade", "fade": 0.0}, "fade is 0: expected more than 0"),
        ({"input_low": [0.0]}, "give all of them"),
        ({k: [0.0] for k in ["input_low", "input_high", "output_low", "output_high"]}, "input_low has 1 elements"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(closure, arguments, message):
    with pytest.raises(mac.UsageError, match=message):
        closure.set_limits(**arguments)
    assert closure.limits is None


def test_a_coupler_predicts_at_every_nth_host_step(closure, states):
    plain = closure.clone()
    coupler = mac.Coupler(closure, closure.closure_step / 2, columns=5, hold="linear")
    assert (coupler.host_steps, coupler.closure_steps) == (2, 1)
    for n in range(6):
        coupler.begin(states[:, n])
        if n % 2 == 0:
            plain.step(states[:, n])
        np.testing.assert_array_equal(coupler.closure(0.5), plain.at(0.25 + 0.5 * (n % 2), "linear"))
    assert closure.steps == 3


def test_a_coupler_goes_on_from_what_was_saved(closure, states):
    again = closure.clone()
    whole = mac.Coupler(closure, 3 * closure.closure_step, columns=5, hold="linear")
    for n in range(4):
        whole.begin(states[:, n])
    numbers, memory = whole.state, closure.state
    again.state = memory
    resumed = mac.Coupler(again, 3 * closure.closure_step, columns=5, hold="linear")
    resumed.state = numbers
    whole.begin(states[:, 4]), resumed.begin(states[:, 4])
    np.testing.assert_array_equal(resumed.closure(0.3), whole.closure(0.3))
    with pytest.raises(mac.UsageError, match="numbers, expected"):
        resumed.state = numbers[1:]
    numbers[0] = 0.5
    with pytest.raises(mac.UsageError, match="has begun 0.5 host steps"):
        resumed.state = numbers


def test_couplers_that_cannot_be_meant_are_refused(closure, states):
    with pytest.raises(mac.UsageError, match="neither divides"):
        mac.Coupler(closure, 0.7 * closure.closure_step)
    with pytest.raises(mac.UsageError, match="stage"):
        mac.Coupler(closure, closure.closure_step, hold="stage")
    closure.reset()
    coupler = mac.Coupler(closure, closure.closure_step)
    with pytest.raises(mac.UsageError, match="no host step has begun"):
        coupler.closure(0)
    with pytest.raises(mac.UsageError, match=r"y has shape \(5, 6\), expected \(1, 6\)"):
        coupler.begin(states[:, 0])
    coupler.begin(states[0, 0])
    assert coupler.closure(0).shape == (6,)
    closure.reset()
    with pytest.raises(mac.UsageError, match="has been reset since the coupler was made"):
        coupler.begin(states[0, 0])
