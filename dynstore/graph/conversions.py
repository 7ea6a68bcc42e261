"""Conversions of a graph to and from other libraries; the code is in :mod:`dynstore.adapters`.

The graph is a layer below the adapters, so it does not import them. Only this file knows their names, and it looks them
up when they are called.
"""

from __future__ import annotations

import importlib
from typing import Any, Self

__all__ = ["Conversions"]


class Conversions:
    """The part of :class:`dynstore.DynamicGraph` that adapters implement; see ``docs/frames.md``."""

    def to_cudf(self, compact: bool = False) -> Any:
        """Return the edges as a cuDF frame over the store's own memory: no copy, gaps are null rows.

        See :func:`dynstore.adapters.tables.cudf.to_cudf`.
        """
        return _adapter("dynstore.adapters.tables.cudf").to_cudf(self, compact)

    def to_arrow(self, compact: bool = False) -> Any:
        """Return the edges as a pyarrow table over the store's own memory: no copy, gaps are null rows.

        See :func:`dynstore.adapters.tables.arrow.to_arrow`.
        """
        return _adapter("dynstore.adapters.tables.arrow").to_arrow(self, compact)

    def to_pandas(self) -> Any:
        """Return the edges as a pandas frame, wherever the graph is.

        See :func:`dynstore.adapters.tables.columns.to_pandas`.
        """
        return _adapter("dynstore.adapters.tables.columns").to_pandas(self)

    def to_polars(self) -> Any:
        """Return the edges as a polars frame; see :func:`dynstore.adapters.tables.arrow.to_polars`."""
        return _adapter("dynstore.adapters.tables.arrow").to_polars(self)

    def to_scipy(self) -> Any:
        """Return the adjacency matrix as a ``scipy.sparse.csr_array``.

        See :func:`dynstore.adapters.tables.scipy.to_scipy`.
        """
        return _adapter("dynstore.adapters.tables.scipy").to_scipy(self)

    def to_networkx(self) -> Any:
        """Return a copy as a ``networkx.Graph`` or ``networkx.DiGraph``; :func:`dynstore.from_networkx` turns back.

        See :func:`dynstore.adapters.networkx.exchange.to_networkx`.
        """
        return _adapter("dynstore.adapters.networkx.exchange").to_networkx(self)

    def to_cupyx(self) -> Any:
        """Return the adjacency matrix as a ``cupyx.scipy.sparse.csr_matrix``.

        See :func:`dynstore.adapters.tables.scipy.to_cupyx`.
        """
        return _adapter("dynstore.adapters.tables.scipy").to_cupyx(self)

    @classmethod
    def from_scipy(cls, matrix: Any, weighted: bool = True, **graph_options: Any) -> Self:
        """Make a graph of a square sparse matrix of SciPy or CuPy.

        See :func:`dynstore.adapters.tables.scipy.from_scipy`.
        """
        graph: Self = _adapter("dynstore.adapters.tables.scipy").from_scipy(cls, matrix, weighted, **graph_options)
        return graph

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the edges, without gaps, to whatever reads the Arrow PyCapsule interface."""
        return (
            _adapter("dynstore.adapters.tables.arrow").to_arrow(self, compact=True).__arrow_c_stream__(requested_schema)
        )


def _adapter(name: str) -> Any:
    return importlib.import_module(name)
