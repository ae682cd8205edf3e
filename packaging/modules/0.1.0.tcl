#%Module1.0
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Environment Modules. Copy to .../modulefiles/starling/0.1.0 and set the prefix.
set prefix /opt/starling/0.1.0

proc ModulesHelp {} {
    puts stderr "Starling trains graph neural networks on one large graph: coop_sage, pipe_gnn, starling_data, starling."
    puts stderr "Datasets are searched in \$STARLING_DATA."
}
module-whatis "graph neural networks on one large graph, as StarPU tasks"

conflict starling
prepend-path PATH $prefix/bin
prepend-path LD_LIBRARY_PATH $prefix/lib
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
# The Python package: the folder that ./configure names, for the Python of that version.
# prepend-path PYTHONPATH $prefix/lib/python3.11/site-packages
# man finds the pages through PATH.
# setenv STARLING_DATA /data/graphs
# If homes are on NFS, keep StarPU's measurements on the node:
# setenv STARPU_HOME /tmp/starpu-$env(USER)
