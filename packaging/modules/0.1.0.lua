-- SPDX-License-Identifier: MIT
-- Copyright (c) 2026 the Starling authors
--
-- Lmod. Copy to .../modulefiles/starling/0.1.0.lua and set the prefix.
local prefix = "/opt/starling/0.1.0"

help([[Starling trains graph neural networks on one large graph: coop_sage, pipe_gnn, starling_data, starling.
Datasets are searched in $STARLING_DATA.]])
whatis("Name: starling")
whatis("Version: 0.1.0")
whatis("Description: graph neural networks on one large graph, as StarPU tasks")

conflict("starling")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
-- The Python package: the folder that ./configure names, for the Python of that version.
-- prepend_path("PYTHONPATH", pathJoin(prefix, "lib/python3.11/site-packages"))
-- man finds the pages through PATH.
-- setenv("STARLING_DATA", "/data/graphs")
-- If homes are on NFS, keep StarPU's measurements on the node:
-- setenv("STARPU_HOME", "/tmp/starpu-" .. os.getenv("USER"))
