"""The public graph: one file a part of its methods."""

from dynstore.graph.dynamic import DynamicGraph
from dynstore.graph.pinned import PinnedGraph
from dynstore.graph.view import GraphView

__all__ = ["DynamicGraph", "GraphView", "PinnedGraph", "load"]

load = DynamicGraph.load
