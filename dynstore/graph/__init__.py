"""The public graph: one file a part of its methods."""

from typing import TypeAlias

from dynstore.graph.dynamic import DynamicGraph
from dynstore.graph.versions.pinned import PinnedGraph
from dynstore.graph.versions.view import GraphView

__all__ = ["AnyGraph", "DynamicGraph", "GraphView", "PinnedGraph", "load"]

AnyGraph: TypeAlias = DynamicGraph | GraphView  # what can be read
load = DynamicGraph.load
