"""A graph's edges as a Parquet file."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from dynstore.adapters.libraries import require
from dynstore.adapters.tables.arrow import to_arrow

if TYPE_CHECKING:
    from pathlib import Path

    from dynstore.graph import DynamicGraph

__all__ = ["write_parquet"]


def write_parquet(G: DynamicGraph, path: Path) -> None:
    """Write the edges to a file, an undirected edge once; the file is there as a whole or not at all.

    Parameters
    ----------
    G : DynamicGraph
    path : Path
        A file that is there is replaced.

    Raises
    ------
    MissingDependencyError
        Without pyarrow.
    OSError
        If the file cannot be written.
    """
    parquet = require("export", "pyarrow.parquet")
    part = path.with_name(f".dynstore-{os.getpid()}.part")
    try:
        parquet.write_table(to_arrow(G, compact=True), part)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()
