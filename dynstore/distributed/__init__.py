"""Graphs over several ranks: one part of the edges a GPU or a process, updated and read by calls of all ranks."""

from dynstore.distributed.algorithms import pagerank, weakly_connected_components
from dynstore.distributed.communicator import Communicator
from dynstore.distributed.counting import CountingCommunicator, Traffic
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.mpi import MpiCommunicator
from dynstore.distributed.nccl import NcclCommunicator, new_identifier
from dynstore.distributed.searches import bfs, sssp
from dynstore.distributed.threads import run
from dynstore.distributed.triangles import triangle_count

__all__ = [
    "Communicator",
    "CountingCommunicator",
    "MpiCommunicator",
    "NcclCommunicator",
    "ShardedGraph",
    "Traffic",
    "bfs",
    "new_identifier",
    "pagerank",
    "run",
    "sssp",
    "triangle_count",
    "weakly_connected_components",
]
