"""Algorithms over rows in host memory that come to the device page by page, or are read in place."""

from dynstore.algorithms.paged.betweenness import betweenness_centrality
from dynstore.algorithms.paged.passes import LinkTraffic, PageReader
from dynstore.algorithms.paged.paths import sssp
from dynstore.algorithms.paged.searches import bfs
from dynstore.algorithms.paged.sweeps import pagerank, sum_out_weights, weakly_connected_components
from dynstore.algorithms.paged.triangles import triangle_count

__all__ = [
    "LinkTraffic",
    "PageReader",
    "betweenness_centrality",
    "bfs",
    "pagerank",
    "sssp",
    "sum_out_weights",
    "triangle_count",
    "weakly_connected_components",
]
