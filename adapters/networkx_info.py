"""The description of the backend that NetworkX reads when it is imported; it needs no library.

This file is beside the package ``networkx``, not in it: importing a module of a package runs the package first.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FUNCTIONS", "get_info"]

_SAME = "Equal to NetworkX's result, order included."
_DICT = "Equal to NetworkX's result; keys are in order of distance, then of the graph's nodes."
_WEIGHTS = " Weights are int or float, none negative."
_CLOSE = "Equal to NetworkX's result up to the rounding of float64."

# Dispatch name -> the text of the backend's section in its docstring.
FUNCTIONS: dict[str, str] = {
    "all_pairs_dijkstra": _SAME + _WEIGHTS,
    "all_pairs_dijkstra_path": _SAME + _WEIGHTS,
    "all_pairs_dijkstra_path_length": _DICT + _WEIGHTS,
    "all_pairs_shortest_path": _SAME,
    "all_pairs_shortest_path_length": _DICT,
    "average_clustering": _SAME + " Undirected graphs without `weight`.",
    "betweenness_centrality": _CLOSE + " Without `weight`; `seed` samples the nodes that NetworkX samples.",
    "bfs_edges": _SAME + " Without `sort_neighbors`.",
    "bfs_layers": _SAME,
    "bfs_predecessors": _SAME + " Without `sort_neighbors`.",
    "bfs_successors": _SAME + " Without `sort_neighbors`.",
    "bfs_tree": _SAME + " Without `sort_neighbors`.",
    "clustering": _SAME + " Undirected graphs without `weight`.",
    "connected_components": _SAME,
    "degree_centrality": _SAME,
    "descendants_at_distance": _SAME,
    "dijkstra_path": _SAME + _WEIGHTS,
    "dijkstra_path_length": _SAME + _WEIGHTS,
    "dijkstra_predecessor_and_distance": _DICT + _WEIGHTS,
    "generic_bfs_edges": _SAME + " Without `neighbors`.",
    "has_path": _SAME,
    "in_degree_centrality": _SAME,
    "is_connected": _SAME,
    "is_weakly_connected": _SAME,
    "node_connected_component": _SAME,
    "number_connected_components": _SAME,
    "number_weakly_connected_components": _SAME,
    "out_degree_centrality": _SAME,
    "pagerank": _CLOSE + " Without `dangling`, unless it is equal to `personalization`; no negative weights.",
    "predecessor": _SAME,
    "shortest_path": _SAME + " From a source, to a target, or between all pairs, not for one pair; method 'dijkstra'.",
    "shortest_path_length": _DICT + _WEIGHTS + " Method 'dijkstra'.",
    "single_source_dijkstra": _SAME + _WEIGHTS,
    "single_source_dijkstra_path": _SAME + _WEIGHTS,
    "single_source_dijkstra_path_length": _DICT + _WEIGHTS,
    "single_source_shortest_path": _SAME,
    "single_source_shortest_path_length": _DICT,
    "single_target_shortest_path": _SAME,
    "single_target_shortest_path_length": _DICT,
    "transitivity": _SAME + " Undirected graphs.",
    "triangles": _SAME,
    "weakly_connected_components": _SAME,
}


def get_info() -> dict[str, Any]:
    """Return the backend's entry in ``networkx.utils.backends.backend_info``."""
    return {
        "backend_name": "dynstore",
        "project": "dynstore",
        "package": "dynstore",
        "short_summary": "Dynamic graphs on the host or the GPU: edges go in and out, nothing is converted again.",
        "default_config": {"device": "auto"},
        "functions": {name: {"additional_docs": text} for name, text in FUNCTIONS.items()},
    }
