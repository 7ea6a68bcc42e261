"""Dynamic graphs for RAPIDS: batches of edges go in and out, the graph stays ready for analytics."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynstore.lookup import provide

__version__ = "0.1.0"

__all__ = [
    "Database",
    "DynamicGraph",
    "GapCSR",
    "GraphView",
    "Operation",
    "OperationResults",
    "PinnedGraph",
    "ReorderReport",
    "SlideReport",
    "Stream",
    "UpdateReport",
    "Window",
    "__version__",
    "algorithms",
    "betweenness_centrality",
    "bfs",
    "datasets",
    "distributed",
    "errors",
    "explain",
    "from_networkx",
    "gts",
    "load",
    "open",
    "pagerank",
    "sssp",
    "streams",
    "triangle_count",
    "weakly_connected_components",
]

# Where public names come from; looked up on first use, so that importing dynstore loads nothing else.
_HOMES = {
    "Database": "dynstore.durable",
    "DynamicGraph": "dynstore.graph",
    "GapCSR": "dynstore.snapshot",
    "GraphView": "dynstore.graph",
    "Operation": "dynstore.operations.results",
    "OperationResults": "dynstore.operations.results",
    "PinnedGraph": "dynstore.graph",
    "ReorderReport": "dynstore.typing",
    "SlideReport": "dynstore.windows.moves",
    "Stream": "dynstore.streams.stream",
    "UpdateReport": "dynstore.typing",
    "Window": "dynstore.windows.window",
    "betweenness_centrality": "dynstore.algorithms",
    "bfs": "dynstore.algorithms",
    "explain": "dynstore.adapters.explanation",
    "from_networkx": "dynstore.adapters.networkx.exchange",
    "load": "dynstore.graph",
    "open": "dynstore.durable",
    "pagerank": "dynstore.algorithms",
    "sssp": "dynstore.algorithms",
    "triangle_count": "dynstore.algorithms",
    "weakly_connected_components": "dynstore.algorithms",
}
# What methods of a graph, and columns of ids, call of what is built on them.
provide(
    {
        "arrow": "dynstore.adapters.tables.arrow",
        "cudf": "dynstore.adapters.tables.cudf",
        "hops": "dynstore.algorithms.traversal.hops",
        "networkx": "dynstore.adapters.networkx.exchange",
        "pandas": "dynstore.adapters.tables.columns",
        "scipy": "dynstore.adapters.tables.scipy",
        "strings": "dynstore.adapters.tables.strings",
        "tracking": "dynstore.algorithms.tracking",
    }
)
_SUBPACKAGES = ("algorithms", "datasets", "distributed", "errors", "gts", "streams")

if TYPE_CHECKING:
    from dynstore import algorithms, datasets, distributed, errors, gts, streams
    from dynstore.adapters.explanation import explain
    from dynstore.adapters.networkx.exchange import from_networkx
    from dynstore.algorithms import (
        betweenness_centrality,
        bfs,
        pagerank,
        sssp,
        triangle_count,
        weakly_connected_components,
    )
    from dynstore.durable import Database, open
    from dynstore.graph import DynamicGraph, GraphView, PinnedGraph, load
    from dynstore.operations.results import Operation, OperationResults
    from dynstore.snapshot import GapCSR
    from dynstore.streams.stream import Stream
    from dynstore.typing import ReorderReport, UpdateReport
    from dynstore.windows.moves import SlideReport
    from dynstore.windows.window import Window


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"dynstore.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'dynstore' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
