"""Builds the compiled half of the Python package with CMake; everything else is in pyproject.toml.

MAC_BUILD_DIR names a build folder that is configured already, to build in there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        target = Path(self.get_ext_fullpath(extension.name)).resolve()
        build = os.environ.get("MAC_BUILD_DIR")
        if not build:
            build = str(Path(self.build_temp).resolve())
            subprocess.run(
                ["cmake", "-S", ROOT, "-B", build, "-DMAC_TESTS=OFF", "-DMAC_BENCH=OFF",
                 f"-DPython_EXECUTABLE={sys.executable}"],
                check=True,
            )
        jobs = str(os.cpu_count() or 1)
        subprocess.run(["cmake", "--build", build, "--target", "mac_python", "--parallel", jobs], check=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(Path(build, "python", "mac", target.name)), str(target))
        for model in sorted((ROOT / "zoo").rglob("*.safetensors")):
            self.mkpath(str(target.parent / "zoo"))
            self.copy_file(str(model), str(target.parent / "zoo" / model.name))


version = re.search(r"project\(mac VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
setup(
    version=version,
    ext_modules=[Extension("mac._mac", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    options={"build": {"build_base": "build-python"}},  # build/ is CMake's
)
