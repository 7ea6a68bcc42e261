"""Sharded graphs for the algorithms of pylibcugraph on several GPUs: each rank lends its rows, nothing is built anew.

.. code-block:: python

    from dynstore.adapters.cugraph import mg

    handle, graph = mg.lend(G)  # a call of all ranks
    pylibcugraph.weakly_connected_components(handle, graph, None, None, None, None, False)
"""

from dynstore.adapters.cugraph.mg.lending import lend

__all__ = ["lend"]
