# Spack recipe of Railyard.
from spack.package import *


class Railyard(CMakePackage, CudaPackage):
    """LLM training for Slurm clusters in one native program: jobs are Lua files that sbatch takes as they are."""

    license("Apache-2.0")
    version("main", branch="main")

    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("pmix@3:")
    depends_on("hwloc@2.4:")
    depends_on("lua@5.4")
    depends_on("onednn")
    depends_on("cli11")
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("xxhash")
    depends_on("googletest", type="test")
    depends_on("nccl", when="+cuda")

    def cmake_args(self):
        return [
            self.define("RAILYARD_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("RAILYARD_TESTS", self.run_tests),
        ]
