"""mac.fit, mac.read and mac.evaluate with arrays that nobody meant: each has its sentence, none its silent nonsense."""

import os
import warnings

import numpy as np
import pytest

import mac
from mac.tendency import step_means

DT = 0.1
QUICK = dict(dt=DT, recipe="fast", steps=2, d_model=3, blocks=1, d_state=2, threads=1)


def trajectories(n=12, times=21):
    t = DT * np.arange(times)
    start = np.random.default_rng(1).uniform(0.5, 2, (n, 1))
    return (start * np.exp(-t))[:, :, None] + 0.3 * np.sin(t)[None, :, None]


def decay(t, y):
    return -y


def changed(index, value):
    y = trajectories()
    y[index] = value
    return y


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (dict(resolved=[[[1.0], [2.0]], [[1.0]]]), "resolved of train is no array of numbers"),
        (dict(resolved=np.full((3, 9, 1), "a")), "resolved of train is no array of numbers"),
        (dict(resolved=trajectories() + 1j), "resolved of train holds complex numbers"),
        (dict(resolved=np.ma.masked_less(trajectories(), 0.5)), "resolved of train is a masked array"),
        (dict(resolved=trajectories()[..., 0]), "has shape (12, 21), expected (trajectories, times, variables)"),
        (dict(resolved=trajectories()[..., :0]), "has shape (12, 21, 0)"),
        (dict(resolved=trajectories()[:0]), "has shape (0, 21, 1)"),
        (dict(resolved=trajectories()[:, :1]), "at least two times"),
        (dict(resolved=changed((3, -1), np.nan)), "is nan, not finite, in trajectory 3 at time 20, variable 0"),
        (dict(resolved=1e13 * trajectories()), "choose units"),
        (dict(resolved=1e-200 * trajectories()), "choose units"),
        (dict(closure=np.zeros((12, 21, 1))), "no spread"),
        (dict(closure=trajectories() * 1e150), "choose units in which it is nearer to 1"),
        (dict(closure=[1, [2, 3]]), "closure of train is no array of numbers"),
        (dict(dt=DT * np.arange(21)), "dt is array("),
        (dict(dt=np.inf), "dt is inf"),
        (dict(names="x"), 'names is the text "x"'),
        (dict(names=["x", "y"]), "2 names for 1 variables"),
        (dict(rhs=lambda t, y: y * np.nan), "rhs gave [nan], not finite, at the state"),
        (dict(rhs=lambda t, y: y[:1]), "gave the shape (1, 1)"),
        (dict(validation=(trajectories(),)), "validation has 1 arrays"),
        (dict(validation={"resolved": trajectories(), "forcing": 1}), "validation has an unknown forcing"),
        (dict(targets="y1"), "targets"),
        (dict(rhs=lambda t, y: y * 1j), "what rhs gave holds complex numbers"),
        (dict(rhs=lambda t, y: "x"), "what rhs gave is no array of numbers"),
        (dict(validation="x"), "validation is 'x', expected a share"),
        (dict(validation={"resolved": np.repeat(trajectories(), 2, axis=2)}), "validation has 2 variables, the training data 1"),
        (dict(history=np.nan), "history is nan"),
        (dict(inputs={"nu": np.arange(12) * 1j}), "inputs: nu holds complex numbers"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(tmp_path, arguments, sentence):
    with pytest.raises(mac.Error) as error:
        mac.fit(tmp_path / "m.safetensors", **{"resolved": trajectories(), "rhs": decay, **QUICK, **arguments})
    assert sentence in str(error.value)
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (dict(dt=100 * DT), "dy/dt of the data is 0.0"),  # the step in another unit than the equations
        (dict(dt=DT / 1000), "is dt = 0.0001 in the units of time that rhs has"),
        (dict(resolved=np.repeat(trajectories()[:1], 6, axis=0)), "trajectory 0 of the validation data is trajectory 4"),
        (dict(resolved=np.cumsum(np.random.default_rng(1).normal(size=(80, 12, 1)), axis=0)), "smooth along its first axis"),
    ],
)
def test_what_looks_wrong_is_warned_of(tmp_path, arguments, sentence):
    with pytest.warns(mac.DataWarning) as caught:
        mac.fit(tmp_path / "m.safetensors", **{"resolved": trajectories(), "rhs": decay, **QUICK, **arguments})
    assert any(sentence in str(warning.message) for warning in caught)


