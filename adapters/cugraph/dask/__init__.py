"""The drop-in for ``cugraph.dask``: ``from dynstore.adapters.cugraph import dask`` instead of ``import cugraph.dask``.

.. code-block:: python

    from dynstore.adapters import cugraph
    from dynstore.adapters.cugraph import dask as dcg

    G = cugraph.Graph(directed=True)
    G.from_dask_cudf_edgelist(ddf, source="src", destination="dst")
    ranks = dcg.pagerank(G)
    G.insert_edges(more_edges)  # a dask-cudf DataFrame with the same columns
    ranks = dcg.pagerank(G)

The algorithms here take such a live graph, or a :class:`dynstore.adapters.dask.DaskGraph`. All other names are
cuGraph's: they take graphs of cuGraph's own, and refuse live ones.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from dynstore.adapters.cugraph.dask.algorithms import (
    bfs,
    pagerank,
    sssp,
    triangle_count,
    weakly_connected_components,
)
from dynstore.adapters.cugraph.dask.lent import (
    core_number,
    eigenvector_centrality,
    hits,
    katz_centrality,
    leiden,
    louvain,
)
from dynstore.adapters.cugraph.dask.live import dask_graph_behind
from dynstore.adapters.libraries import require
from dynstore.errors import InputError

__all__ = [
    "bfs",
    "core_number",
    "eigenvector_centrality",
    "hits",
    "katz_centrality",
    "leiden",
    "louvain",
    "pagerank",
    "sssp",
    "triangle_count",
    "weakly_connected_components",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(require("cugraph.dask", "cugraph.dask"), name)
    return _refuse_live(name, value) if inspect.isroutine(value) else value


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(require("cugraph.dask", "cugraph.dask"))})


def _refuse_live(name: str, function: Any) -> Any:
    """Let a function of cuGraph refuse live graphs; it would look for parts that they do not have."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if any(dask_graph_behind(value) is not None for value in (*args, *kwargs.values())):
            raise InputError(
                f"{name}: a live graph on a Dask cluster has no {name}; it has "
                f"{', '.join(__all__)}. Make a graph of cuGraph's own from view_edge_list() for it"
            )
        return function(*args, **kwargs)

    return wrapped
