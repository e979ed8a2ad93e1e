"""Data sets, training and whole studies from Python."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import h5py
import numpy as np
import pytest
from conftest import STUDY

import mac


def test_a_data_file_is_read_as_arrays(data):
    dataset = mac.read_data(data)
    assert list(dataset) == ["train", "validation", "test"] and "ood" not in dataset and len(dataset) == 3
    assert dataset.get("ood") is None and dataset.get("test").labels == dataset["test"].labels
    assert dataset.experiment.system.name == "burgers" and dataset.experiment.closure_step == pytest.approx(0.01)
    with h5py.File(data) as file:
        for name, split in dataset.items():
            for key in ["time", "resolved", "closure", "closure_mean"]:
                np.testing.assert_array_equal(getattr(split, key), file[name][key][:])
            assert list(file[name]["labels"].asstr()) == split.labels
            assert [v.decode() for v in file[name]["resolved"].attrs["variables"]] == dataset.experiment.system.resolved_names
        assert file.attrs["experiment"].decode() == dataset.experiment.text and file.attrs["seed"] == 0


def test_written_data_are_read_back(tmp_path, data, experiment):
    original = mac.read_data(data)
    mac.write_data(tmp_path / "copy.h5", experiment, dict(original))
    again = mac.read_data(tmp_path / "copy.h5")
    for name in original:
        for key, value in vars(original[name]).items():
            np.testing.assert_array_equal(vars(again[name])[key], value)
    assert again.experiment.text == experiment.text


def test_wrong_data_are_named(tmp_path, data, experiment):
    splits = {name: vars(split) for name, split in mac.read_data(data).items()}
    path = tmp_path / "wrong.h5"

    def expect(message, **changes):
        with pytest.raises(mac.UsageError, match=message):
            mac.write_data(path, experiment, {**splits, **changes})

    test = splits["test"]
    expect("resolved of split test has .* expected \\(5, 51, 6\\)", test={**test, "resolved": test["resolved"][:, :, :5]})
    expect("trajectories and times", test={**test, "closure": test["closure"][:, :-1]})
    expect("no split ood", ood=test)
    expect("has no closure", test={"resolved": test["resolved"]})
    nan = test["closure"].copy()
    nan[1, 2, 3] = np.nan
    expect("closure of split test is nan in trajectory 1 at time 2, variable 3", test={**test, "closure": nan})
    # As many numbers, and yet other data:
    turned = {key: test[key].swapaxes(0, 1) for key in ["resolved", "closure"]}
    expect("resolved of test has shape \\(51, 5, 6\\), the experiment has 5 trajectories of 51 times", test=turned)
    expect("time of test does not go in 50 steps of 0.01", test={**test, "time": 2 * test["time"]})
    expect("unknown closure_means", test={**test, "closure_means": test["closure_mean"]})
    with pytest.raises(mac.UsageError, match="TOML text"):
        mac.write_data(path, STUDY, splits)
    with pytest.raises(mac.UsageError, match="split test, which was not given"):
        mac.write_data(path, experiment, {"train": splits["train"], "validation": splits["validation"]})
    assert not path.exists()


def test_files_that_are_no_data_are_named(tmp_path, model):
    with pytest.raises(mac.Error, match="none.h5"):
        mac.read_data(tmp_path / "none.h5")
    with pytest.raises(mac.Error, match="mac.safetensors"):
        mac.read_data(model)
    with pytest.raises(mac.UsageError, match='line|:1:|did you mean "burgers"'):
        mac.Experiment('[system]\nname = "burger"\n')
    with pytest.raises(mac.UsageError, match="not NoneType"):
        mac.generate(None, tmp_path / "x.h5")


def test_training_gives_the_bytes_of_mac_train(program, folder, data, model):
    program("train", folder / "study.toml", "--data", data, "-o", folder / "program.safetensors", "--threads", 1)
    assert (folder / "program.safetensors").read_bytes() == model.read_bytes()


def test_ctrl_c_in_training_keeps_a_checkpoint_that_resumes_to_the_same_bytes(tmp_path, data, program):
    text = STUDY.replace("steps = 12", "steps = 1500\ncheckpoint_every = 20").replace("every = 6\n", "every = 1000\n")
    (tmp_path / "long.toml").write_text(text)
    experiment = mac.Experiment.read(tmp_path / "long.toml")
    path = tmp_path / "mac.safetensors"
    checkpoint = tmp_path / "mac.checkpoint.safetensors"

    def interrupt_in_the_middle():
        while not checkpoint.exists():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt_in_the_middle)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        mac.train(experiment, data, path, threads=1)
        time.sleep(10)
    killer.join()
    assert checkpoint.exists() and not path.exists()
    mac.train(experiment, data, path, threads=1, resume=True)
    program("train", tmp_path / "long.toml", "--data", data, "-o", tmp_path / "whole.safetensors", "--threads", 1)
    assert path.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_other_threads_run_during_training(tmp_path, data):
    experiment = mac.Experiment(STUDY.replace("steps = 12", "steps = 200"))
    worker = threading.Thread(target=mac.train, args=(experiment, data, tmp_path / "m.safetensors"), kwargs={"threads": 1})
    worker.start()
    turns = 0
    while worker.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 5  # with the GIL held there would be one before the training and one after it; on a starved machine there are 17


def test_fit_learns_a_closure_from_arrays(tmp_path):
    # Slow x, fast hidden z that relaxes to x^2: dx/dt = -x + z, dz/dt = (x^2 - z)/0.2; the closure of x is z.
    rng = np.random.default_rng(1)
    x, z, dt = rng.uniform(-1, 1, 60), np.zeros(60), 0.05
    xs, zs = [], []
    for _ in range(41):
        xs.append(x), zs.append(z)
        for _ in range(10):
            x, z = x + dt / 10 * (z - x), z + dt / 10 * (x**2 - z) / 0.2
    resolved, closure = np.stack(xs, 1)[:, :, None], np.stack(zs, 1)[:, :, None]
    network = mac.fit(
        tmp_path / "fast.safetensors", resolved[:50], closure[:50], dt, names=["x"], steps=400, d_model=8, blocks=1, threads=1
    )
    assert network.input_names == ["x"] and network.closure_step == dt and network.system == "recorded"
    predicted = network.sequence(resolved[50:])
    error = np.linalg.norm(predicted - closure[50:]) / np.linalg.norm(closure[50:])
    assert error < 0.1  # a network that learned nothing is at 1 or so; this one at 0.03
    network.reset()
    run = mac.rollout(lambda t, y: -y, resolved[50:, 0], dt * np.arange(41), network)
    error = np.linalg.norm(run.resolved - resolved[50:]) / np.linalg.norm(resolved[50:])
    markov = mac.rollout(lambda t, y: -y, resolved[50:, 0], dt * np.arange(41)).resolved
    assert error < 0.3 * np.linalg.norm(markov - resolved[50:]) / np.linalg.norm(resolved[50:])


def test_fit_says_what_is_wrong_with_its_arrays(tmp_path):
    y = np.zeros((4, 10, 2))
    wrong = [
        (dict(resolved=y[0], closure=y), "expected \\(trajectories, times, variables\\)"),
        (dict(resolved=y, closure=y[:, :5]), "trajectories and times must be the same"),
        (dict(resolved=y, closure=y[:, :, :1]), "targets"),
        (dict(resolved=y, closure=y, targets=[0, 2]), "targets has 2, expected numbers from 0 or names of variables"),
        (dict(resolved=y, closure=y, names=["a"]), "1 names for 2"),
        (dict(resolved=y, closure=y, names=["a", "a"]), 'two variables called "a"'),
        (dict(resolved=y, closure=y, names=["", "a"]), "without a name"),
        (dict(resolved=y, closure=y, validation=-0.5), "validation is -0.5"),
        (dict(resolved=y, closure=y, validation=[y]), "validation has 1 arrays"),
        (dict(resolved=y[:1, :3], closure=y[:1, :3]), "leaves none for validation"),
        (dict(resolved=y, closure=y, kind="rnn"), "kind"),
        (dict(resolved=y, closure=y, training={"stepz": 3}), 'did you mean "steps"'),
        (dict(resolved=y, closure=y, training={"select": "rollout"}), "cannot be rolled out"),
        (dict(resolved=y, closure=y, training={"loss": "step"}), "no equations"),
        (dict(resolved=y, closure=y, training={"hold": object()}), "a setting is a object"),
    ]
    for arguments, message in wrong:
        with pytest.raises(mac.UsageError, match=message):
            mac.fit(tmp_path / "m.safetensors", dt=0.1, **arguments)


def test_fit_resumes_only_on_the_same_arrays(tmp_path):
    y = np.random.default_rng(2).normal(size=(4, 10, 2))
    names = ["𝜑", 'a "quoted" name']  # beyond the first 65536 characters, and what TOML escapes
    settings = dict(dt=0.1, names=names, steps=3, d_model=4, blocks=1, threads=1)
    first = mac.fit(tmp_path / "m.safetensors", y, y, **settings)
    assert first.input_names == names
    same = mac.fit(tmp_path / "m.safetensors", y, y, resume=True, **settings)
    assert same.file_bytes == first.file_bytes
    other = mac.fit(tmp_path / "m.safetensors", 2 * y, y, resume=True, **settings)
    np.testing.assert_allclose(other.normalisation["input_scale"], 2 * first.normalisation["input_scale"])


def test_recorded_data_are_not_simulated_or_rolled_out(tmp_path):
    text = '[system]\nname = "recorded"\nresolved = ["x"]\n[data]\ndt = 0.1\n[data.test]\ntrajectories = 1\nhorizon = 1\n'
    with pytest.raises(mac.UsageError, match="without equations"):
        mac.generate(mac.Experiment(text), tmp_path / "x.h5")
    arrays = {"test": {"resolved": np.zeros((1, 11, 1)), "closure": np.zeros((1, 11, 1))}}
    mac.write_data(tmp_path / "x.h5", mac.Experiment(text), arrays)
    with pytest.raises(mac.UsageError, match="without equations"):
        mac.rollout_data("markov", tmp_path / "x.h5", tmp_path / "y.h5")


def test_a_rollout_file_is_read_and_evaluated(folder, model, data):
    mac.rollout_data(model, data, folder / "r.h5", threads=1)
    mac.rollout_data("markov", data, folder / "m.h5", threads=1)
    split = mac.read_rollout(folder / "r.h5")["test"]
    np.testing.assert_array_equal(split.true_resolved, mac.read_data(data)["test"].resolved)
    metrics = mac.evaluate([folder / "r.h5", folder / "m.h5"])
    assert set(metrics["models"]) == {"mac", "markov"}


def test_a_rollout_finds_the_data_file_it_was_made_on(tmp_path, model, data):
    moved = tmp_path / "moved.h5"
    shutil.copy(data, moved)
    mac.rollout_data(model, moved, tmp_path / "r.h5", threads=1)
    mac.rollout_data(model, moved, tmp_path / "whole.h5", self_contained=True, threads=1)
    moved.unlink()
    with pytest.raises(mac.Error, match="moved.h5, which is not there"):
        mac.read_rollout(tmp_path / "r.h5")
    with pytest.raises(mac.Error, match="moved.h5, which is not there"):
        mac.evaluate(tmp_path / "r.h5")
    found = mac.read_rollout(tmp_path / "r.h5", data=data)["test"]
    whole = mac.read_rollout(tmp_path / "whole.h5")["test"]
    np.testing.assert_array_equal(found.true_resolved, whole.true_resolved)
    assert mac.evaluate(tmp_path / "r.h5", data=data)["models"]["mac"]["test"] == mac.evaluate(tmp_path / "whole.h5")["models"]["mac"]["test"]


def test_a_closure_that_loses_to_none_is_a_warning(tmp_path, model, data):
    """The network of twelve steps of training is worse than no closure."""
    with pytest.warns(mac.ClosureWarning, match="worse than no closure on test data"):
        sentences = mac.rollout_data(model, data, tmp_path / "r.h5", threads=1)
    assert len(sentences) == 1 and sentences[0].startswith("mac: ")
    mac.rollout_data("markov", data, tmp_path / "m.h5", threads=1)
    with pytest.warns(mac.ClosureWarning, match="worse than no closure on test data"):
        metrics = mac.evaluate([tmp_path / "r.h5", tmp_path / "m.h5"])
    verdict = metrics["verdict"]["models"]["mac"]
    assert verdict["sentence"] == sentences[0] and verdict["warnings"]
    assert verdict["comparisons"][0]["better_than_no_closure"] < 1


def test_a_training_ends_with_a_verdict(tmp_path, experiment, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mac.ClosureWarning)
        result = mac.train(experiment, data, tmp_path / "m.safetensors", threads=1)
    assert "than no closure on validation data" in result.verdict[0]


def test_other_parameters_of_the_system_are_refused(tmp_path, model, experiment, data):
    thin = mac.Experiment(STUDY.replace("grid = 32", "grid = 32\nviscosity = 0.05"))
    mac.generate(thin, tmp_path / "thin.h5", threads=1)
    with pytest.raises(mac.UsageError, match="was trained with viscosity = 0.1, but in .*thin.h5 it is 0.05"):
        mac.rollout_data(model, tmp_path / "thin.h5", tmp_path / "r.h5", threads=1)
    with pytest.warns(mac.ClosureWarning, match="was trained with viscosity = 0.1"):
        mac.rollout_data(model, tmp_path / "thin.h5", tmp_path / "r.h5", allow_other_parameters=True, threads=1)
    closure, y0, t = mac.load(model), mac.read_data(data)["test"].resolved[:, 0], 0.01 * np.arange(4)
    mac.rollout("burgers", y0, t, closure)
    mac.rollout(experiment.system, y0, t, closure)
    for other in [mac.System("burgers", viscosity=0.05), thin.system]:
        with pytest.raises(mac.UsageError, match="was trained with viscosity = 0.1, but in the right-hand side it is 0.05"):
            mac.rollout(other, y0, t, closure)
        with pytest.warns(mac.ClosureWarning, match="was trained with viscosity = 0.1"):
            mac.rollout(other, y0, t, closure, allow_other_parameters=True)


def test_numbers_do_not_depend_on_the_locale(tmp_path, folder, model, data):
    """In a program that was set to a decimal comma, as graphical toolkits do it."""
    made = shutil.which("localedef") and subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"])
    if not made or made.returncode != 0:
        pytest.skip("no German locale can be made")
    mac.rollout_data(model, data, folder / "locale.h5", threads=1)
    script = "import locale, json, sys, mac; locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8'); "
    script += "print(json.dumps(mac.evaluate(sys.argv[1])))"
    german = subprocess.run(
        [sys.executable, "-c", script, folder / "locale.h5"],
        env={**os.environ, "LOCPATH": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert json.loads(german.stdout)["models"] == mac.evaluate(folder / "locale.h5")["models"]


def test_names_stand_for_models_of_the_zoo_and_for_one_split(tmp_path, data, experiment):
    mac.rollout_data("burgers-mac", data, tmp_path / "r.h5", splits="test", threads=1)
    assert list(mac.read_rollout(tmp_path / "r.h5")) == ["test"]
    mac.export_onnx("burgers-mac", tmp_path / "step.onnx")
    for model in ["burger-mac", "Markov"]:
        with pytest.raises(mac.UsageError, match="neither a file nor a model of the zoo"):
            mac.rollout_data(model, data, tmp_path / "r.h5")
    with pytest.raises(mac.UsageError, match="each of them once"):
        mac.run(experiment, tmp_path / "run", seeds=[1, 1])
    assert not (tmp_path / "run").exists()


def test_no_stage_overwrites_its_input(tmp_path, folder, model, data):
    study, link = tmp_path / "study.toml", tmp_path / "link.h5"
    study.write_bytes((folder / "study.toml").read_bytes())
    link.symlink_to(data)
    splits = dict(mac.read_data(data))
    inputs = [study, data, model]
    before = [path.read_bytes() for path in inputs]
    for call in [
        lambda: mac.generate(study, study),
        lambda: mac.write_data(study, study, splits),
        lambda: mac.train(study, data, data),
        lambda: mac.train(study, data, study),
        lambda: mac.rollout_data("markov", data, data),
        lambda: mac.rollout_data("markov", data, link),
        lambda: mac.rollout_data(model, data, model),
        lambda: mac.export_onnx(model, model),
    ]:
        with pytest.raises(mac.UsageError, match="would overwrite the input"):
            call()
    assert [path.read_bytes() for path in inputs] == before
    # The name of an experiment that is text is no file.
    mac.generate(mac.Experiment(STUDY, str(tmp_path / "text")), tmp_path / "text", threads=1)


def test_a_whole_study_runs_once(tmp_path, experiment):
    first = mac.run(experiment, tmp_path / "run", threads=1)
    assert first.done == 7 and set(first.metrics["models"]) == {"mac", "markov", "exact_linear"}
    assert os.path.exists(first.report)
    assert mac.run(experiment, tmp_path / "run", threads=1).kept == 7
    assert mac.run(experiment, tmp_path / "run", force="report", threads=1).done == 1
    assert mac.run(experiment, tmp_path / "run", force=["evaluate", "report"], threads=1).done == 2
    with pytest.raises(mac.UsageError, match='no stage "x" to force, only generate'):
        mac.run(experiment, tmp_path / "run", force=("x",))
    with pytest.raises(mac.UsageError, match="model"):
        mac.train(experiment, tmp_path / "run/data.h5", tmp_path / "x.safetensors", "other")
    with pytest.raises(mac.UsageError, match='device is "gpu", expected cpu or cuda'):
        mac.run(experiment, tmp_path / "run", device="gpu")


def test_seeds_and_threads_out_of_range_are_named(tmp_path, experiment, data):
    path = tmp_path / "m.safetensors"
    for call in [
        lambda: mac.train(experiment, data, path, seed=-1),
        lambda: mac.train(experiment, data, path, seed=2**64),
        lambda: mac.run(experiment, tmp_path / "run", seeds=[0, -1]),
    ]:
        with pytest.raises(mac.UsageError, match="seed is .* expected a whole number from 0"):
            call()
    for call in [
        lambda: mac.generate(experiment, tmp_path / "d.h5", threads=-3),
        lambda: mac.train(experiment, data, path, threads=-3),
        lambda: mac.rollout_data("markov", data, tmp_path / "r.h5", threads=-3),
        lambda: mac.run(experiment, tmp_path / "run", threads=5000),
    ]:
        with pytest.raises(mac.UsageError, match="threads is .* expected a whole number from 0 to 4096"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_script_as_python_does(tmp_path, data):
    script = f"""
