"""Pages that are a story: their blocks marked `<!-- run -->`, one after the other, as a reader would run them.

A block of Python or shell is run; one of another language whose first line is a comment with a file's name becomes that file; one of text
is what the block before it printed, in numbers to 1e-6: float32 on a processor without FMA rounds elsewhere.
"""

import contextlib
import csv
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import STUDY
from test_site import ROOT, blocks

import mac

BUILD = Path(os.environ["MAC_BUILD_DIR"])
NAMED = re.compile(r"(?:/\* (\S+\.\w+) \*/|(?://|!|#) (\S+\.\w+))\n")


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """MAC as it is installed."""
    folder = tmp_path_factory.mktemp("installed") / "prefix"
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def same(printed, expected):
    """The same words, numbers to 1e-6."""
    number = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
    ours, theirs = number.findall(printed), number.findall(expected)
    words = [" ".join(number.sub("#", text).split()) for text in (printed, expected)]
    return words[0] == words[1] and np.allclose(np.array(ours, float), np.array(theirs, float), rtol=1e-6, atol=1e-300)


def shell(text, folder, prefix):
    """Runs a block in the reader's shell, whose `prefix` is installed; what it exports holds for the blocks after it."""
    before = f"set -e; [ ! -f .exported ] || . ./.exported; cd {folder}\n"
    text = re.sub(r"^cmake --install .*$", "", text, flags=re.M)  # the fixture's
    environment = os.environ | {"PATH": f"{prefix}/bin:{os.environ['PATH']}", "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-c", f"{before}{text}\nexport -p > .exported"], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout


def tell(page, folder, prefix, *, every=False, change=lambda text: text):
    """The marked blocks of a page, or all of them; what each printed, and the names of its Python. `change` makes commands shorter."""
    printed, names = [], {}
    for language, text, note, line in blocks((ROOT / "docs" / page).read_text()):
        if note != "run" and not every:
            continue
        named = NAMED.match(text)
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, f"{page}:{line}", "exec"), names)
            printed.append(out.getvalue())
        elif language in ("bash", "sh"):
            printed.append(shell(change(text), folder, prefix))
        elif language == "text":
            assert same(printed[-1], text), f"{page}:{line}: it prints\n{printed[-1]}"
        else:
            assert named, f"{page}:{line}: a block of {language} that is run says the name of its file in its first line"
            (folder / (named[1] or named[2])).write_text(text)
    return printed, names


needs_fortran = pytest.mark.skipif(shutil.which("gfortran") is None or not (BUILD / "libmac_fortran.a").exists(), reason="there is no Fortran")


