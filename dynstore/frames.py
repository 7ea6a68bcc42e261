"""The one door out for tables: pandas on the host, cuDF on CUDA where it is installed, else pandas."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["make_frame"]


@lru_cache(maxsize=1)
def _has_cudf() -> bool:
    return importlib.util.find_spec("cudf") is not None


def make_frame(backend: Backend, columns: Mapping[str, Array]) -> Any:
    """Make a data frame of equally long arrays of ``backend``, columns in the order given.

    Columns of strings are NumPy arrays of objects, whatever the backend; None in them is a missing value.
    """
    if backend.on_gpu and _has_cudf():
        import cudf

        return cudf.DataFrame(
            {name: cudf.Series(array.tolist()) if _on_host(array) else array for name, array in columns.items()}
        )
    import pandas

    return pandas.DataFrame(
        {name: array if _on_host(array) else backend.to_host(array) for name, array in columns.items()}
    )


def _on_host(array: Array) -> bool:
    return isinstance(array, np.ndarray)