def test_arrays_of_any_kind_give_the_same_closure(tmp_path):
    y = trajectories().astype("f4").astype(float)
    files = set()
    with warnings.catch_warnings():
        warnings.simplefilter("error", mac.DataWarning)
        warnings.simplefilter("ignore", mac.ClosureWarning)
        for given in [y, y.astype("f4"), np.asfortranarray(y), y.tolist(), y.astype(object), y[:, :, ::-1]]:
            files.add(mac.fit(tmp_path / "m.safetensors", given, rhs=decay, **QUICK).file_bytes)
    assert len(files) == 1


def test_a_function_that_writes_onto_its_argument_changes_no_data(tmp_path):
    y, kept = trajectories(), trajectories()
    first = mac.fit(tmp_path / "m.safetensors", y, rhs=decay, **QUICK)
    second = mac.fit(tmp_path / "m.safetensors", y, rhs=lambda t, y: np.negative(y, out=y), **QUICK)
    np.testing.assert_array_equal(y, kept)
    assert first.file_bytes == second.file_bytes


def test_numbers_far_from_zero_are_scaled_about_their_mean(tmp_path):
    y = trajectories()
    near = mac.fit(tmp_path / "m.safetensors", y, **QUICK)
    far = mac.fit(tmp_path / "m.safetensors", y + 1e4, **QUICK)
    assert near.normalisation["input_mean"][0] == 0
    assert far.normalisation["input_mean"][0] == pytest.approx(1e4, rel=1e-3) and far.normalisation["input_scale"][0] < 1


@pytest.mark.parametrize("path", ["", "/"])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(mac.UsageError, match="expected the name of a file"):
        mac.fit(path, trajectories(), **QUICK)


def test_a_search_that_cannot_begin_leaves_nothing_behind(tmp_path):
    with pytest.raises(mac.Error, match="no spread"):
        mac.fit(tmp_path / "m.safetensors", trajectories(), np.zeros((12, 21, 1)), **{**QUICK, "recipe": "auto"}, rhs=decay)
    assert not (tmp_path / "m.trials").exists()


def test_unicode_names_go_through_model_and_data(tmp_path):
    y = np.concatenate([trajectories(), trajectories() ** 2], axis=2)
    closure = mac.fit(tmp_path / "m.safetensors", y, names=["θ", 'a "b"'], targets=['a "b"'], **QUICK)
    assert closure.input_names == ["θ", 'a "b"'] and closure.output_names == ['C_a "b"'] and closure.closure_targets == [1]
    assert mac.read_data(tmp_path / "m.data.h5").names == ["θ", 'a "b"']


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(mac.Error, match="m.data.h5: cannot be written"):
        mac.fit(tmp_path / "m.safetensors", trajectories(), **QUICK)


def test_step_means_of_stiff_rows_are_found_by_newton_and_leave_the_others_alone():
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(0, 0.1, (4, 6, 2)), axis=1)
    stiffness = 27.0  # times the step: 2.7, where the fixed point does not contract

    def rhs(t, y):
        return np.stack([y[..., 1], -stiffness * y[..., 1] - np.sin(y[..., 0])], axis=-1)

    means = step_means(y, DT, rhs, [0, 1])
    assert means.missed == 0
    for n in range(5):
        run = mac.rollout(lambda t, z: rhs(t, z) + means.mean[:, n], y[:, n], [0, DT])
        np.testing.assert_allclose(run.resolved[:, -1], y[:, n + 1], rtol=0, atol=1e-11)  # Newton stops at 1e-11 of the step
    in_three = step_means(y, DT, rhs, [0, 1], substeps=3).mean
    run = mac.rollout(lambda t, z: rhs(t, z) + in_three[:, 0], y[:, 0], [0, DT], dt=DT / 3)
    np.testing.assert_allclose(run.resolved[:, -1], y[:, 1], rtol=0, atol=1e-11)


