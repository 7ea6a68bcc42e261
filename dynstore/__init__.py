"""Dynamic graphs for RAPIDS: batches of edges go in and out, the graph stays ready for analytics."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it; looked up on first use, so importing dynstore loads nothing else.
_LAZY = {
    "DynamicGraph": "dynstore.graph",
    "GapCSR": "dynstore.snapshot",
    "UpdateReport": "dynstore.typing",
    "betweenness_centrality": "dynstore.algorithms",
    "bfs": "dynstore.algorithms",
    "pagerank": "dynstore.algorithms",
    "sssp": "dynstore.algorithms",
    "triangle_count": "dynstore.algorithms",
    "weakly_connected_components": "dynstore.algorithms",
    "algorithms": "",
    "datasets": "",
    "errors": "",
}

__all__ = ["__version__", *sorted(_LAZY)]

if TYPE_CHECKING:
    from dynstore import algorithms, datasets, errors
    from dynstore.algorithms import (
        betweenness_centrality,
        bfs,
        pagerank,
        sssp,
        triangle_count,
        weakly_connected_components,
    )
    from dynstore.graph import DynamicGraph
    from dynstore.snapshot import GapCSR
    from dynstore.typing import UpdateReport


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dynstore' has no attribute {name!r}")
    module = _LAZY[name]
    if not module:
        return importlib.import_module(f"dynstore.{name}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
