"""The public graph: one file a part of its methods."""

from dynstore.graph.dynamic import DynamicGraph

__all__ = ["DynamicGraph", "load"]

load = DynamicGraph.load
