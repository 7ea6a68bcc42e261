"""Types shared by the layers.

``Array`` stands for a NumPy array on the host and a CuPy array on CUDA: which of the two a function
gets is decided by the :class:`~dynstore.backend.Backend` that it also gets, never by looking at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Array", "Device", "OnDuplicate", "Path", "UpdateReport"]

Array: TypeAlias = Any
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda-sim"]
OnDuplicate: TypeAlias = Literal["replace", "add"]
Path: TypeAlias = Literal["in-place", "merge"]


@dataclass(frozen=True, slots=True)
class UpdateReport:
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
