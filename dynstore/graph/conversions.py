"""Conversions of a graph to other libraries; the code is in :mod:`dynstore.adapters`.

The graph is a layer below the adapters, so it does not import them; see :mod:`dynstore.lookup`.
"""

from __future__ import annotations

from typing import Any

from dynstore.lookup import provided

__all__ = ["Tables"]


class Tables:
    """The part of graphs and their views that adapters implement; see ``docs/frames.md``."""

    def to_cudf(self, compact: bool = False) -> Any:
        """Return the edges as a cuDF frame.

        It is :func:`dynstore.adapters.tables.cudf.to_cudf`.

        Parameters
        ----------
        compact : bool
            If False, the frame shows the store's own memory: no copy, gaps are null rows, and undirected edges appear
            in both directions. If True, it is a copy with each edge once.

        Returns
        -------
        cudf.DataFrame
            Columns ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return provided("cudf").to_cudf(self, compact)

    def to_arrow(self, compact: bool = False) -> Any:
        """Return the edges as a pyarrow table.

        It is :func:`dynstore.adapters.tables.arrow.to_arrow`.

        Parameters
        ----------
        compact : bool
            If False, the table shows the store's own memory: no copy on the host, gaps are null rows, and undirected
            edges appear in both directions. If True, it is a copy with each edge once.

        Returns
        -------
        pyarrow.Table
            Columns ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return provided("arrow").to_arrow(self, compact)

    def to_pandas(self) -> Any:
        """Return the edges as a pandas frame on the host, each edge once.

        It is :func:`dynstore.adapters.tables.columns.to_pandas`.

        Returns
        -------
        pandas.DataFrame
            Columns ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return provided("pandas").to_pandas(self)

    def to_polars(self) -> Any:
        """Return the edges as a polars frame on the host, each edge once.

        It is :func:`dynstore.adapters.tables.arrow.to_polars`.

        Returns
        -------
        polars.DataFrame
            Columns ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return provided("arrow").to_polars(self)

    def to_scipy(self) -> Any:
        """Return the adjacency matrix on the host; symmetric for an undirected graph.

        It is :func:`dynstore.adapters.tables.scipy.to_scipy`.

        Returns
        -------
        scipy.sparse.csr_array, shape (V, V)
            The weights; ones for an unweighted graph.
        """
        return provided("scipy").to_scipy(self)

    def to_networkx(self) -> Any:
        """Return a copy as a NetworkX graph; :func:`dynstore.from_networkx` turns back.

        It is :func:`dynstore.adapters.networkx.exchange.to_networkx`.

        Returns
        -------
        networkx.Graph or networkx.DiGraph
            Weights are in the edge attribute ``weight``, extra columns in those of their names. Isolated vertices are
            included.
        """
        return provided("networkx").to_networkx(self)

    def to_cupyx(self) -> Any:
        """Return the adjacency matrix on the GPU; symmetric for an undirected graph.

        It is :func:`dynstore.adapters.tables.scipy.to_cupyx`.

        Returns
        -------
        cupyx.scipy.sparse.csr_matrix, shape (V, V)
            The weights; ones for an unweighted graph.
        """
        return provided("scipy").to_cupyx(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the edges, without gaps, to whatever reads the Arrow PyCapsule interface."""
        return provided("arrow").to_arrow(self, compact=True).__arrow_c_stream__(requested_schema)
