"""Frames of the libraries that a machine may lack: what needs one that is not installed skips."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

__all__ = ["FRAMES", "frame", "frame_type", "from_pandas"]

FRAMES = ("pandas", "polars", "pyarrow")


def frame_type(library: str) -> type:
    """Return the class of the library's frames."""
    module = pytest.importorskip(library)
    chosen: type = module.Table if library == "pyarrow" else module.DataFrame
    return chosen


def frame(library: str, columns: Any, **options: Any) -> Any:
    """Make a frame of a mapping of columns."""
    module = pytest.importorskip(library)
    return (module.table if library == "pyarrow" else module.DataFrame)(columns, **options)


def from_pandas(library: str, table: pd.DataFrame) -> Any:
    """Make a frame of a pandas frame, without its index."""
    if library == "pandas":
        return table
    module = pytest.importorskip(library)
    return module.Table.from_pandas(table) if library == "pyarrow" else module.from_pandas(table)
