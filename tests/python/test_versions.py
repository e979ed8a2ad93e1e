"""What semantic versioning promises (docs/versions.md): files of earlier releases are read, and interfaces keep what they had.

tests/data/VERSION has one small file of every kind, made by the program of that release (scripts/make-release-files).
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import h5py
import interface
import numpy as np
import pytest

import mac

ROOT = Path(__file__).resolve().parents[2]
RELEASES = sorted(path for path in Path(os.environ["MAC_TEST_DATA"]).iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", path.name))


def each(pattern):
    """(release, name) of every file of a release that is called so."""
    found = [(path, file.name.split(".")[1]) for path in RELEASES for file in sorted(path.glob(pattern))]
    return pytest.mark.parametrize("release, name", found, indirect=["release"], ids=[f"{path.name}-{name}" for path, name in found])


# Other processors add in another order; errors of float32 grow along a rollout.
ROUNDING = 1e-4


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request, tmp_path):
    """A copy of a release's files, to work in."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


def differs(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def test_there_is_a_release():
    assert RELEASES


def test_every_file_is_whole_or_readable(release, program):
    files = [*release.glob("*.h5"), *release.glob("*.safetensors"), release / "run"]
    assert len(files) > 20
    program("verify", *files)
    for file in files[:-1]:
        program("info", file)


@each("burgers.*.safetensors")
def test_a_network_of_an_earlier_release_is_rolled_out(release, program, name):
    output = release / "again.h5"
    program("rollout", release / f"burgers.{name}.safetensors", "--data", release / "burgers.data.h5", "-o", output)
    stored = release / f"burgers.{name}.rollout.h5"
    if not stored.exists():
        return
    with h5py.File(output) as new, h5py.File(stored) as old:
        for split in ["test", "ood"]:
            assert differs(new[split]["resolved"][:], old[split]["resolved"][:]) < ROUNDING
            assert differs(new[split]["closure"][:], old[split]["closure"][:]) < ROUNDING


@pytest.mark.parametrize(
    "name", ["burgers.regression", "burgers.linear_memory", "burgers.cubic_memory", "lorenz96.wilks", "lorenz96.polynomial"]
)
def test_a_baseline_of_an_earlier_release_is_rolled_out(release, program, name):
    system = name.split(".")[0]
    program("rollout", release / f"{name}.h5", "--data", release / f"{system}.data.h5", "-o", release / "again.h5", "--split", "test")


@pytest.mark.parametrize("system", ["burgers", "equations", "lorenz96"])
def test_data_of_an_earlier_release_are_those_of_today(release, program, system):
    program("generate", release / f"{system}.toml", "-o", release / "again.h5")
    with h5py.File(release / "again.h5") as new, h5py.File(release / f"{system}.data.h5") as old:
        for split in [name for name in old if isinstance(old[name], h5py.Group)]:
            for name in ["time", "resolved", "closure"]:
                assert differs(new[split][name][:], old[split][name][:]) < 1e-9  # float64, chaotic over short times only


def test_recorded_data_of_an_earlier_release_are_trained_on(release, program):
    study = release / "recorded.toml"
    text = study.read_text().replace('kind = "mamba"', 'kind = "mlp"\nd_model = 4\nblocks = 1')
    study.write_text(text.replace('recipe = "auto"\nsteps = 4000', 'recipe = "fast"\nsteps = 5\nloss = "closure"\nselect = "last"'))
    program("train", study, "--data", release / "recorded.data.h5", "-o", release / "again.safetensors", "--threads", "1")


@each("interrupted.*.checkpoint.safetensors")
def test_a_training_of_an_earlier_release_goes_on(release, program, name):
    output = release / f"interrupted.{name}.safetensors"
    before = len(output.with_name(f"interrupted.{name}.history.csv").read_text().splitlines())
    program(
        "train", release / "checkpoints.toml", "--data", release / "burgers.data.h5", "--model", name, "-o", output,
        "--threads", "1", "--resume",
    )  # fmt: skip
    history = output.with_name(f"interrupted.{name}.history.csv").read_text().splitlines()
    assert before < len(history) == 601  # a header and every step: it went on, and did not begin again
    assert history[: before - 1] == (RELEASES[0] / f"interrupted.{name}.history.csv").read_text().splitlines()[: before - 1]


def test_metrics_and_rollouts_of_an_earlier_release_are_evaluated(release, program):
    program("evaluate", release / "burgers.metrics.json", "--json", release / "again.json")
    program("evaluate", *release.glob("burgers.*.rollout.h5"), "--json", release / "measured.json")
    stored, measured = (
        json.loads((release / name).read_text())["models"]["mamba"]["test"]["cumulative_l2"]["mean"]
        for name in ["burgers.metrics.json", "measured.json"]
    )
    assert stored == pytest.approx(measured, rel=1e-5)  # six digits are stored


def test_a_run_of_an_earlier_release_is_taken_up(release, program):
    program("run", release / "equations.toml", "-o", release / "run", "--no-report")


def test_a_saved_state_of_an_earlier_release_goes_on(release):
    closure = mac.load(release / "burgers.mamba.safetensors")
    closure.state = (release / "burgers.mamba.state").read_bytes()
    told = json.loads((release / "burgers.mamba.next.json").read_text())
    assert differs(closure.step(np.array(told["y"])), np.array(told["closure"])) < 1e-5  # float32


def c_interface(header):
    """Functions, enumerators and constants of a C header, as normalised text."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
    functions = {re.sub(r"\s+", " ", f).strip() for f in re.findall(r"MAC_API ([^;{]*\));", text)}
    constants = set(re.findall(r"\b(MAC_[A-Z0-9_]+ = \d+)", text))
    return functions, constants


def test_the_c_interface_has_all_that_it_had():
    functions, constants = c_interface(ROOT / "include/mac/mac.h")
    for release in RELEASES:
        old_functions, old_constants = c_interface(release / "mac.h")
        assert len(old_functions) > 40 and len(old_constants) > 10
        assert old_functions <= functions
        assert old_constants <= constants


def settings(text):
    """{(table, key): values} of `mac info --settings`."""
    table, found = None, {}
    for line in text.splitlines():
        if line.startswith("### "):
            table = line[4:]
        elif match := re.match(r"\| `(\w+)` \| (.*?) \|", line):
            found[table, match[1]] = match[2]
    return found


def test_experiments_keep_their_keys_and_choices():
    printed = subprocess.run([os.environ["MAC_PROGRAM"], "info", "--settings"], check=True, capture_output=True, text=True)
    today = settings(printed.stdout)
    for release in RELEASES:
        old = settings((release / "settings.md").read_text())
        assert len(old) > 40
        for key, values in old.items():
            assert key in today, f"{release.name}: {key}"
            if values.startswith("`"):  # a list of choices
                assert set(re.findall(r"`(\w+)`", values)) <= set(re.findall(r"`(\w+)`", today[key])), key


@pytest.fixture(params=[path for path in RELEASES if (path / "interface.json").exists()], ids=lambda path: path.name)
def named(request, tmp_path):
    """A copy of a release's files, and what users knew of it by name."""
    folder = Path(shutil.copytree(request.param, tmp_path / "release"))
    return folder, json.loads((folder / "interface.json").read_text())


def test_commands_keep_their_options(named):
    today = interface.options(os.environ["MAC_PROGRAM"])
    for command, options in named[1]["options"].items():
        assert set(options) <= set(today[command]), command


def test_json_keeps_its_keys(named):
    today = interface.json_keys(os.environ["MAC_PROGRAM"], named[0])
    assert set(named[1]["json"]) == set(interface.PRINTING)
    for command, keys in named[1]["json"].items():
        assert set(keys) <= set(today[command]), command


def test_python_keeps_its_names(named):
    today = interface.python_names()
    for name, members in named[1]["python"].items():
        assert name in today and set(members) <= set(today[name]), name


@pytest.mark.parametrize("path", [path / "uses.cpp" for path in RELEASES if (path / "uses.cpp").exists()], ids=lambda path: path.parent.name)
def test_what_was_written_with_the_cpp_headers_compiles(path):
    compiled = subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", ROOT / "include", path], capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stderr
