"""The names of operations, and what a batch of them returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynstore.typing import Frame, UpdateReport

__all__ = ["Operation", "OperationResults"]


class Operation(IntEnum):
    """What a row of :meth:`dynstore.DynamicGraph.apply` does.

    A column of operations has their names in small letters, or these numbers. Numbers are faster to read, most of all
    on a GPU.
    """

    INSERT = 0
    DELETE = 1
    HAS_EDGE = 2
    SUCCESSORS = 3
    PREDECESSORS = 4
    K_HOP = 5


@dataclass(frozen=True, slots=True)
class OperationResults:
    """What :meth:`dynstore.DynamicGraph.apply` did and found.

    Each frame has the column ``query``, int64: the number of the row that asked, from 0 on. Frames are in the order of
    these rows, and those of one row in ascending order of the vertices' ids. A query that finds nothing has no row,
    except in ``has_edge``. Vertices are in the column ``vertex``, as ids.

    Attributes
    ----------
    report : UpdateReport
        What the batch did to the graph. Each edge counts once, by the last of its insertions and deletions: as
        ``inserted`` or ``replaced``, ``deleted`` or ``absent``, compared with the graph before the batch. All other
        insertions and deletions are ``duplicates``.
    has_edge : frame
        ``query`` and ``exists``, bool; one row for each query.
    successors, predecessors : frame
        ``query`` and ``vertex``; in a weighted graph also ``weight``, in the weight dtype.
    k_hop : frame
        ``query``, ``vertex`` and ``distance``, in the vertex dtype: the number of edges from the vertex of the query,
        which is in it with 0.
    """

    report: UpdateReport
    has_edge: Frame
    successors: Frame
    predecessors: Frame
    k_hop: Frame
