"""Closures stepped from Python: the library's numbers, exact restarts, threads, and wrong use."""

import copy
import json
import os
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from conftest import read_safetensors, write_safetensors

import mac

GOLDEN = os.environ["MAC_TEST_DATA"]


def golden_closure(folder, name):
    """A model file of the golden weights alone, and the golden tensors."""
    tensors = read_safetensors(f"{GOLDEN}/{name}.safetensors")
    path = folder / f"{name}.safetensors"
    write_safetensors(path, {key[8:]: value for key, value in tensors.items() if key.startswith("weights.")})
    return mac.load(path), tensors


@pytest.fixture
def closure(model):
    return mac.load(model)


@pytest.fixture(scope="module")
def states(data):
    """(trajectories, times, variables)"""
    return mac.read_data(data)["test"].resolved


def test_steps_equal_mac_predict_to_the_last_bit(program, folder, model, data, states):
    program("predict", model, "--input", data, "-o", folder / "predicted.h5", "--mode", "step", "--quiet")
    with h5py.File(folder / "predicted.h5") as file:
        expected = file["test/closure"][:]
    one_by_one = mac.load(model)
    stepped = np.stack([one_by_one.step(states[:, t]) for t in range(states.shape[1])], axis=1)
    np.testing.assert_array_equal(stepped[:, : expected.shape[1]], expected)
    np.testing.assert_array_equal(mac.load(model).sequence(states), stepped)
    np.testing.assert_array_equal(mac.load(model).sequence(states[2]), stepped[2])


@pytest.mark.parametrize("name", ["tiny_mamba", "burgers_mamba", "burgers_gru", "lorenz96_mamba"])
@pytest.mark.parametrize("precision, tolerance", [("float32", 2e-6), ("float64", 1e-12)])
def test_a_file_of_a_state_dict_gives_the_golden_outputs(tmp_path, name, precision, tolerance):
    _, tensors = golden_closure(tmp_path, name)
    closure = mac.load(tmp_path / f"{name}.safetensors", precision)
    out = closure.sequence(tensors["x"])
    # As the engines' golden tests: what a float network rounds, and a double one.
    assert np.linalg.norm(out - tensors["out"]) < tolerance * np.linalg.norm(tensors["out"])


