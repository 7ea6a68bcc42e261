"""The one door out for tables: pandas on the host, cuDF on CUDA where it is installed, else pandas."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["make_frame"]


@lru_cache(maxsize=1)
def _has_cudf() -> bool:
    return importlib.util.find_spec("cudf") is not None


def make_frame(backend: Backend, columns: Mapping[str, Array]) -> Any:
    """Make a data frame of equally long arrays of ``backend``, columns in the order given."""
    if backend.on_gpu and _has_cudf():
        import cudf

        return cudf.DataFrame(dict(columns))
    import pandas

    return pandas.DataFrame({name: backend.to_host(array) for name, array in columns.items()})
