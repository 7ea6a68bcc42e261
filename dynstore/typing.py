"""Types shared by the layers.

``Array`` is a NumPy array on the host and a CuPy array on CUDA. The :class:`~dynstore.backend.Backend` that a function
also gets decides which; functions never inspect the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["MAX_INT32", "Array", "Device", "OnDuplicate", "Path", "ReorderReport", "UpdateReport"]

Array: TypeAlias = Any
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda-sim"]
OnDuplicate: TypeAlias = Literal["replace", "add", "append"]
Path: TypeAlias = Literal["in-place", "merge"]

# The greatest int32; it limits numbers of slots, vertices and rows of a batch.
MAX_INT32 = (1 << 31) - 1


class UpdateReport(NamedTuple):
    """What one update did; undirected graphs count each pair once.

    Attributes
    ----------
    inserted : int
        Edges that were absent and are now there.
    replaced : int
        Edges that were there and got the batch's weight (or, with ``on_duplicate="add"``, a sum).
    deleted : int
        Edges that were there and are now deleted.
    absent : int
        Edges to delete that were not there.
    duplicates : int
        Rows of the batch that repeat another row's edge.
    grown : bool
        Whether the store took a larger allocation.
    path : {"in-place", "merge"}
        Whether the store changed only the affected segments or wrote everything anew.
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

    Degrees are compared by class: 0, 1, 2-3, 4-7, 8-15 and so on. A vertex is out of order if sorting by degree would
    put a vertex of another class at its place.

    Attributes
    ----------
    vertex_drift : float
        The share of vertices that were out of order, 0 to 1.
    edge_drift : float
        The share of edge ends at them, 0 to 1.
    moved : int
        Vertices whose number has changed; 0 if nothing was done.
    """

    vertex_drift: float
    edge_drift: float
    moved: int
