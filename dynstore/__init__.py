"""Dynamic graphs for RAPIDS: batches of edges go in and out, the graph stays ready for analytics."""

from __future__ import annotations

import importlib.util
from typing import Any

from dynstore.lookup import provide

__version__ = "0.1.0"

# Where public names come from; looked up on first use, so that importing dynstore loads nothing else. Those of
# algorithms are in their records. ``__init__.pyi`` says the same to type checkers.
_HOMES = {
    "Database": "dynstore.durable",
    "DynamicGraph": "dynstore.graph",
    "GapCSR": "dynstore.snapshot",
    "GraphView": "dynstore.graph",
    "Operation": "dynstore.operations.results",
    "OperationResults": "dynstore.operations.results",
    "PinnedGraph": "dynstore.graph",
    "ReorderReport": "dynstore.typing",
    "SimpleGraph": "dynstore.graph.events.simple",
    "SlideReport": "dynstore.windows.moves",
    "Stream": "dynstore.streams.stream",
    "UpdateReport": "dynstore.typing",
    "Window": "dynstore.windows.window",
    "explain": "dynstore.adapters.explanation",
    "from_networkx": "dynstore.adapters.networkx.exchange",
    "load": "dynstore.graph",
    "open": "dynstore.durable",
}
# What methods of a graph, and columns of ids, call of what is built on them.
provide(
    {
        "arrow": "dynstore.adapters.tables.arrow",
        "cudf": "dynstore.adapters.tables.cudf",
        "events": "dynstore.graph.events.views",
        "hops": "dynstore.algorithms.traversal.hops",
        "networkx": "dynstore.adapters.networkx.exchange",
        "pandas": "dynstore.adapters.tables.columns",
        "scipy": "dynstore.adapters.tables.scipy",
        "simple": "dynstore.graph.events.simple",
        "strings": "dynstore.adapters.tables.strings",
        "tracking": "dynstore.algorithms.tracking",
    }
)
_SUBPACKAGES = ("algorithms", "datasets", "distributed", "errors", "gts", "streams")


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"dynstore.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name == "__all__":
        value = sorted({*_HOMES, *_SUBPACKAGES, *_algorithms(), "__version__"})
    elif _is_module(name) or name not in _algorithms():
        raise AttributeError(f"module 'dynstore' has no attribute {name!r}")
    else:
        value = _algorithms()[name].function
    globals()[name] = value
    return value


def _is_module(name: str) -> bool:
    """Whether this is a module, which Python imports itself; it asks here first. Then no algorithm need be loaded."""
    return name.startswith("__") or importlib.util.find_spec(f"dynstore.{name}") is not None


def _algorithms() -> dict[str, Any]:
    records: dict[str, Any] = importlib.import_module("dynstore.algorithms").ALGORITHMS
    return records


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_SUBPACKAGES, *_algorithms()})
