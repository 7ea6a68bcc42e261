"""The graph of pairs of a graph of events: one edge a pair, whose weight is an aggregate of its events' weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dynstore.arguments import check_name
from dynstore.errors import InputError
from dynstore.graph.core import GraphCore
from dynstore.graph.delta import Change, Unread
from dynstore.graph.events.aggregates import AGGREGATES, FLOAT64, of_records, of_rows
from dynstore.graph.events.layout import COUNT, STATE
from dynstore.graph.records import WEIGHT
from dynstore.graph.versions.view import GraphView
from dynstore.interrupts import MemoryChecked
from dynstore.lookup import provided
from dynstore.snapshot import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.batches.sorted import EdgeBatch
    from dynstore.graph.events.core import MultiCore
    from dynstore.graph.events.layout import Touched
    from dynstore.graph.local import LocalGraph
    from dynstore.stores.base import Store
    from dynstore.typing import Array

__all__ = ["SimpleCore", "SimpleGraph", "check_aggregate", "simple_graph"]


def check_aggregate(core: MultiCore, aggregate: Any) -> str:
    """Return the name of an aggregate, by default "sum", or "count" where events have no weights."""
    if aggregate is None:
        return "sum" if core.weighted else "count"
    check_name("simple", "aggregate", aggregate, AGGREGATES)
    if aggregate != "count" and not core.weighted:
        raise InputError(f"simple: aggregate={aggregate!r} needs weights; make the graph with weighted=True")
    return str(aggregate)


class SimpleCore(GraphCore):
    """The core of a graph of pairs: the store of a core that shows events, under weights of its own.

    Parameters
    ----------
    core : MultiCore
    name : str or None
        The aggregate. None: the graph of pairs has no weights.
    """

    def __init__(self, core: MultiCore, name: str | None) -> None:
        self.multi, self.name = core, name
        self.backend, self.ids, self.directed, self.frames = core.backend, core.ids, core.directed, core.frames
        self.vertex_dtype, self.store_name, self.store_options = core.vertex_dtype, core.store_name, core.store_options
        self.memory_option, self.spills = core.memory_option, core.spills
        self.stored_weights = self.records = None
        self.in_seconds, self.expects_new_ids, self.ignored_weights = 0.0, False, False
        self.begin_alone(core.lease.version)
        self.lock, self.lease = core.lock, core.lease
        self._counted: tuple[Lease, int] | None = None
        self.weighted = name is not None
        self.aggregate = None if name is None else core.aggregate(name)
        self.weight_dtype = core.weight_dtype if self.aggregate is None else self.aggregate.dtype

    @property
    def out(self) -> Store:  # type: ignore[override]
        return self.multi.out

    @property
    def into(self) -> Store | None:  # type: ignore[override]
        return self.multi.into

    @property
    def num_edges(self) -> int:  # type: ignore[override]
        """The number of pairs, undirected ones once."""
        out = self.out
        if self.directed:
            return out.num_edges
        if self._counted is None or self._counted[0] is not self.lease:
            once = self.snapshot().mask() & (out.slots.src <= out.slots.dst)
            self._counted = self.lease, int(self.backend.xp.count_nonzero(once))
        return self._counted[1]

    def oriented(self, transposed: bool) -> Store:
        return self.multi.oriented(transposed)

    def drop_in_edges(self) -> bool:
        return self.multi.drop_in_edges()

    def store_of(self, batch: EdgeBatch) -> Store:
        return self.multi.store_of(batch)

    def options(self) -> dict[str, Any]:
        return {**super().options(), "weight_dtype": str(self.weight_dtype)}

    def values_of(self, stored: Array | None) -> dict[str, Array]:
        weights = self.weights_of(stored)
        return {} if weights is None else {WEIGHT: weights}

    def weights_of(self, stored: Array | None) -> Array | None:
        return None if self.aggregate is None or stored is None else self.aggregate.weights(stored)

    def _weights_for_view(self, stored: Array | None) -> Any:
        return None if self.aggregate is None else partial(self.aggregate.weights, stored)

    # ------------------------------------------------------------------ as the events change

    def plan_update(self, touched: list[tuple[Touched, bool]], anew: bool) -> Callable[[], None]:
        """Plan the next version, for an update that has written to records; return the commit.

        Parameters
        ----------
        touched : list
            The records before, and whether events came to them; those that events left come first.
        anew : bool
            Whether vertices get other numbers, which is a change of everything.
        """
        changes = None if anew else [self._change(records, inserting) for records, inserting in touched]
        values, name = None, self.name
        if self.aggregate is not None and self.aggregate.values is not None and touched:
            assert name is not None
            values = self._remade(name, [records.numbers for records, _ in touched])

        def commit() -> None:
            if values is not None:
                assert self.aggregate is not None
                self.aggregate.values = values
            self.begin_version(changes)

        return commit

    def begin_version(self, changes: list[Change | Unread] | None) -> None:
        """Begin the version that the events have now; None for a change of everything."""
        self.lease.ended_by = self.lease.version + 1
        self.lease, self.views = Lease(self.lease.ended_by), {}
        for change in [None] if changes is None else changes:
            self.record_change(change)

    def _change(self, touched: Touched, inserting: bool) -> Change | Unread:
        """Return the state of the pairs of touched records before."""
        num_edges = int(touched.numbers.shape[0]) << (not self.directed)
        if not self.logs or not self.logs_that_want(num_edges):
            return Unread(num_edges, inserting)
        src, dst = self.multi.pairs.ends(touched.numbers)
        before, weights = touched.before[:, STATE] & COUNT != 0, None
        if self.aggregate is not None:
            of_now = self.aggregate.values is None
            old = of_records(self.aggregate.name, touched.before) if of_now else self._old(touched.numbers)
            weights = self.backend.xp.where(before, old, 0.0).astype(self.weight_dtype)
        return Change(src, dst, before, weights, inserting, False, not self.directed)

    def _old(self, numbers: Array) -> Array:
        assert self.aggregate is not None
        assert self.aggregate.values is not None
        values = self.aggregate.values
        return self.backend.xp.where(numbers < values.shape[0], values[numbers.clip(0, values.shape[0] - 1)], 0.0)

    def _remade(self, name: str, parts: list[Array]) -> Array:
        """Return the values by record, those of some records made anew."""
        assert self.aggregate is not None
        assert self.aggregate.values is not None
        xp, pairs, old = self.backend.xp, self.multi.pairs, self.aggregate.values
        numbers = xp.unique(xp.concatenate(parts))
        size = max(pairs.used, int(numbers.max()) + 1 if numbers.shape[0] else 0)
        values = self.backend.zeros(size, FLOAT64)
        values[: old.shape[0]] = old[:size]
        rows = self.multi.rows_of_records(numbers)
        values[numbers] = of_rows(self.backend, self.multi.columns, name, rows, size)[numbers]
        return values


class SimpleGraph(GraphView):
    """The graph of pairs of a multigraph, one edge a pair; :meth:`DynamicGraph.simple` returns it.

    It follows its graph, and takes :meth:`track`. Only its graph changes it.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(multigraph=True, weighted=True, device="cpu")
    >>> _ = G.insert_edges(([0, 0, 1], [1, 1, 2], [2.5, 1.5, 1.0]))
    >>> S = G.simple("sum")
    >>> S.edge_table()
       source  destination  weight
    0       0            1     4.0
    1       1            2     1.0
    >>> _ = G.delete_edges([(0, 1)], which="oldest")
    >>> S.edge_weights([(0, 1)]).tolist()
    [1.5]
    """

    def track(self, name: str, **params: Any) -> Any:
        """Keep an answer up to date with the graph; see :meth:`DynamicGraph.track`.

        Parameters
        ----------
        name : str
        **params

        Returns
        -------
        dynstore.algorithms.Monitor
        """
        return provided("tracking").track(self, name, **params)


def simple_graph(graph: LocalGraph, name: str | None) -> SimpleGraph:
    """Return the graph of pairs of a graph of events, or of a view of one; None: without weights.

    There is one for each aggregate as long as somebody holds it.
    """
    core: Any = graph.core
    held: SimpleGraph | None = core.simple.get(name)
    if held is None:
        with core.lock:
            held = core.simple.get(name)
            if held is None:
                with MemoryChecked("simple"):
                    held = SimpleGraph(SimpleCore(core, name), getattr(graph, "_graph_type", type(graph)))
                core.simple[name] = held
    return held