@needs_fortran
def test_the_runtime_gives_the_same_bits_in_four_languages(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prefix").symlink_to(prefix)
    printed, _ = tell("runtime.md", tmp_path, prefix)
    numbers = [[float(word) for word in text.split()] for text in printed if text]
    assert len(numbers) == 4 and all(pair == numbers[0] for pair in numbers)


@needs_fortran
def test_the_tutorial_ends_in_a_fortran_solver_that_does_what_python_does(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed, names = tell("tutorial.md", tmp_path, prefix, every=True)
    assert float(printed[-1]) < 1e-12  # how far Fortran is from Python
    error = lambda run: np.linalg.norm(run.resolved - names["truth"])
    assert error(names["run"]) < error(names["none"]) / 3
    assert "times better than no closure" in names["metrics"]["verdict"]["models"]["closure"]["sentence"]


def quick_training(text):
    """For the two minutes of trials of docs/csv.md: one short training."""
    if "mac train" not in text:
        return text
    smaller = r"sed -i -e 's/^recipe = .*/recipe = \"fast\"\nnoise = 0.03\nvalidate_every = 100/' -e 's/^steps = .*/steps = 300/'"
    smaller += r" -e 's/^kind = \"mamba\"/&\nd_model = 8\nblocks = 1\nd_state = 4/' study.toml"
    return text.replace("mac train", f"grep -q '^recipe = \"auto\"' study.toml\n{smaller}\nmac train").replace(" --budget 2min", "")


@needs_fortran
def test_a_csv_file_becomes_a_closure_in_a_solver_by_the_commands_of_its_page(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = next(text for language, text, *_ in blocks((ROOT / "docs/tutorial.md").read_text()) if language == "fortran")
    (tmp_path / "solver.f90").write_text(source)
    printed, _ = tell("csv.md", tmp_path, prefix, change=quick_training)
    table = next(text for language, text, *_ in blocks((ROOT / "docs/csv.md").read_text()) if language == "csv")
    assert (tmp_path / "runs.csv").read_text().splitlines()[0] == table.splitlines()[0]
    assert "times better than no closure" in (tmp_path / "report.html").read_text()
    assert np.isfinite(np.array(printed[-1].split(), float)).all()


def test_a_sweep_in_jobs_has_the_table_of_a_sweep_in_one_go(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shorter = "mac new-system pendulum\nsed -i 's/^steps = 300/steps = 30/' pendulum/pendulum.toml"
    printed, _ = tell("sweep.md", tmp_path, prefix, change=lambda text: text.replace("mac new-system pendulum", shorter))
    rows = lambda name: list(csv.reader((tmp_path / name / "sweep.csv").read_text().splitlines()[2:]))  # behind title and heading
    assert len(rows("sweep")) == 4 * 2 and len(rows("jobs")) == 2 * 2  # a network and a baseline each
    assert [[row[0], *row[2:]] for row in rows("sweep") if row[1] == "12"] == rows("jobs")
    assert "Best by validation error" in (tmp_path / "sweep/sweep.html").read_text()
    assert os.access(tmp_path / "cluster/sweep.sh", os.R_OK) and not (tmp_path / "cluster/sweep.csv").exists()
    assert "0 made" in printed[-1].splitlines()[-3], printed[-1]  # the last job trains nothing


def test_the_gradient_over_a_window_is_that_of_its_page(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, names = tell("derivatives.md", tmp_path, prefix)
    start, dt, steps = names["start"], names["dt"], names["steps"]

    def cost(y):
        closure = mac.load("burgers-mac", precision="float64")
        for _ in range(steps):
            y = y + dt * (-y + closure.step(y))
        return np.sum(y**2) / 2

    for i in range(6):
        direction = 1e-4 * np.eye(6)[i : i + 1]
        difference = (cost(start + direction) - cost(start - direction)) / 2e-4
        assert np.isclose(names["gy"][0, i], difference, rtol=1e-5, atol=1e-9)  # float32 steps on the tape: 1e-6 of them


def test_the_hosts_of_their_page_print_what_it_says(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tell("hosts.md", tmp_path, prefix)
    source = (tmp_path / "grid.c").read_text()
    (tmp_path / "grid.c").write_text(source.replace("mask[NX * NY] = {1, 1, 1, 0, 1, 1}", "mask[NX * NY] = {1, 1, 1, 1, 1, 1}"))
    compiled = next(text for language, text, note, _ in blocks((ROOT / "docs/hosts.md").read_text()) if language == "bash" and "cc " in text)
    assert "at rest: 0\n" not in shell(compiled, tmp_path, prefix)  # the zero was that of a column at rest


def test_the_ensemble_of_its_page_knows_how_uncertain_it_is(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tell("stochastic.md", tmp_path, prefix)
    scores = mac.evaluate([tmp_path / "many.h5"])["models"]["stochastic"]["test"]["verification"]
    ratio = np.sqrt(np.mean(np.square(scores["spread"])) / np.mean(np.square(scores["error"])))
    assert 0.8 < ratio < 1.2  # ten starts leave some ten per cent open
    runs = [mac.read_rollout(tmp_path / f"{name}.h5")["test"].resolved for name in ["one", "other", "calm"]]
    assert not np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])


def test_the_first_blocks_of_the_python_page_run(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, names = tell("python.md", tmp_path, prefix)
    assert names["closure"].steps == 10 and (tmp_path / "restart.npz").exists()


def test_the_commands_of_their_page_run(tmp_path, prefix, monkeypatch):
    """With a small study in place of experiments/burgers.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    for name in ["experiments/burgers.toml", "study.toml"]:
        (tmp_path / name).write_text(STUDY)
    (tmp_path / "zoo").symlink_to(ROOT / "zoo")
    printed, _ = tell("cli.md", tmp_path, prefix)
    assert all("no closure" in text for text in printed[:2])
    for name in ["report.html", "runs/burgers/report.html", "runs/noise/sweep.html", "metrics.json"]:
        assert (tmp_path / name).exists(), name
    (tmp_path / "data.h5").rename("burgers.h5")
    tell("training.md", tmp_path, prefix)
    assert "5" in shell("mac info mac-five.safetensors | grep members", tmp_path, prefix)
