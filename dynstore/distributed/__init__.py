"""Graphs over several ranks: one part of the edges a GPU or a process, updated and read by calls of all ranks."""

from dynstore.distributed.algorithms import bfs, pagerank, weakly_connected_components
from dynstore.distributed.communicator import Communicator
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.threads import run

__all__ = ["Communicator", "ShardedGraph", "bfs", "pagerank", "run", "weakly_connected_components"]
