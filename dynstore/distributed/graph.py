"""A dynamic graph whose rows lie on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import check_count, check_flag, check_integer, check_name, check_number
from dynstore.distributed.batches import host_ids, join_ids, number_alike, read_rows, route_rows
from dynstore.distributed.calls import Collective
from dynstore.distributed.communicator import Communicator
from dynstore.distributed.owners import Owners, sort_by_owner
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph
from dynstore.graph.core import GraphState
from dynstore.graph.exchanges import Exchange, exchange
from dynstore.graph.insertions import check_sums
from dynstore.graph.readable import ReadableGraph
from dynstore.graph.state import graph_of_state
from dynstore.ids.base import RenumberingPlan
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import bring_columns
from dynstore.input.frames import frame_library, make_frame
from dynstore.interrupts import MemoryChecked
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.base import Names
    from dynstore.typing import Array, Frame, OnDuplicate

__all__ = ["ShardedGraph"]

ON_DUPLICATE = ("replace", "add")
NOT_YET = ("reuse_ids", "edge_columns", "timestamps")


class ShardedGraph(ReadableGraph):
    """A graph that takes batches of edges in place, and whose edges lie on several ranks.

    An edge lies on the rank that owns its source. An undirected edge also lies on the rank that owns its other end. All
    ranks call each method, in the same order, unless its description says that no other rank is needed. A rank that has
    no edges for a batch passes an empty one, such as ``[]``. Threads of one rank take turns: a call that begins while
    another thread of the rank is in one raises :class:`RankError`.

    An update happens on all ranks or on none. If one rank refuses its part, that rank raises its own error. All others
    raise an error of the same kind that names the rank.

    What the graph is, how many vertices and edges the whole of it has, and the ids of all vertices each rank knows by
    itself. With ``renumber=True`` the ids are in the same order on all ranks; it need not be that of a
    :class:`DynamicGraph`.

    In a question about edges (:meth:`has_edges`, :meth:`edge_weights`) each rank names edges of its own, and gets their
    answers. In one about degrees, ranks may name different vertices; an answer counts the edges of the whole graph.

    Parameters
    ----------
    comm : Communicator
        The connection to the other ranks; :func:`run` passes one.
    partition : {"hash", "range"}
        How vertices are divided among ranks. "hash": by MurmurHash3 of the number, as in cuGraph. "range": the ids
        below ``max_vertices`` in equal ranges, in order of the ranks.
    **graph_options
        As for :class:`dynstore.DynamicGraph`, equal on all ranks. ``device`` is that of ``comm``. Not supported yet:
        ``reuse_ids``, ``edge_columns``, ``timestamps``.

    Attributes
    ----------
    comm : Communicator
    shard : DynamicGraph
        The rows of the vertices that this rank owns, as a directed graph of all vertices. Do not change it.

    Raises
    ------
    InputError
        For options that cannot be used, or that differ between ranks.

    Examples
    --------
    >>> from dynstore import distributed
    >>> def program(comm):
    ...     G = distributed.ShardedGraph(comm)
    ...     report = G.insert_edges([(comm.rank, 2), (comm.rank, 3)])
    ...     return report.inserted, G.number_of_edges(), len(G.edge_table())
    >>> distributed.run(program, ranks=2, device="cpu")
    [(4, 4, 4), (4, 4, 0)]
    """

    def __init__(self, comm: Communicator, partition: str = "hash", **graph_options: Any) -> None:
        if not isinstance(comm, Communicator):
            raise InputTypeError(
                f"ShardedGraph: comm is a {type_name(comm)}; wanted a Communicator: run() passes one to each rank; "
                "among processes make an MpiCommunicator or an NcclCommunicator"
            )
        with Collective(comm, "ShardedGraph") as call:
            options = dict(graph_options)
            self._directed = check_flag("ShardedGraph", "directed", options.pop("directed", True))
            _refuse(comm, options)
            capacity = check_count("ShardedGraph", "capacity", options.get("capacity"))
            options["capacity"] = -(-(capacity or 0) * (1 if self._directed else 2) // comm.size)
            if options.get("multigraph"):
                raise InputError(
                    "ShardedGraph: multigraph is True; ranks do not share one yet. Wanted multigraph=False"
                )
            self.shard = DynamicGraph(directed=True, **{**options, "device": comm.device})
            own = {**self.shard.core.options(), "directed": self._directed, "partition": partition}
            call.expect_alike(**own)
            call.agree()
            self._owners = Owners(self.shard.core.backend, partition, comm.size, self.shard.core.ids.max_vertices)
        self.comm, self.partition = comm, partition
        self._options, self._num_edges = own, 0

    def __repr__(self) -> str:
        kind = "directed" if self._directed else "undirected"
        return (
            f"ShardedGraph({kind}, {self.number_of_vertices()} vertices, {self.number_of_edges()} edges, rank "
            f"{self.comm.rank} of {self.comm.size}, store={self.shard.store_name!r}, device={self.device!r}, "
            f"version={self.version})"
        )

    # ------------------------------------------------------------------ what each rank knows

    @property
    def version(self) -> int:
        return self.shard.version

    @property
    def device(self) -> str:
        return self.shard.device

    @property
    def backend(self) -> Backend:
        """The backend of this rank's device."""
        return self.shard.core.backend

    def is_directed(self) -> bool:
        return self._directed

    def is_weighted(self) -> bool:
        return self.shard.is_weighted()

    def is_renumbered(self) -> bool:
        return self.shard.is_renumbered()

    def number_of_vertices(self) -> int:
        return self.shard.number_of_vertices()

    def number_of_edges(self) -> int:
        return self._num_edges

    def vertex_ids(self) -> Array:
        return self.shard.vertex_ids()

    def owners(self, vertices: Any) -> Array:
        """Return the rank that owns each vertex. Each rank knows that by itself.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them
            Vertices of the graph.

        Returns
        -------
        array, shape (B,), uint16
            Numbers of ranks.
        """
        shard = self.shard
        numbers = shard.core.ids.numbers_of("owners", vertices, shard.number_of_vertices())
        return self._owners(numbers.astype(shard.vertex_dtype))

    def edge_table(self) -> Frame:
        """Return the edges of this rank as a frame: each edge of the graph is on one rank. No other rank is needed.

        Returns
        -------
        frame
            As :meth:`DynamicGraph.edge_table`. An undirected edge is with the owner of its end that has the lower row.
        """
        shard = self.shard
        library = frame_library(shard.core.backend, shard.core.frames)
        src, dst, weights = shard.core.numbered_edges(once=not self._directed)
        ends = shard.core.ids.ends(src, dst, shard.number_of_vertices(), not self._directed, library)
        columns = {"source": ends[0], "destination": ends[1], **({} if weights is None else {"weight": weights})}
        return make_frame(shard.core.backend, columns, shard.core.frames)

    # ------------------------------------------------------------------ queries of all ranks

    def _look_up(self, caller: str, edges: Any, source: str, destination: str, weights: bool) -> Array:
        names = source, destination, None
        shard, backend = self.shard, self.shard.core.backend
        with Collective(self.comm, caller) as call, MemoryChecked(caller):
            edges = bring_columns(caller, backend, edges)
            columns = shard.core.ids.find_edges(caller, edges, names, None, shard.number_of_vertices())
            order, given, send = sort_by_owner(backend, self._owners, (columns.src, columns.dst), want_order=True)
            (src, dst), receive = call.all_to_all(given, send)
            found, stored = shard.core.out.look_up(src, dst)
            if weights:
                ones = backend.xp.ones(found.shape[0], shard.weight_dtype)
                found = backend.xp.where(found, ones if stored is None else stored, shard.weight_dtype.type(np.nan))
            (came,), _ = call.all_to_all([found], receive)
            answers = backend.empty(came.shape[0], came.dtype)
            answers[order] = came
        return answers

    def _degrees(self, caller: str, vertices: Any, orientations: tuple[bool, ...]) -> int | Frame:
        shard, num_vertices = self.shard, self.number_of_vertices()
        with Collective(self.comm, caller) as call, MemoryChecked(caller):
            numbers = None if vertices is None else shard.core.ids.numbers_of(caller, vertices, num_vertices)
            own = shard.core.backend.zeros(num_vertices, shard.vertex_dtype)
            for transposed in orientations:
                own += shard.row_lengths(transposed and self._directed)
            degrees = call.all_reduce(own)
            if numbers is not None and np.isscalar(vertices):
                return int(degrees[numbers][0])
            chosen = degrees if numbers is None else degrees[numbers]
            named = None if numbers is None else numbers.astype(shard.vertex_dtype)
            ids = shard.core.ids.column(num_vertices, frame_library(shard.core.backend, shard.core.frames), named)
            return make_frame(shard.core.backend, {"vertex": ids, "degree": chosen}, shard.core.frames)

    def gather(self, root: int = 0) -> DynamicGraph | None:
        """Bring the whole graph to one rank.

        Parameters
        ----------
        root : int
            The rank, the same on all.

        Returns
        -------
        DynamicGraph or None
            A new graph of the same options, ids, edges and version on the root; None elsewhere.
        """
        shard, backend = self.shard, self.shard.core.backend
        with Collective(self.comm, "gather") as call, MemoryChecked("gather"):
            if not 0 <= check_integer("gather", "root", root) < self.comm.size:
                raise InputError(f"gather: root is {root}; wanted 0 to {self.comm.size - 1}")
            call.expect_alike(root=int(root))
            src, dst, weights = shard.core.numbered_edges(once=False)
            send = [len(src) if rank == root else 0 for rank in range(self.comm.size)]
            given = [src, dst, *([] if weights is None else [weights])]
            came, _ = call.all_to_all(given, send)
            whole = None
            if self.comm.rank == root:
                order = backend.xp.lexsort(backend.xp.stack((came[1], came[0])))
                names = ("source", "destination", "weight")[: len(came)]
                columns = {name: column[order] for name, column in zip(names, came, strict=True)}
                columns |= shard.core.ids.columns(self.number_of_vertices())
                options = {name: self._options[name] for name in self._options if name not in ("partition", "capacity")}
                state = GraphState(options, self.number_of_vertices(), self.version, columns)
                whole = graph_of_state(DynamicGraph, state, self.device)
        return whole

    # ------------------------------------------------------------------ updates

    def insert_edges(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
    ) -> UpdateReport:
        """Insert the edges that all ranks pass, as one batch: those of rank 0 come first.

        If several ranks pass the same edge, the last row of the highest rank counts.

        Parameters
        ----------
        edges, source, destination, weight
            As for :meth:`DynamicGraph.insert_edges`: the rows of this rank.
        on_duplicate : {"replace", "add"}
            As for :meth:`DynamicGraph.insert_edges`, on all ranks the same.
        default_weight
            As for :meth:`DynamicGraph.insert_edges`.

        Returns
        -------
        UpdateReport
            What the update did to the whole graph.

        Raises
        ------
        InputError
            For bad input on any rank. The graph is unchanged on all.
        OutOfMemoryError
            If memory runs out on any rank. The graph is unchanged on all.
        RankError
            If a rank has raised something else, has ended, or does not come.
        """
        return self._exchange("insert_edges", edges, None, (source, destination, weight), default_weight, on_duplicate)

    def delete_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> UpdateReport:
        """Delete the edges that all ranks pass.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`DynamicGraph.delete_edges`: the rows of this rank.

        Returns
        -------
        UpdateReport
            What the update did to the whole graph.

        Raises
        ------
        InputError, OutOfMemoryError, RankError
            As :meth:`insert_edges`.
        """
        return self._exchange("delete_edges", None, edges, (source, destination, None), None, "replace")

    def update(
        self,
        insert: Any = None,
        delete: Any = None,
        *,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        default_weight: float | None = None,
        on_duplicate: OnDuplicate = "replace",
    ) -> UpdateReport:
        """Delete edges and insert others, as one version.

        Parameters
        ----------
        insert, delete : frame, tuple or list, optional
            The rows of this rank; see :meth:`DynamicGraph.update`.
        source, destination, weight, default_weight, on_duplicate
            See :meth:`insert_edges`.

        Returns
        -------
        UpdateReport
            What the update did to the whole graph.

        Raises
        ------
        InputError, OutOfMemoryError, RankError
            As :meth:`insert_edges`. If memory runs out on a rank where deleted edges have to come back, too, the parts
            of the graph differ, and the program of all ranks ends with a :class:`RankError`.
        """
        return self._exchange("update", insert, delete, (source, destination, weight), default_weight, on_duplicate)

    def insert_vertices(self, ids: Any) -> UpdateReport:
        """Add the vertices that all ranks pass and that do not exist yet, without edges.

        Parameters
        ----------
        ids : int, str, list, array, series or frame of one column
            As for :meth:`DynamicGraph.insert_vertices`: those of this rank.

        Returns
        -------
        UpdateReport
            All its counts are 0.
        """
        caller, shard, num_vertices = "insert_vertices", self.shard, self.number_of_vertices()
        with Collective(self.comm, caller) as call, MemoryChecked(caller):
            renumbering = shard.core.ids.plan_vertices(caller, ids, num_vertices)
            new = None if renumbering.new is None else host_ids(shard, renumbering.new)
            agreed = call.agree((renumbering.num_vertices, new))
            renumbering = RenumberingPlan(max(most for most, _ in agreed))
            if shard.is_renumbered():
                renumbering = shard.core.ids.plan_vertices(
                    caller, join_ids(caller, [new for _, new in agreed]), num_vertices
                )
            nothing = self._nothing()
            exchange(shard.core, caller, Exchange(nothing, nothing, renumbering, agree=call.agree_to_write))
        return UpdateReport()

    def _exchange(
        self,
        caller: str,
        insert: Any,
        delete: Any,
        names: Names,
        default_weight: float | None,
        on_duplicate: OnDuplicate,
    ) -> UpdateReport:
        shard = self.shard
        with Collective(self.comm, caller) as call, MemoryChecked(caller):
            check_name(caller, "on_duplicate", on_duplicate, ON_DUPLICATE)
            if default_weight is not None:
                default_weight = check_number(caller, "default_weight", default_weight)
            call.expect_alike(on_duplicate=on_duplicate)
            version = self.version
            parts = (
                read_rows(caller, shard, insert, names, True, default_weight),
                read_rows(caller, shard, delete, names, False),
            )
            renumbering = None
            if shard.is_renumbered():
                parts, renumbering = number_alike(call, shard, *parts)
            (insertions, deletions), num_rows, num_vertices = route_rows(
                call, shard, self._owners, self._directed, parts
            )
            renumbering = renumbering or RenumberingPlan(num_vertices)
            check_sums(shard.core, caller, insertions, on_duplicate)
            loops = [0] * 4 if self._directed else self._count_loops(insertions, deletions)
            agreed: list[Any] = []

            def vote(own: UpdateReport) -> None:
                agreed.extend(call.agree_to_write((tuple(own), loops)))

            try:
                exchange(shard.core, caller, Exchange(deletions, insertions, renumbering, on_duplicate, agree=vote))
            except BaseException as error:
                if self.version != version:  # deleted edges could not come back
                    self.comm.abort(f"{caller}: rank {self.comm.rank} raised {type(error).__name__}: {error}")
                raise
            return self._sum_up(agreed, num_rows)

    def _sum_up(self, agreed: list[Any], num_rows: int) -> UpdateReport:
        """Return the report of the whole graph for those of all ranks; ``num_rows``: of the two batches."""
        reports = [UpdateReport(*fields) for fields, _ in agreed]
        counts = np.sum([each[:4] for each in reports], axis=0).tolist()  # inserted, replaced, deleted, absent
        if not self._directed:
            loops = np.sum([loops for _, loops in agreed], axis=0).tolist()
            counts = [(count + extra) // 2 for count, extra in zip(counts, loops, strict=True)]
        inserted, replaced, deleted, absent = counts
        self._num_edges += inserted - deleted
        return UpdateReport(
            inserted,
            replaced,
            deleted,
            absent,
            num_rows - sum(counts),
            any(each.grown for each in reports),
            "merge" if any(each.path == "merge" for each in reports) else "in-place",
        )

    def _count_loops(self, insertions: EdgeColumns, deletions: EdgeColumns) -> list[int]:
        """Return how many self-loops will be inserted, replaced, deleted, and found absent: they are stored once."""
        xp = self.shard.core.backend.xp
        loops = [columns.src[columns.src == columns.dst] for columns in (insertions, deletions)]
        if not any(map(len, loops)):
            return [0] * 4
        new, old = map(xp.unique, loops)
        deleted = int(xp.count_nonzero(self.shard.core.has_numbers(old, old)))
        replaced = int(xp.count_nonzero(self.shard.core.has_numbers(new, new) & ~xp.isin(new, old)))
        return [len(new) - replaced, replaced, deleted, len(old) - deleted]

    def _nothing(self) -> EdgeColumns:
        nothing = self.shard.core.backend.nothing(self.shard.vertex_dtype)
        weights = self.shard.core.backend.nothing(self.shard.weight_dtype) if self.is_weighted() else None
        return EdgeColumns(nothing, nothing, weights, -1)


def _refuse(comm: Communicator, options: dict[str, Any]) -> None:
    """Refuse options that a sharded graph does not have."""
    for name in NOT_YET:
        if options.get(name):
            raise InputError(
                f"ShardedGraph: {name} is {options[name]!r}; a graph on several ranks does not support it yet"
            )
    device = options.get("device", comm.device)
    if device not in ("auto", comm.device):
        raise InputError(f"ShardedGraph: device is {device!r}, that of comm is {comm.device!r}; leave it out")
