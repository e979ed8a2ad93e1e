"""The package as pip installs it."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import mac

ROOT = Path(__file__).resolve().parents[2]


def test_pip_installs_it_offline(tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "-q"]
    # The build folder of these tests has the compiled module; without it pip would compile the library again.
    environment = {**os.environ, "MAC_BUILD_DIR": os.environ["MAC_BUILD_DIR"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    copy = tmp_path / "source"  # setuptools writes beside the sources
    copy.mkdir()
    for name in ["pyproject.toml", "setup.py", "README.md", "CMakeLists.txt", "bindings"]:
        os.symlink(ROOT / name, copy / name)
    done = subprocess.run(
        [*command, "--target", tmp_path / "site", copy], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    program = "import mac; print(mac.__version__, mac.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert found.stdout.split() == [mac.__version__, str(tmp_path / "site/mac/__init__.py")], found.stderr
    for name in ["py.typed", "_mac.pyi"]:
        assert (tmp_path / "site/mac" / name).exists()


@pytest.mark.skipif(shutil.which("patchelf") is None, reason="there is no patchelf")
def test_a_wheel_carries_its_libraries(tmp_path):
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ["pyproject.toml", "setup.py", "README.md", "CMakeLists.txt", "bindings", "zoo"]:
        os.symlink(ROOT / name, copy / name)
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [sys.executable, "-m", "pip", "wheel", copy, "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path]
    subprocess.run(command, env=quiet, check=True)
    (path,) = tmp_path.glob("*.whl")
    subprocess.run([ROOT / "scripts/wheel-with-libraries", path], check=True)
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path / "site")
    (extension,) = (tmp_path / "site/mac").glob("_mac*.so")
    needed = subprocess.run(["ldd", extension], capture_output=True, text=True).stdout
    outside = [line.split()[0] for line in needed.splitlines() if "=>" in line and str(tmp_path) not in line]
    assert "libhdf5" in needed and all(re.match(r"lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so", name) for name in outside), outside
    program = "import mac; print(mac.load('burgers-mac').step([0.1] * 6).shape)"
    ran = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True)
    assert ran.stdout == "(6,)\n", ran.stderr


def test_a_source_distribution_has_what_cmake_needs(tmp_path):
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ["pyproject.toml", "setup.py", "README.md", "MANIFEST.in", "CMakeLists.txt"]:
        shutil.copy(ROOT / name, copy / name)
    for name in ["bindings", "cmake", "include", "src", "zoo"]:
        shutil.copytree(ROOT / name, copy / name)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "-d", tmp_path], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        packed = {name.partition("/")[2] for name in file.getnames()}
    needed = {str(path.relative_to(copy)) for name in ["cmake", "include", "src", "bindings"] for path in (copy / name).rglob("*.*")}
    assert not {"CMakeLists.txt", "zoo/burgers-mac.safetensors", *needed} - packed


def test_everything_public_is_documented_and_typed():
    for name in mac.__all__:
        thing = getattr(mac, name)
        if name != "__version__":
            assert inspect.getdoc(thing), name
        if inspect.isfunction(thing):
            hints = inspect.signature(thing)
            assert hints.return_annotation is not inspect.Signature.empty, name
            assert all(p.annotation is not inspect.Parameter.empty for p in hints.parameters.values()), name


def test_the_stub_has_what_the_module_has():
    stub = (Path(mac.__file__).parent / "_mac.pyi").read_text()
    for name, thing in vars(mac.Closure).items():
        if not name.startswith("_"):
            assert f"def {name}(" in stub or f"    {name}:" in stub, name
