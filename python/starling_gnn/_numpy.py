# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""numpy, imported when it is first used.

numpy takes 25 MB. Training on files needs numpy for the results alone, when the buffers of training are free again.
"""

import importlib.util
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("numpy") is None:
    raise ImportError("starling_gnn needs numpy; install it (pip install numpy)")

__all__ = ["Array", "Floats", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Floats = NDArray[np.float32]
else:
    Array = Floats = Any  # of annotations alone

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy

            return getattr(numpy, name)

    np = _Numpy()
