"""The rows of one update: read on any ranks, numbered alike on all, brought to the owners of their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.distributed.owners import sort_by_owner
from dynstore.errors import InputTypeError
from dynstore.graph.insertions import Request, fill_weights, with_weights
from dynstore.ids.base import RenumberingPlan
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import bring_columns, check_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynstore.distributed.calls import Collective
    from dynstore.distributed.owners import Owners
    from dynstore.graph import DynamicGraph
    from dynstore.ids.base import Names
    from dynstore.typing import Array

__all__ = ["RankRows", "Routed", "host_ids", "join_ids", "number_alike", "read_rows", "route_rows"]


class RankRows(NamedTuple):
    """Rows that one rank has read.

    Attributes
    ----------
    columns : EdgeColumns
        Numbers; with ``renumber=True`` those of ids that are no vertices are known to this rank alone.
    num_vertices : int
        V, with the rows' ids if they are numbers and may become vertices.
    strangers : numpy.ndarray or None
        With ``renumber=True``, the ids that are no vertices, distinct and ascending.
    """

    columns: EdgeColumns
    num_vertices: int
    strangers: np.ndarray | None


class Routed(NamedTuple):
    """Rows of the sources that this rank owns, of all ranks.

    Attributes
    ----------
    batches : list of EdgeColumns
        In the order of ranks and rows.
    num_rows : int
        Rows of all batches on all ranks, as they were brought.
    num_vertices : int
        V, with all rows' ids if they are numbers and may become vertices.
    """

    batches: list[EdgeColumns]
    num_rows: int
    num_vertices: int


def read_rows(
    caller: str, shard: DynamicGraph, edges: Any, names: Names, inserts: bool, default_weight: float | None = None
) -> RankRows:
    """Read and validate the rows of this rank; None: it has no rows.

    Raises
    ------
    InputError
    """
    check_names(caller, names)
    num_vertices, ids = shard.number_of_vertices(), shard.core.ids
    if edges is None:
        nothing, strangers = shard.core.backend.nothing(shard.vertex_dtype), None
        columns = EdgeColumns(nothing, nothing, None, -1)
    else:
        request = Request(caller, bring_columns(caller, shard.core.backend, edges), (*names[:2], None), None)
        if inserts:
            request = request._replace(names=names, weight_dtype=shard.core.stored_weights)
            request = with_weights(shard.core, request)
        if inserts and not ids.renumbered:
            columns, plan = ids.plan_edges(*request, num_vertices)
            num_vertices, strangers = plan.num_vertices, None
        else:
            columns, strangers = ids.match_edges(*request, num_vertices)
    if inserts:
        columns = fill_weights(shard.core, caller, columns, default_weight)
    return RankRows(columns, num_vertices, None if strangers is None else host_ids(shard, strangers))


def host_ids(shard: DynamicGraph, ids: Any) -> np.ndarray:
    """Return ids in the form in which tables keep them as an array on the host."""
    found: np.ndarray = ids.to_host() if hasattr(ids, "to_host") else shard.core.backend.to_host(ids)
    return found


def join_ids(caller: str, parts: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return the ids of all ranks, distinct and ascending.

    Raises
    ------
    InputTypeError
        If some are strings and some are integers.
    """
    given = [(rank, ids) for rank, ids in enumerate(parts) if ids is not None and ids.shape[0]]
    if not given:
        return np.empty(0, np.int64)
    first, ids = given[0]
    for rank, other in given[1:]:
        if (other.dtype == object) != (ids.dtype == object):
            kinds = ["strings" if each.dtype == object else "integers" for each in (ids, other)]
            raise InputTypeError(
                f"{caller}: rank {first} has {kinds[0]} as ids, rank {rank} has {kinds[1]}; wanted one kind"
            )
    return np.unique(np.concatenate([ids for _, ids in given]))


def number_alike(
    call: Collective, shard: DynamicGraph, insertions: RankRows, deletions: RankRows
) -> tuple[tuple[RankRows, RankRows], RenumberingPlan]:
    """Agree on the numbers of ids that are no vertices yet; return both parts, and the plan for the new ids."""
    num_vertices = shard.number_of_vertices()
    agreed = call.agree((insertions.strangers, deletions.strangers))
    joined = [join_ids(call.caller, [strangers[place] for strangers in agreed]) for place in range(2)]
    renumbering = RenumberingPlan(num_vertices)
    if joined[0].shape[0]:
        renumbering = shard.core.ids.plan_vertices(call.caller, joined[0], num_vertices)
    parts = (
        insertions._replace(columns=_renumbered(shard, insertions, joined[0], num_vertices)),
        deletions._replace(columns=_renumbered(shard, deletions, joined[1], num_vertices)),
    )
    return parts, renumbering


def _renumbered(shard: DynamicGraph, part: RankRows, joined: np.ndarray, num_vertices: int) -> EdgeColumns:
    """Return rows with the numbers of strangers by their place among those of all ranks, from V on."""
    columns, xp = part.columns, shard.core.backend.xp
    if part.strangers is None or not part.strangers.shape[0]:
        return columns
    places = num_vertices + np.searchsorted(joined, part.strangers)
    table = shard.core.backend.asarray(places.astype(shard.vertex_dtype))

    def translated(numbers: Array) -> Array:
        return xp.where(numbers < num_vertices, numbers, table[xp.maximum(numbers - num_vertices, 0)])

    return EdgeColumns(translated(columns.src), translated(columns.dst), columns.weights, -1)


def route_rows(
    call: Collective, shard: DynamicGraph, owners: Owners, directed: bool, parts: Sequence[RankRows]
) -> Routed:
    """Bring rows of one or more batches to the owners of their sources.

    Undirected edges go to the owners of both ends, in two directions that follow each other.
    """
    rows = [len(part.columns.src) for part in parts]
    if call.comm.size == 1 and directed:  # all rows are where they belong
        return Routed([part.columns for part in parts], sum(rows), max(part.num_vertices for part in parts))
    given, sends = [], []
    for part in parts:
        columns = [part.columns.src, part.columns.dst]
        if part.columns.weights is not None:
            columns.append(part.columns.weights)
        _, ordered, send = sort_by_owner(shard.core.backend, owners, columns, both=not directed)
        given.append(ordered)
        sends.append(send)
    agreed = call.agree((max(part.num_vertices for part in parts), rows, sends))
    routed: list[EdgeColumns] = []
    moved = False
    for place, (part, columns, send) in enumerate(zip(parts, given, sends, strict=True)):
        if any(rows[place] for _, rows, _ in agreed):
            if moved:  # there may have been no memory for what came of the batch before
                call.agree()
            moved = True
            receive = [sent[place][call.comm.rank] for _, _, sent in agreed]
            came = call.comm.all_to_all(columns, send, receive)
            routed.append(EdgeColumns(came[0], came[1], came[2] if len(came) > 2 else None, -1))
        else:
            routed.append(part.columns)
    return Routed(routed, sum(sum(rows) for _, rows, _ in agreed), max(most for most, _, _ in agreed))
