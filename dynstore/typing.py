"""Types shared by the layers.

``Array`` is a NumPy array on the host and a CuPy array on CUDA. The :class:`~dynstore.backend.Backend` that a function
also gets decides which; functions never inspect the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

__all__ = [
    "MAX_INT32",
    "Array",
    "Device",
    "Frame",
    "Frames",
    "Memory",
    "OnDuplicate",
    "Path",
    "ReorderReport",
    "UpdateReport",
]

Array: TypeAlias = Any
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda-sim"]
Memory: TypeAlias = Literal["device", "host"]
Frames: TypeAlias = Literal["auto", "pandas", "polars", "cudf", "pyarrow"]
OnDuplicate: TypeAlias = Literal["replace", "add", "append"]
Path: TypeAlias = Literal["in-place", "merge"]

# The greatest int32; it limits numbers of slots, vertices and rows of a batch.
MAX_INT32 = (1 << 31) - 1


class Frame(Protocol):
    """A table of results: a frame of pandas, polars or cuDF, or a table of pyarrow.

    The graph's device and its option ``frames`` decide which of them it is, when the program runs. A type checker knows
    the attributes that all of them have, and accepts any other attribute. To name the library in a program, use
    ``typing.cast(pandas.DataFrame, frame)``.
    """

    @property
    def columns(self) -> Any:
        """The columns: their names, or with pyarrow, their values."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""

    def __len__(self) -> int: ...

    def __getitem__(self, name: Any, /) -> Any: ...

    def __getattr__(self, name: str, /) -> Any: ...


class UpdateReport(NamedTuple):
    """What one update did. Undirected graphs count each pair once.

    Attributes
    ----------
    inserted : int
        Edges that were absent and are there now.
    replaced : int
        Edges that were there and got the batch's weight, or with ``on_duplicate="add"`` a sum.
    deleted : int
        Edges that were there and are deleted now.
    absent : int
        Edges to delete that were not there.
    duplicates : int
        Rows of the batch that repeat another row's edge.
    grown : bool
        True if the store allocated a larger array.
    path : {"in-place", "merge"}
        "in-place" if only a part of the store was written, "merge" if all of it was.
    expired : int
        Edges that were deleted because their last time was too old; ``deleted`` does not count them.
    late : int
        Rows of the batch that were ignored because their time was too old.
    first_id : int or None
        In a multigraph, the id of the first row, from which ids were counted up; None if the user gave ids.
    """

    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    absent: int = 0
    duplicates: int = 0
    grown: bool = False
    path: Path = "in-place"
    expired: int = 0
    late: int = 0
    first_id: int | None = None


@dataclass(frozen=True, slots=True)
class ReorderReport:
    """How far the order of the vertices was from falling degree.

    Degrees are compared by class: 0, 1, 2-3, 4-7, 8-15 and so on. A vertex is out of order if sorting by degree would
    put a vertex of another class in its place.

    Attributes
    ----------
    vertex_drift : float
        The share of vertices that were out of order, 0 to 1.
    edge_drift : float
        The share of edge ends at them, 0 to 1.
    moved : int
        The number of vertices with a new number; 0 if nothing was done.
    """

    vertex_drift: float
    edge_drift: float
    moved: int
