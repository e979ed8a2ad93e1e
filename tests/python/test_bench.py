"""bench/record and bench/compare: figures of speed that are kept, and their ratios."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(tool, *arguments):
    return subprocess.run([ROOT / "bench" / tool, *map(str, arguments)], capture_output=True, text=True)


def record(path, machine={}, **medians):
    machine = {"processor": "A", "model": "family 1, model 2", "vectors": "avx2 fma", "cores": 2} | machine
    seconds = {name: {"median": m, "low": 0.9 * m, "high": 1.1 * m, "runs": 5} for name, m in medians.items()}
    path.write_text(json.dumps({"date": f"2026-01-{len(path.stem):02}", "commit": path.stem, "machine": machine, "seconds": seconds}))
    return path


def test_ratios_are_those_of_the_medians_and_differences_beyond_the_spread_are_named(tmp_path):
    compared = run("compare", record(tmp_path / "old.json", step=2e-6, train=4e-3, gone=1), record(tmp_path / "newer.json", step=3e-6, train=4.1e-3, came=5))
    assert compared.returncode == 0 and compared.stderr == ""
    lines = {line.split()[0]: line for line in compared.stdout.splitlines()[1:]}
    # 3/2 with quartiles at 0.9 and 1.1 of either: from 1.5 * 0.9/1.1 to 1.5 * 1.1/0.9
    assert "2 µs" in lines["step"] and lines["step"].endswith("1.500 (1.23–1.83) slower")
    assert lines["train"].endswith("1.025 (0.84–1.25)")
    assert lines["gone"].endswith("–") and lines["came"].split()[1:] == ["–", "5", "s"]
    assert len({len(line) for line in compared.stdout.splitlines() if not line.endswith("slower")}) == 1  # columns line up


@pytest.mark.parametrize(
    "old,new,sentence",
    [
        ({}, {"processor": "B"}, "different machines"),
        ({}, {"model": "family 1, model 3"}, "different machines"),  # two generations of one name
        ({}, {"cores": 4}, "different machines"),
        ({}, {"vectors": "avx2 avx512f fma"}, "its vector instructions differ"),
        ({"model": ""}, {}, "different machines"),  # a record from before the model was kept
        ({"model": ""}, {"model": ""}, "may be different machines"),
    ],
)
def test_records_of_different_machines_are_not_compared(tmp_path, old, new, sentence):
    compared = run("compare", record(tmp_path / "old.json", old, step=1), record(tmp_path / "new.json", new, step=1))
    assert compared.returncode == 2 and sentence in compared.stderr and compared.stdout == ""


def test_the_trend_has_a_table_for_each_machine(tmp_path):
    record(tmp_path / "old.json", {"model": ""}, step=1)
    record(tmp_path / "new.json", step=1)
    page = run("compare", "--markdown", tmp_path / "old.json", tmp_path / "new.json").stdout
    assert page.count("\n## ") == 2 and "## A (its model was not recorded), 2 cores" in page and "## A (family 1, model 2), 2 cores" in page


@pytest.mark.parametrize(
    "text,sentence",
    [(None, "cannot be read: No such file"), ("{", "is not a record"), ("[]", "is not a record"), ('{"seconds": {"a": {"low": 2, "median": 1, "high": 3}}}', "not in order")],
)
def test_what_is_no_record_is_named(tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "bad.json").write_text(text)
    compared = run("compare", record(tmp_path / "good.json", step=1), tmp_path / "bad.json")
    assert compared.returncode == 2 and "bad.json" in compared.stderr and sentence in compared.stderr


def test_a_record_keeps_what_was_measured(tmp_path):
    program = Path(os.environ["MAC_PROGRAM"]).parent / "bench/mac_bench"
    if not program.exists():
        pytest.skip("built without benchmarks")
    made = run("record", "--program", program, "--filter", "^step/power_grid_gru/1$", "--repetitions", 3, "-o", tmp_path / "r.json")
    assert made.returncode == 0, made.stderr
    kept = json.loads((tmp_path / "r.json").read_text())
    (seconds,) = kept["seconds"].values()
    assert seconds["runs"] == 3 and 0 < seconds["low"] <= seconds["median"] <= seconds["high"]
    assert kept["machine"]["cores"] >= 1 and kept["machine"]["model"] and "host" not in (tmp_path / "r.json").read_text()
    wrong = run("record", "--program", program, "--filter", "^nothing$", "-o", tmp_path / "n.json")
    assert wrong.returncode == 2 and "no benchmark is called ^nothing$" in wrong.stderr and not (tmp_path / "n.json").exists()


def test_the_page_of_the_trend_is_what_the_records_say():
    page = run("compare", "--markdown", *sorted((ROOT / "bench/history").glob("*.json"))).stdout
    assert (ROOT / "docs/speed-history.md").read_text() == page