def test_columns_go_on_in_another_decomposition(model, states):
    whole = mac.load(model)
    for t in range(3):
        whole.step(states[:, t])
    n = len(states)
    saved = whole.save_columns(range(n))
    after = whole.step(states[:, 3])
    parts = []
    for columns in [range(n // 2), range(n // 2, n)]:
        part = mac.load(model)
        part.reset(columns=len(columns))
        part.restore_columns(saved, columns, range(len(columns)))
        parts.append(part.step(states[list(columns), 3]))
    np.testing.assert_array_equal(np.concatenate(parts), after)
    other = whole.clone()
    other.reset_columns([0])
    other.copy_columns(whole, [0], [1])
    assert other.save_columns([1]) == whole.save_columns([0]) != other.save_columns([0])
    with pytest.raises(mac.Error, match=f"column {n} is beyond the {n}"):
        whole.save_columns([n])
    with pytest.raises(mac.UsageError, match="has no columns yet"):
        mac.load(model).save_columns([0])


def test_a_time_loop_of_ones_own_gives_the_rollout(closure, states, data):
    experiment = mac.read_data(data).experiment
    rhs, dt = experiment.system, closure.closure_step
    for y0 in [states[:, 0], states[0, 0]]:
        run = mac.rollout(rhs, y0, dt * np.arange(11), closure)
        closure.reset()
        y = y0
        for _ in range(10):
            closure.step(y)
            k1 = rhs(0, y) + closure.at(0)
            k2 = rhs(0, y + dt / 2 * k1) + closure.at(0.5)
            k3 = rhs(0, y + dt / 2 * k2) + closure.at(0.5)
            k4 = rhs(0, y + dt * k3) + closure.at(1)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        assert closure.hold == "linear" and y.shape == y0.shape
        np.testing.assert_allclose(y, run.resolved[..., -1, :], rtol=1e-12, atol=1e-14)  # the order of sums
    with pytest.raises(mac.UsageError, match="zero and linear"):
        closure.at(0.5, hold="stage")
    closure.reset()
    with pytest.raises(mac.UsageError, match="not taken a step"):
        closure.at(0)


def test_a_state_comes_back_from_any_array_of_bytes(closure, states):
    closure.step(states[0, 0])
    saved = closure.state
    expected = closure.step(states[0, 1])
    for same in [bytearray(saved), memoryview(saved), np.frombuffer(saved, np.uint8)]:
        closure.state = same
        np.testing.assert_array_equal(closure.step(states[0, 1]), expected)
    with pytest.raises(mac.UsageError, match="array of bytes"):
        closure.state = np.zeros(3)
    with pytest.raises(mac.UsageError, match="bytes, its 1 columns take"):
        closure.state = saved + b"x"


def test_a_column_does_not_depend_on_the_others(closure, model, states):
    together = closure.sequence(states)
    for i in range(len(states)):
        np.testing.assert_array_equal(mac.load(model).sequence(states[i]), together[i])


def test_arrays_of_any_kind_are_read(closure, states):
    expected = closure.clone().step(states[:, 0])
    fortran = np.asfortranarray(states[:, 0])
    reversed_view = states[::-1, 0][::-1]
    for y in [fortran, reversed_view, states[:, 0].tolist()]:
        np.testing.assert_array_equal(closure.clone().step(y), expected)


def test_a_restart_at_a_random_step_is_exact(closure, model, states):
    whole = closure.clone().sequence(states)
    at = random.Random(7).randrange(1, states.shape[1] - 1)
    closure.sequence(states[:, :at])
    restored = mac.load(model)
    restored.state = closure.state
    assert (restored.columns, restored.steps) == (len(states), at)
    for again in [restored, closure.clone(), copy.deepcopy(closure), pickle.loads(pickle.dumps(closure))]:
        np.testing.assert_array_equal(again.sequence(states[:, at:]), whole[:, at:])
    closure.reset()
    assert (closure.columns, closure.steps) == (0, 0)
    np.testing.assert_array_equal(closure.sequence(states), whole)


def test_a_pickled_closure_at_rest_starts_at_rest(closure, states):
    again = pickle.loads(pickle.dumps(closure))
    np.testing.assert_array_equal(again.step(states[0, 0]), closure.step(states[0, 0]))


def test_sixty_four_threads_on_one_model_give_the_serial_answer(closure, states):
    expected = closure.clone().sequence(states)
    with ThreadPoolExecutor(64) as pool:
        for result in pool.map(lambda _: closure.clone().sequence(states), range(64)):
            np.testing.assert_array_equal(result, expected)


def test_two_threads_on_one_state_are_told_so(model):
    closure = mac.load(model)
    long = np.zeros((100_000, closure.inputs))
    worker = threading.Thread(target=closure.sequence, args=(long,))
    worker.start()
    with pytest.raises(mac.UsageError, match="clone"):
        while worker.is_alive():
            closure.step(long[0])
    worker.join()


def test_a_closure_says_what_it_is(closure):
    assert closure.kind == "mamba" and closure.system == "burgers"
    assert closure.input_names == ["phi1", "phi2", "phi3", "psi1", "psi2", "psi3"]
    assert closure.closure_step == pytest.approx(0.01) and closure.hold == "linear" and closure.target == "instant"
    assert closure.normalisation["input_scale"].shape == (6,)
    assert "mamba" in repr(closure) and closure.metadata("recipe") == "fast" and closure.metadata("none") is None


@pytest.mark.parametrize("y", [None, 1.0, [], np.zeros(5), np.zeros((2, 7)), np.zeros((2, 2, 6))])
def test_a_state_of_the_wrong_size_is_refused(closure, y):
    with pytest.raises(mac.UsageError, match="expected \\(6,\\) or \\(columns, 6\\)"):
        closure.step(y)


@pytest.mark.parametrize("y", ["text", object(), {"a": 1}])
def test_what_is_no_array_is_refused(closure, y):
    with pytest.raises(mac.UsageError, match=f"y is a {type(y).__name__}, expected an array of numbers"):
        closure.step(y)
    with pytest.raises(mac.UsageError, match=f"y is a {type(y).__name__}, expected an array of numbers"):
        closure.sequence(y)


def test_what_a_conversion_would_lose_is_refused(closure, states):
    y = states[0, 0]
    with pytest.raises(mac.UsageError, match="y is an array of complex numbers"):
        closure.step(y + 1j)
    with pytest.raises(mac.UsageError, match="y is a masked array"):
        closure.sequence(np.ma.masked_array(states[0], mask=states[0] > 0))
    whole = np.ma.masked_array(y, mask=False)
    np.testing.assert_array_equal(closure.clone().step(whole), closure.step(y))


def test_a_state_that_is_not_finite_is_refused_and_changes_nothing(closure, states):
    expected = closure.clone().step(states[:, 0])
    for bad in [np.nan, np.inf]:
        y = states[:, 0].copy()
        y[3, 2] = bad
        with pytest.raises(mac.Error, match="3.*2|2.*3"):
            closure.step(y)
    np.testing.assert_array_equal(closure.step(states[:, 0]), expected)


def test_another_number_of_columns_is_refused(closure, states):
    closure.step(states[:, 0])
    with pytest.raises(mac.UsageError, match="remembers 5 columns"):
        closure.step(states[:2, 0])


def test_a_state_of_another_model_is_refused(closure, states, tmp_path):
    other, _ = golden_closure(tmp_path, "burgers_mamba")
    other.step(states[:, 0])
    closure.step(states[:, 0])
    before = closure.state
    for foreign in [other.state, before[:-1], before[:20], b"x", b"\xff" * 100, before[:-9] + b"123456789"]:
        with pytest.raises(mac.UsageError):
            closure.state = foreign
        assert closure.state == before
    with pytest.raises(TypeError):
        closure.state = None


def test_files_that_are_no_models_are_named(tmp_path, data):
    with pytest.raises(mac.Error, match="none.safetensors: cannot be read"):
        mac.load(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("not a model at all")
    with pytest.raises(mac.Error, match="text.safetensors"):
        mac.load(tmp_path / "text.safetensors")
    with pytest.raises(mac.Error, match="data.h5"):
        mac.load(data)
    with pytest.raises(mac.UsageError, match="float32 or float64"):
        mac.load(os.environ["MAC_TEST_DATA"] + "/tiny_mamba.safetensors", "float16")


def test_arguments_of_another_type_are_named(model):
    with pytest.raises(mac.UsageError, match="model is a int, expected a file"):
        mac.load(3)
    with pytest.raises(mac.UsageError, match='precision is 32, expected "float32" or "float64"'):
        mac.load(model, 32)


def test_the_zoo_is_searched_by_name(model, tmp_path, monkeypatch):
    (tmp_path / "burgers.safetensors").write_bytes(model.read_bytes())
    monkeypatch.setenv("MAC_ZOO", str(tmp_path))
    assert mac.load("burgers").system == "burgers"
    with pytest.raises(mac.UsageError, match="zoo, which has .*burgers"):
        mac.load("burger")


def test_errors_are_also_those_of_python():
    assert issubclass(mac.Error, RuntimeError) and issubclass(mac.UsageError, ValueError)
    assert issubclass(mac.UsageError, mac.Error)


def test_a_trained_model_knows_the_range_of_its_training_data(closure, data):
    train = mac.read_data(data)["train"]
    inputs = train.resolved.reshape(-1, train.resolved.shape[-1])
    outputs = train.closure.reshape(-1, train.closure.shape[-1])

    def stored(key):
        return np.array(json.loads(closure.metadata(key)))

    np.testing.assert_array_equal(stored("input_low"), inputs.min(axis=0))
    np.testing.assert_array_equal(stored("input_high"), inputs.max(axis=0))
    np.testing.assert_array_equal(stored("output_low"), outputs.min(axis=0))
    np.testing.assert_array_equal(stored("output_high"), outputs.max(axis=0))
    np.testing.assert_allclose(stored("input_average"), inputs.mean(axis=0), atol=1e-12)
    covariance = np.cov(inputs.T, bias=True)
    np.testing.assert_allclose(stored("input_covariance").reshape(covariance.shape), covariance, atol=1e-12)


def stochastic_study(text):
    return text.replace("d_state = 3\n", "d_state = 3\nnoise_channels = 2\nnoise_time = 0.02\n").replace(
        "steps = 12\n", 'steps = 4\nloss = "crps"\nmembers = 2\nrollout_form = "autoregressive"\n'
        'rollout_steps = 3\nwindow = 6\nselect = "last"\n')


def test_a_stochastic_closure_reads_the_noise_of_the_program_and_goes_on_from_where_it_was(
        program, folder, data, tmp_path, experiment):
    from conftest import STUDY

    (tmp_path / "study.toml").write_text(stochastic_study(STUDY))
    model = tmp_path / "stochastic.safetensors"
    program("train", tmp_path / "study.toml", "--data", data, "-o", model, "--quiet")
    program("rollout", model, "--data", data, "--seed", 5, "-o", tmp_path / "out.h5", "--quiet")
    with h5py.File(tmp_path / "out.h5") as file:
        states, expected = file["test/resolved"][:], file["test/closure"][:]
    closure = mac.load(model)
    assert closure.noise == 2
    closure.reset(len(states))
    closure.seed(5)
    stop = random.randrange(states.shape[1])
    for t in range(states.shape[1]):
        if t == stop:
            saved, closure = closure.state, mac.load(model)
            closure.state = saved
        np.testing.assert_array_equal(closure.step(states[:, t]), expected[:, t], err_msg=f"restarted at {stop}")
    closure.set_noise(False)
    calm = closure.clone()
    closure.seed(6)
    np.testing.assert_array_equal(closure.step(states[:, 0]), calm.step(states[:, 0]))
    with pytest.raises(mac.UsageError, match="stochastic"):
        closure.jacobian(states[:, 0])
    with pytest.raises(mac.UsageError, match="no columns yet"):
        mac.load(model).seed(1)