import mac
experiment = mac.Experiment({STUDY.replace("steps = 12", "steps = 1000000")!r})
print("ready", flush=True)
mac.train(experiment, {str(data)!r}, {str(tmp_path / "m.safetensors")!r}, threads=1)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors and process.returncode == -signal.SIGINT


def test_data_of_varying_parameters_have_them_for_each_trajectory(tmp_path):
    text = """
[system]
name = "burgers"
grid = 32
viscosity = { list = [0.06, 0.12] }
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 4
horizon = 0.05
"""
    mac.generate(mac.Experiment(text), tmp_path / "data.h5", quiet=True)
    data = mac.read_data(tmp_path / "data.h5")
    assert data.parameters == ["viscosity"] and data.forcing == []
    np.testing.assert_array_equal(data["train"].parameters, [[0.06], [0.12], [0.06], [0.12]])
    mac.write_data(tmp_path / "copy.h5", mac.Experiment(text), data)
    np.testing.assert_array_equal(mac.read_data(tmp_path / "copy.h5")["train"].parameters, data["train"].parameters)
    with pytest.raises(mac.UsageError, match=r"parameters of train has shape \(3, 1\), expected \(4, 1\) for viscosity"):
        split = data["train"]
        mac.write_data(
            tmp_path / "copy.h5",
            mac.Experiment(text),
            {"train": {"resolved": split.resolved, "closure": split.closure, "parameters": split.parameters[:3]}},
        )
