# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Starling(AutotoolsPackage):
    """Train GraphSAGE, GCN, GAT, GCNII and deep residual GCNs on one large graph, as StarPU tasks."""

    # There is no release with an address yet: name a clone by `spack develop`, or set git to its address.
    homepage = "https://starling.example.org"
    git = "https://starling.example.org/starling.git"

    license("MIT")

    version("main", branch="main")
    version("0.1.0", tag="0.1.0")

    variant("cuda", default=False, description="Use GPUs")
    variant("nccl", default=False, when="+cuda", description="Move rows between GPUs by NCCL")
    variant("mpi", default=False, description="Run as several processes")
    variant("fxt", default=True, description="Write traces")
    variant("dnnl", default=True, description="Products by oneDNN, bf16")
    variant("python", default=False, description="Install the Python package starling_gnn")
    variant("jemalloc", default=True, description="Allocate memory by jemalloc in the programs")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("starpu@1.4~examples")
    # StarPU has no variant for --enable-maxcpus: it allows as many workers as the build machine has cores.
    depends_on("starpu+fxt", when="+fxt")
    depends_on("starpu~fxt", when="~fxt")
    depends_on("starpu+mpi", when="+mpi")
    depends_on("starpu~mpi", when="~mpi")
    depends_on("starpu+cuda", when="+cuda")
    depends_on("starpu~cuda", when="~cuda")
    depends_on("mpi", when="+mpi")
    depends_on("cuda", when="+cuda")
    depends_on("nccl@2.14:", when="+nccl")
    depends_on("hwloc@2:")
    depends_on("metis@5")
    depends_on("openblas threads=none,pthreads")
    depends_on("zlib-api")
    depends_on("xxhash@0.8:")
    depends_on("jansson")
    depends_on("random123")
    depends_on("onednn@2 cpu_runtime=omp", when="+dnnl")
    depends_on("jemalloc", when="+jemalloc")
    depends_on("cmocka", type="test")
    extends("python@3.9:", when="+python")
    depends_on("py-numpy", type=("run", "test"), when="+python")

    def configure_args(self):
        spec = self.spec
        args = ["--without-mpi" if spec.satisfies("~mpi") else "--with-mpi"]
        # pkg-config does not know these.
        for name, package in (("metis", "metis"), ("random123", "random123"), ("openblas", "openblas")):
            args.append(f"--with-{name}={spec[package].prefix}")
        args.append(f"--with-starpu={spec['starpu'].prefix}")
        args.append(f"--with-cuda={spec['cuda'].prefix}" if spec.satisfies("+cuda") else "--without-cuda")
        args.append(f"--with-nccl={spec['nccl'].prefix}" if spec.satisfies("+nccl") else "--without-nccl")
        args.append(f"--with-dnnl={spec['onednn'].prefix}" if spec.satisfies("+dnnl") else "--without-dnnl")
        args.append("--with-python" if spec.satisfies("+python") else "--without-python")
        args.append("--with-jemalloc" if spec.satisfies("+jemalloc") else "--without-jemalloc")
        return args
