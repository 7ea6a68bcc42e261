"""Types shared by the layers.

``Array`` stands for a NumPy array on the host and a CuPy array on CUDA: which of the two a function
gets is decided by the :class:`~dynstore.backend.Backend` that it also gets, never by looking at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["MAX_INT32", "Array", "Device", "OnDuplicate", "Path", "ReorderReport", "UpdateReport"]

Array: TypeAlias = Any
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda-sim"]
OnDuplicate: TypeAlias = Literal["replace", "add", "append"]
Path: TypeAlias = Literal["in-place", "merge"]

# Of what has an int32 number: slots, vertices, rows of a batch.
MAX_INT32 = (1 << 31) - 1


class UpdateReport(NamedTuple):
    """What one update did; undirected graphs count each pair once.

    Attributes
    ----------
    inserted : int
        Edges that were absent and now are there.
    replaced : int
        Edges that were there and got the batch's weight (or, with ``on_duplicate="add"``, a sum).
    deleted : int
        Edges that were there and now are gone.
    absent : int
        Edges asked to be deleted that were not there.
    duplicates : int
        Rows of the batch that named an edge already named by another row.
    grown : bool
        Whether the store took a larger allocation.
    path : {"in-place", "merge"}
        Whether the store touched only the segments concerned or wrote everything anew.
    """

    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    absent: int = 0
    duplicates: int = 0
    grown: bool = False
    path: Path = "in-place"


@dataclass(frozen=True, slots=True)
class ReorderReport:
    """How far the order of the vertices had drifted from falling degree.

    Degrees count by class: 0, 1, 2-3, 4-7, 8-15 and so on. A vertex is out of order if its class is not the one that
    stands at its place when all vertices are sorted by degree.

    Attributes
    ----------
    vertex_drift : float
        The share of vertices that were out of order, 0 to 1.
    edge_drift : float
        The share of edge ends at them, 0 to 1.
    moved : int
        Vertices that have got another number; 0 where nothing was done.
    """

    vertex_drift: float
    edge_drift: float
    moved: int
