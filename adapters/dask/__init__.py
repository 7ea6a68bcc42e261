"""Dynamic graphs on Dask clusters, on GPUs or hosts; frames come and go as Dask frames.

.. code-block:: python

    from distributed import Client, LocalCluster
    from dynstore.adapters.dask import DaskGraph, pagerank

    client = Client(LocalCluster(n_workers=2, threads_per_worker=1))
    G = DaskGraph(client, directed=False)
    G.insert_edges(ddf)  # a dask or dask-cudf DataFrame with columns source and destination
    ranks = pagerank(G)  # a Dask frame
"""

from dynstore.adapters.dask.algorithms import bfs, pagerank, sssp, triangle_count, weakly_connected_components
from dynstore.adapters.dask.graph import DaskGraph
from dynstore.adapters.dask.progress import Progress

__all__ = ["DaskGraph", "Progress", "bfs", "pagerank", "sssp", "triangle_count", "weakly_connected_components"]
