"""Makes NetworkX know the backend where the package is not installed, and graphs whose order is no accident."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import networkx as nx
import numpy as np

from dynstore.adapters.networkx_info import get_info

# What NetworkX 3.9 and later do not have any more.
GONE = {"bfs_predecessors"} - set(nx.utils.backends._registered_algorithms)
ENTRY = EntryPoint("dynstore", "dynstore.adapters.networkx:backend", "networkx.backends")


def register() -> None:
    """Do what NetworkX does when it finds the entry points; nothing where it found them."""
    backends = nx.utils.backends
    if "dynstore" not in backends.backends:
        info = get_info()
        backends.backends["dynstore"] = ENTRY
        backends.backend_info["dynstore"] = info
        known = dict(nx.config.backends.items())
        nx.config.backends = nx.utils.Config(dynstore=nx.utils.Config(**info["default_config"]), **known)
        backends._dispatchable.__call__ = backends._dispatchable._call_if_any_backends_installed
    nx.config.warnings_to_ignore.add("cache")


def shuffled_graph(
    rng: np.random.Generator, directed: bool, weights: Any = None, nodes: int = 30, edges: int = 70
) -> nx.Graph:
    """Make a graph of named nodes whose neighbours stand in random order, with removals behind it.

    ``weights`` are values to choose from; a tenth of the edges gets none.
    """
    G = nx.DiGraph() if directed else nx.Graph()
    names = [f"n{i}" if i % 3 else i for i in range(nodes)]
    G.add_nodes_from(names[k] for k in rng.permutation(nodes))
    for u, v in rng.integers(0, nodes, (edges, 2)).tolist():
        if weights is None or rng.random() < 0.1:
            G.add_edge(names[u], names[v])
        else:
            G.add_edge(names[u], names[v], weight=weights[rng.integers(len(weights))])
    present = list(G.edges)
    for k in rng.permutation(len(present))[: len(present) // 5].tolist():
        data = dict(G.edges[present[k]])
        G.remove_edge(*present[k])
        if k % 2:
            G.add_edge(*present[k], **data)  # goes to the end of its rows
    gone = names[int(rng.integers(nodes))]
    G.remove_node(gone)
    if rng.random() < 0.5:
        G.add_edge(gone, names[0])
    return G


def as_ours(G: nx.Graph) -> nx.Graph:
    """Return a graph of our class with the same rows in the same order."""
    from dynstore.adapters import networkx as adapter

    ours = adapter.DiGraph() if G.is_directed() else adapter.Graph()
    copies = {id(data): dict(data) for row in G._adj.values() for data in row.values()}
    ours._node.update({node: dict(data) for node, data in G._node.items()})
    for mine, theirs in [(ours._adj, G._adj)] + ([(ours._pred, G._pred)] if G.is_directed() else []):
        mine.update({u: {v: copies[id(data)] for v, data in row.items()} for u, row in theirs.items()})
    return ours


def plain(result: Any) -> Any:
    """Spell a result out: iterators as lists, dicts with their order, graphs with that of their rows."""
    if isinstance(result, nx.Graph):
        return [(u, list(row)) for u, row in result.adjacency()]
    if isinstance(result, dict):
        return [(key, plain(value)) for key, value in result.items()]
    if isinstance(result, tuple):
        return tuple(plain(item) for item in result)
    if isinstance(result, str | set) or not hasattr(result, "__iter__"):
        return result
    return [plain(item) for item in result]


def types_of(result: Any) -> Any:
    """Return the types in a result, in a comparable form."""
    if isinstance(result, dict):
        return {key: types_of(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [types_of(item) for item in result]
    return type(result)