def test_step_means_that_do_not_exist_are_counted_and_warned_of(tmp_path):
    y = np.cumsum(np.random.default_rng(3).normal(0, 0.1, (6, 9, 1)), axis=1) + 1

    def bounded(t, y):  # NaN below zero, where no closure leads out
        with np.errstate(invalid="ignore"):
            return np.sqrt(y)

    assert step_means(y, DT, bounded, [0]).missed == 0
    far = y.copy()
    far[0, 3:] -= 10
    assert 0 < step_means(far, DT, bounded, [0]).missed < 0.2


def test_the_mean_target_is_exact_in_rollouts_of_the_closure_step_and_of_substeps(tmp_path):
    y = trajectories()
    for stiffness in [1.0, 60.0]:  # 60 a step: RK4 takes several
        rhs = lambda t, y: -stiffness * (y - 1)
        path = tmp_path / f"{stiffness}.safetensors"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mac.fit(path, y, rhs=rhs, target="mean", **QUICK)
        mean = mac.read_data(tmp_path / f"{stiffness}.data.h5")["train"].closure_mean
        substeps = 1 if stiffness == 1 else round(float(np.ceil(6 / (0.8 * 2.785))))
        run = mac.rollout(lambda t, z: rhs(t, z) + mean[:, 0], y[:11, 0], [0, DT], dt=DT / substeps)
        np.testing.assert_allclose(run.resolved[:, -1], y[:11, 1], rtol=0, atol=1e-11)


def test_without_equations_there_is_selection_rollout_evaluation_and_report(tmp_path):
    """From the page docs/python.md alone."""
    y = trajectories(16, 41)
    closure = mac.fit(tmp_path / "m.safetensors", y, dt=DT, steps=60, d_model=4, blocks=1, d_state=2, threads=1)
    t = DT * np.arange(41)
    run = mac.rollout(None, y[14:, 0], t, closure)
    still = np.repeat(y[14:, :1], 41, axis=1)
    metrics = mac.report(tmp_path / "page.html", {"mine": run, "none": still}, y[14:], dt=DT)
    assert "mine" in metrics["verdict"]["models"] and (tmp_path / "page.html").exists()
    with pytest.raises(mac.UsageError, match="only a closure that is the whole of dy/dt"):
        mac.rollout(None, y[14:, 0], t)
    part = mac.fit(tmp_path / "p.safetensors", y, rhs=decay, **QUICK)
    with pytest.raises(mac.UsageError, match="only a closure that is the whole of dy/dt"):
        mac.rollout(None, y[14:, 0], t, part)


def test_files_whose_numbers_are_too_large_or_end_in_nothing_are_warned_of(tmp_path):
    y = trajectories()
    np.save(tmp_path / "large.npy", 1e13 * y)
    with pytest.warns(mac.DataWarning, match="reaches .*e.13: choose units"):
        mac.read(tmp_path / "large.npy", dt=DT)
    y[:, -1] = np.nan
    np.save(tmp_path / "ends.npy", y)
    with pytest.warns(mac.DataWarning, match="12 of 252 rows have a missing value, at the ends of trajectories"):
        mac.read(tmp_path / "ends.npy", dt=DT)


@pytest.mark.parametrize(
    "runs, options, sentence",
    [
        ({1: trajectories()}, {}, "a run is called 1, expected a name"),
        ({"": trajectories()}, {}, "a run is called ''"),
        ({"a": "run.h5"}, {}, "a is no array of numbers"),
        ({"a": trajectories()}, {"dt": "x"}, "dt is 'x'"),
        ({"a": 1e13 * trajectories()}, {"truth": 1e13 * trajectories()}, "truth: variable 0 reaches"),
        ({"a": trajectories()[:, :1]}, {"truth": trajectories()[:, :1]}, "at least two times"),
        ({"a": trajectories()}, {"inputs": {"b": np.ones(3)}}, "b of truth has shape (3,)"),
    ],
)
def test_evaluation_says_what_is_wrong_with_its_runs(runs, options, sentence):
    with pytest.raises(mac.UsageError) as error:
        mac.evaluate(runs, **{"truth": trajectories(), "dt": DT, **options})
    assert sentence in str(error.value)


def test_evaluation_tells_errors_by_a_parameter():
    y = trajectories()
    metrics = mac.evaluate({"mine": 1.1 * y, "none": 1.5 * y}, y, dt=DT, inputs={"depth": np.linspace(1, 2, 12)})
    assert "depth" in str(metrics["models"]["mine"]["test"]["by_parameter"])
