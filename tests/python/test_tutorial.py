"""docs/tutorial.md, block after block, as a reader would run it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BUILD = Path(os.environ["MAC_BUILD_DIR"])


def compile_fortran(source, folder):
    (folder / "solver.f90").write_text(source)
    library = next(BUILD.glob("**/libmac_runtime.so"), None) or next(BUILD.glob("libmac*runtime*.so"))
    subprocess.run(
        ["gfortran", "-I", BUILD / "fortran", "solver.f90", BUILD / "libmac_fortran.a", library, f"-Wl,-rpath,{library.parent}", "-o", "solver"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("gfortran") is None or not (BUILD / "libmac_fortran.a").exists(), reason="there is no Fortran")
def test_its_blocks_run_in_order(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    names = {}
    printed = ""
    for language, text in blocks:
        if language == "python":
            exec(compile(text, str(PAGE), "exec"), names)
            printed = capfd.readouterr().out
        elif language == "fortran":
            compile_fortran(text, tmp_path)
        elif language == "text":
            assert printed.strip() == text.strip()
        else:
            pytest.fail(f"a block of {language}, which nobody runs")
    assert float(printed) < 1e-12  # the last block prints how far Fortran is from Python
    error = lambda run: np.linalg.norm(run.resolved - names["truth"])
    assert error(names["run"]) < error(names["none"]) / 3
    assert "times better than no closure" in names["metrics"]["verdict"]["models"]["closure"]["sentence"]
