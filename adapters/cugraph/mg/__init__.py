"""Sharded graphs for the algorithms of pylibcugraph on several GPUs: each rank lends its rows, nothing is built anew.

.. code-block:: python

    from dynstore.adapters.cugraph import mg

    frame, modularity = mg.louvain(G)  # a call of all ranks; each gets the vertices that it owns
    handle, graph = mg.lend(G)  # for any function of pylibcugraph
    pylibcugraph.weakly_connected_components(handle, graph, None, None, None, None, False)
"""

from dynstore.adapters.cugraph.mg.algorithms import (
    core_number,
    eigenvector_centrality,
    hits,
    katz_centrality,
    leiden,
    louvain,
)
from dynstore.adapters.cugraph.mg.lending import lend

__all__ = ["core_number", "eigenvector_centrality", "hits", "katz_centrality", "leiden", "lend", "louvain"]
