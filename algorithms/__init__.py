"""Graph analytics with cuGraph's signatures, columns and conventions.

Functions are imported on first use, so importing this package loads no kernel. ``ALGORITHMS`` lists all of them, with
their requirements on the graph and the paper that each follows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "dynstore.algorithms":
    raise ImportError(f"{__name__}: this folder is a part of dynstore; import dynstore.algorithms")

# Public name -> module of this package.
_LAZY = {
    "ALGORITHMS": "registry",
    "Monitor": "tracking",
    "betweenness_centrality": "centrality.api",
    "bfs": "traversal.api",
    "find_algorithm": "registry",
    "pagerank": "link_analysis.api",
    "sssp": "traversal.api",
    "track": "tracking",
    "triangle_count": "community.api",
    "weakly_connected_components": "components.api",
}

__all__ = [
    "ALGORITHMS",
    "Monitor",
    "betweenness_centrality",
    "bfs",
    "find_algorithm",
    "pagerank",
    "sssp",
    "track",
    "triangle_count",
    "weakly_connected_components",
]

if TYPE_CHECKING:
    from dynstore.algorithms.centrality.api import betweenness_centrality
    from dynstore.algorithms.community.api import triangle_count
    from dynstore.algorithms.components.api import weakly_connected_components
    from dynstore.algorithms.link_analysis.api import pagerank
    from dynstore.algorithms.registry import ALGORITHMS, find_algorithm
    from dynstore.algorithms.tracking import Monitor, track
    from dynstore.algorithms.traversal.api import bfs, sssp


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dynstore.algorithms' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dynstore.algorithms.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
