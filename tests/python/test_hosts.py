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


def scattered(columns, shape, dtype, step=1):
    """(columns, variables) as an array for each variable, every step-th element of its last axis."""
    arrays = []
    for values in columns.T:
        wide = np.full((*shape[:-1], step * shape[-1]), -7, dtype)
        wide[..., ::step] = values.reshape(shape)
        arrays.append(wide[..., ::step])
    return arrays


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(6,), (3, 2), (1, 2, 3)])
def test_fields_step_where_they_lie(closure, states, shape, dtype):
    y = states[0, :6].astype(np.float32).astype(float)
    rows = closure.clone()
    for turn in range(3):
        expected = rows.step(y).T.astype(dtype)
        if turn == 0:  # a list of views that are not contiguous, and closures written into such
            out = scattered(np.zeros((6, 6)), shape, dtype, step=3)
            assert closure.step_fields(scattered(y, shape, dtype, step=2), out) is out
            assert (out[0].base[..., 1::3] == -7).all()
        elif turn == 1:  # an array (variable, ...), as it is and transposed
            out = closure.step_fields(np.ascontiguousarray(y.T.reshape(6, *shape), dtype))
            assert out.shape == (6, *shape) and out.dtype == dtype
        else:
            last = np.moveaxis(np.ascontiguousarray(y.reshape(*shape, 6), dtype), -1, 0)
            out = closure.step_fields(last)
        np.testing.assert_array_equal(np.array(out).reshape(6, 6), expected)


def test_fields_that_rest_keep_what_they_have(closure, states):
    closure.reset(4)
    closure.set_active([0, 3])
    out = [np.full(4, -7.0) for _ in range(6)]
    closure.step_fields(list(states[0, :4].T), out)
    assert all((c[1:3] == -7).all() and (c[[0, 3]] != -7).all() for c in out)
    assert np.isnan(closure.step_fields(list(states[0, :4].T))[:, 1:3]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_coupler_takes_fields(closure, states, dtype):
    y = states[0, :6].astype(np.float32).astype(float)
    other = closure.clone()
    rows, fields = (mac.Coupler(c, 2 * c.closure_step, columns=6, hold="linear") for c in (closure, other))
    for turn in range(3):
        rows.begin(y * 0.5**turn)
        fields.begin_fields(scattered(y * 0.5**turn, (3, 2), dtype, step=2))
        out = fields.closure_fields(0.3, scattered(np.zeros((6, 6)), (3, 2), dtype, step=2))
        np.testing.assert_array_equal(np.array(out).reshape(6, 6), rows.closure(0.3).T.astype(dtype))


def test_fields_that_cannot_be_meant_are_refused(closure):
    good = [np.zeros((2, 3)) for _ in range(6)]
    frozen = np.zeros((2, 3))
    frozen.flags.writeable = False
    for wrong, sentence in [
        (good[:5], r"y has 5 arrays, expected 6"),
        (3.0, r"y is a float, expected a list of 6 arrays"),
        ([[0.0]] * 6, r"y\[0\] is no array of float64 or float32"),
        ([np.zeros((2, 3), int)] * 6, r"y\[0\] is no array of float64 or float32"),
        (good[:5] + [np.zeros((3, 2))], r"y\[5\] does not lie as y\[0\]"),
        (good[:5] + [np.zeros((2, 6))[:, ::2]], r"y\[5\] does not lie as y\[0\]"),
        (good[:5] + [np.zeros((2, 3), np.float32)], r"y\[5\] does not lie as y\[0\]"),
        ([np.zeros((1, 1, 2, 3))] * 6, r"expected up to three axes"),
        ([np.zeros(1).repeat(0)] * 6, r"expected up to three axes"),
        ([np.broadcast_to(np.zeros(3), (2, 3))] * 6, r"a stride of y is 0"),
        ([np.zeros(30, np.uint8)[1:25].view(np.float64)] * 6, r"does not lie at whole numbers of elements"),
    ]:
        with pytest.raises(mac.UsageError, match=sentence):
            closure.step_fields(wrong)
    with pytest.raises(mac.UsageError, match=r"out\[5\] cannot be written"):
        closure.step_fields(good, good[:5] + [frozen])
    with pytest.raises(mac.UsageError, match=r"out has arrays of float64 of shape \(3,\), expected those of y"):
        closure.step_fields(good, [np.zeros(3) for _ in range(6)])
    assert closure.steps == 0
    closure.step_fields(good)
    with pytest.raises(mac.UsageError, match="columns"):
        closure.step_fields([np.zeros(4) for _ in range(6)])
