"""Optional libraries, and the command that installs one."""

from __future__ import annotations

import importlib
from typing import Any

from dynstore.backend import CUDA_INSTALL_LINE
from dynstore.errors import MissingDependencyError
from dynstore.input.frames import LIBRARIES

__all__ = ["require"]

RAPIDS_LINE = LIBRARIES["cudf"]
PYG_LINE = "pip install 'dynstore[pyg]'"
DASK_LINE = "pip install 'dynstore[dask]'"
STREAMS_LINE = "pip install 'dynstore[streams]'"
INSTALL_LINES = {
    **LIBRARIES,
    "confluent_kafka": STREAMS_LINE,
    "cugraph": RAPIDS_LINE,
    "cupy": CUDA_INSTALL_LINE,
    "cupyx": CUDA_INSTALL_LINE,
    "dask": DASK_LINE,
    "dask_cuda": RAPIDS_LINE,
    "dask_cudf": RAPIDS_LINE,
    "distributed": DASK_LINE,
    "nats": STREAMS_LINE,
    "networkx": "pip install 'dynstore[networkx]'",
    "nx_cugraph": "pip install nx-cugraph-cu13",
    "pylibcudf": RAPIDS_LINE,
    "pylibcugraph": RAPIDS_LINE,
    "pylibraft": RAPIDS_LINE,
    "raft_dask": "pip install raft-dask-cu13",
    "redis": STREAMS_LINE,
    "rmm": RAPIDS_LINE,
    "scipy": "pip install scipy",
    "torch": PYG_LINE,
    "torch_geometric": PYG_LINE,
}


def require(caller: str, module: str) -> Any:
    """Import a module of an optional library.

    Parameters
    ----------
    caller : str
        The caller, for the message.
    module : str
        Such as "scipy.sparse"; its first part is a key of ``INSTALL_LINES``.

    Raises
    ------
    MissingDependencyError
        With the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingDependencyError(
            f"{caller}: {library} cannot be imported ({error}); to install it: {INSTALL_LINES[library]}"
        ) from error
