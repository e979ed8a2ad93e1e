# Copyright 2026, the MAC developers. SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

from spack.package import *


class Mac(CMakePackage, CudaPackage):
    """Mamba-assisted closure: learned closures for reduced-order models, as a program, a C++ library, and a runtime library for
    C, C++ and Fortran hosts."""

    license("BSD-3-Clause")
    # The clone that this recipe lies in: its tags of releases and what is committed on main. `spack dev-build mac@main` in the clone
    # builds the working tree.
    git = Path(__file__).resolve().parents[4].as_uri()
    newest = "0.2.0"
    version("main", branch="main")
    version(newest, tag="v" + newest)

    variant("python", default=False, description="Python package")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cli11@2.3:", type="build")
    depends_on("tomlplusplus@3.3:")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("fftw@3.3: precision=double")
    depends_on("eigen@3.4:", type="build")
    depends_on("random123", type="build")
    depends_on("xxhash@0.8:", type="build")
    depends_on("hdf5@1.10:")
    depends_on("highway@1.0.3:")
    depends_on("zlib-api")
    depends_on("gnuplot+cairo", type="run")
    with when("+python"):
        extends("python")
        depends_on("python@3.9:", type=("build", "run"))
        depends_on("py-pybind11@2.10:", type="build")
        depends_on("py-numpy", type=("build", "run"))

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("MAC_TESTS", False),
            self.define("MAC_BENCH", False),
            self.define_from_variant("MAC_PYTHON", "python"),
            self.define_from_variant("MAC_CUDA", "cuda"),
        ]
