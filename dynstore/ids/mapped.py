"""Vertices of any ids: an incremental map from the users' ids to the numbers 0 .. V-1 of the rows.

A new id gets the next number and keeps it; several new ones are numbered in ascending order. The first edges of an
empty graph are numbered by falling degree, as in cuGraph, whose kernels are fastest then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.batches.sorted import Batch, EdgeBatch, sort_unique
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.ids.base import Names, Rearrangement, RenumberingPlan, VertexIds, nothing
from dynstore.ids.columns import StringKeys, read_key_edges, read_keys
from dynstore.ids.string_table import DeviceStringTable
from dynstore.ids.strings import CodedStrings, DeviceStrings
from dynstore.ids.tables import IdTable, IntegerTable, Match, StringTable
from dynstore.input.columns import Bounds, EdgeColumns

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.columns import KeyColumns, Keys
    from dynstore.typing import Array

__all__ = ["MappedIds"]

INT64 = np.dtype(np.int64)


class MappedIds(VertexIds):
    """Integers or strings as ids; the first ids decide which.

    Parameters
    ----------
    backend : Backend
    dtype : numpy.dtype
        The dtype of the numbers.
    max_vertices : int or None
        The most ids allowed.
    reuse_ids : bool
        Whether a new id may take over the number of a deleted vertex, which then is no vertex any more.
    """

    renumbered = True

    def __init__(self, backend: Backend, dtype: np.dtype, max_vertices: int | None, reuse_ids: bool) -> None:
        super().__init__(backend, dtype, max_vertices)
        self.reuse_ids = reuse_ids
        self._table: IdTable | None = None
        # Which numbers belong to deleted vertices, bool, shape (V or less,); None if there are none.
        self._gone: Array | None = None

    @property
    def kind(self) -> str:
        return "integer" if self._table is None else self._table.kind

    # ------------------------------------------------------------------ updates

    def plan_edges(
        self, caller: str, edges: Any, names: Names, weight_dtype: np.dtype | None, num_vertices: int,
        validate: bool = True, bounds: Bounds | None = None,
    ) -> tuple[EdgeColumns, RenumberingPlan]:  # fmt: skip
        keys = read_key_edges(caller, self.backend, edges, names, weight_dtype)
        started = None if validate else self._start_match(keys)
        if started is not None:
            return started, RenumberingPlan(num_vertices)
        table, match = self._match(caller, keys.names, [keys.src, keys.dst], self.dtype)
        plan = self._plan(caller, table, match, num_vertices, arranging=True)
        return EdgeColumns(match.columns[0], match.columns[1], keys.weights, -1), plan

    def plan_vertices(self, caller: str, ids: Any, num_vertices: int) -> RenumberingPlan:
        table, match = self._match(caller, ["ids"], [read_keys(caller, self.backend, "ids", ids)], self.dtype)
        return self._plan(caller, table, match, num_vertices, arranging=False)

    def plan_deletion(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Callable[[], None]]:
        numbers, _ = self.find(caller, ids, num_vertices)
        numbers = numbers[numbers >= 0]
        gone = None
        if self.reuse_ids and (self._gone is not None or numbers.shape[0]):
            gone = self._flags(num_vertices)
            gone[numbers] = True

        def commit() -> None:
            self._gone = gone

        return numbers, commit

    def plan_forget(self, numbers: Array, num_vertices: int) -> Callable[[], None]:
        """Plan to delete vertices without edges by their numbers, at the end of an update that may bring new ids.

        ``num_vertices``: V afterwards.
        """
        gone = self.backend.zeros(num_vertices, np.bool_)

        def commit() -> None:
            if self._gone is not None:
                gone[: self._gone.shape[0]] = self._gone
            gone[numbers] = True
            self._gone = gone

        return commit

    def plan_clear(self) -> Callable[[], None]:
        def commit() -> None:
            self._table = self._gone = None
            self.epoch += 1

        return commit

    def plan_order(self, degrees: Array) -> Rearrangement:
        backend, xp, num_vertices = self.backend, self.backend.xp, int(degrees.shape[0])
        numbers = xp.arange(num_vertices, dtype=np.int64)
        table, order = self._table, numbers
        fresh: IdTable | None = None
        if table is not None:
            order = table.order(degrees)
            fresh = table.empty_twin()
            fresh.plan_write(table.take(table.held(), order), numbers, num_vertices, False)()
        ranks = backend.empty(num_vertices, self.dtype)
        ranks[order] = numbers
        gone = None if self._gone is None else self._flags(num_vertices)[order]
        classes = xp.frexp(degrees.astype(np.float64))[1]
        out_of_place = classes != classes[order]

        def commit() -> None:
            self._table, self._gone = fresh, gone
            self.epoch += 1

        return Rearrangement(
            ranks,
            float(xp.count_nonzero(out_of_place)) / max(num_vertices, 1),
            float(degrees[out_of_place].sum()) / max(float(degrees.sum()), 1.0),
            int(xp.count_nonzero(order != numbers)),
            commit,
        )

    def _plan(self, caller: str, table: IdTable, match: Match, num_vertices: int, arranging: bool) -> RenumberingPlan:
        """Give the new ids the next numbers; with ``arranging``, number the first ids by degree."""
        xp, columns, ids = self.backend.xp, match.columns, match.new
        count = int(ids.shape[0])
        if count == 0:
            return RenumberingPlan(num_vertices, self._revival(columns, num_vertices))
        free = self._free(columns, num_vertices, count)
        total = num_vertices + count - int(free.shape[0])
        self._check_limit(caller, count, total)
        numbers = xp.arange(num_vertices, total, dtype=np.int64)
        if free.shape[0]:
            numbers = xp.concatenate((free, numbers))
        match.number(numbers)
        plan = RenumberingPlan(total, new=ids, numbers=numbers)
        if arranging and num_vertices == 0:
            plan.arrange = lambda batch: self._arrange(table, ids, batch, plan)
            return plan
        write = table.plan_write(ids, numbers, total, bool(free.shape[0]))
        revive = self._revival([*columns, numbers], num_vertices)

        def commit() -> None:
            write()
            if revive is not None:
                revive()
            self._table = table

        plan.commit = commit
        return plan

    def _arrange(self, table: IdTable, ids: Any, batch: Batch, plan: RenumberingPlan) -> EdgeBatch:
        """Renumber the first batch by falling degree; before, a number is an id's place among the sorted ids."""
        backend, xp, count = self.backend, self.backend.xp, plan.num_vertices
        edges = batch.materialized()
        degrees = xp.bincount(edges.src, minlength=count) + xp.bincount(edges.dst, minlength=count)
        numbers = xp.arange(count, dtype=np.int64)
        order = xp.lexsort(xp.stack((numbers, -degrees)))
        ranks = backend.empty(count, self.dtype)
        ranks[order] = numbers
        write = table.plan_write(table.take(ids, order), numbers, count, False)

        def commit() -> None:
            write()
            self._table = table

        plan.commit, plan.ranks = commit, ranks
        columns = sort_unique(backend, ranks[edges.src], ranks[edges.dst], edges.weights)
        return EdgeBatch(*columns, edges.num_loops, edges.mirrored)

    def _free(self, columns: list[Array], num_vertices: int, wanted: int) -> Array:
        """Return at most ``wanted`` numbers of deleted vertices, ascending, without those that a column names."""
        xp = self.backend.xp
        if self._gone is None:
            return self.backend.nothing(np.int64)
        gone = self._flags(num_vertices)
        for column in columns:
            gone[column[column >= 0]] = False
        return xp.nonzero(gone)[0][:wanted]

    def _revival(self, columns: list[Array], num_vertices: int) -> Callable[[], None] | None:
        """Plan to restore deleted vertices that are named again; None if none are deleted."""
        if self._gone is None:
            return None
        gone = self._flags(num_vertices)
        for column in columns:
            gone[column[column < num_vertices]] = False
        left = gone if bool(gone.any()) else None

        def commit() -> None:
            self._gone = left

        return commit

    def _flags(self, num_vertices: int) -> Array:
        flags = self.backend.zeros(num_vertices, np.bool_)
        if self._gone is not None:
            flags[: self._gone.shape[0]] = self._gone
        return flags

    def _check_limit(self, caller: str, new: int, total: int) -> None:
        limit = int(np.iinfo(self.dtype).max)
        if self.max_vertices is not None:
            limit = min(limit, self.max_vertices)
        if total > limit:
            raise LimitError(
                f"{caller}: {new} new ids would make {total} vertices; "
                f"max_vertices is {limit}, set it higher to allow that"
            )

    # ------------------------------------------------------------------ queries

    def find_edges(
        self,
        caller: str,
        edges: Any,
        names: Names,
        weight_dtype: np.dtype | None,
        num_vertices: int,
        validate: bool = True,
    ) -> EdgeColumns:
        keys = read_key_edges(caller, self.backend, edges, names, weight_dtype)
        started = None if validate else self._start_match(keys)
        return self._matched(caller, keys, num_vertices)[0] if started is None else started

    def match_edges(
        self, caller: str, edges: Any, names: Names, weight_dtype: np.dtype | None, num_vertices: int
    ) -> tuple[EdgeColumns, Any]:
        keys = read_key_edges(caller, self.backend, edges, names, weight_dtype)
        return self._matched(caller, keys, num_vertices)

    def _matched(self, caller: str, keys: KeyColumns, num_vertices: int) -> tuple[EdgeColumns, Any]:
        """Return edges as numbers, and the ids that are no vertices, which get numbers from V on."""
        _, match = self._match(caller, keys.names, [keys.src, keys.dst], self.dtype)
        if match.new.shape[0]:
            xp = self.backend.xp
            strangers = xp.arange(num_vertices, num_vertices + match.new.shape[0], dtype=np.int64)
            match.number(xp.minimum(strangers, np.iinfo(self.dtype).max))
        return EdgeColumns(match.columns[0], match.columns[1], keys.weights, -1), match.new

    def find(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Any]:
        _, match = self._match(caller, ["ids"], [read_keys(caller, self.backend, "ids", ids)], INT64)
        if not match.new.shape[0]:
            return match.columns[0], None
        stranger = match.new[0]
        return match.columns[0], stranger if isinstance(stranger, str) else int(stranger)

    def find_planned(
        self, caller: str, columns: Sequence[tuple[str, Any]], num_vertices: int, plan: RenumberingPlan
    ) -> list[Array]:
        xp, names = self.backend.xp, [name for name, _ in columns]
        keys = [read_keys(caller, self.backend, *column) for column in columns]
        if self._table is None and plan.new is not None:
            _check_kind(caller, names, keys, _kind_of_ids(plan.new))
        _, match = self._match(caller, names, keys, INT64)
        strangers = plan.num_vertices + xp.arange(match.new.shape[0], dtype=np.int64)
        found = match.columns
        if plan.new is not None and plan.numbers is not None:
            taken = plan.numbers[plan.numbers < num_vertices]
            if taken.shape[0]:
                gone = self.backend.zeros(num_vertices, np.bool_)
                gone[taken] = True
                behind = plan.num_vertices + strangers.shape[0]
                found = [xp.where((part >= 0) & gone[part], behind + part, part) for part in found]
            if match.new.shape[0]:
                places = self._places(plan.new, match.new)
                strangers = xp.where(places >= 0, plan.numbers[places], strangers)
        for part, other in zip(match.columns, found, strict=True):
            part[...] = other
        if match.new.shape[0]:
            match.number(strangers)
        return match.columns

    def _places(self, ids: Any, wanted: Any) -> Array:
        """Return the place of each wanted id among others, -1 where it is none of them; int64."""
        if _kind_of_ids(ids) == "integer":
            xp = self.backend.xp
            places = xp.minimum(xp.searchsorted(ids, wanted), ids.shape[0] - 1)
            return xp.where(ids[places] == wanted, places, -1)
        import pandas

        places = pandas.Index(_on_host(ids), dtype=object).get_indexer(_on_host(wanted))
        return self.backend.asarray(places.astype(np.int64))

    def planned_column(self, numbers: Array, num_vertices: int, plan: RenumberingPlan, library: str) -> Any:
        if plan.new is None:
            return self.column(num_vertices, library, numbers)
        return self._planned_ids(numbers, plan)

    def planned_order(self, numbers: Array, num_vertices: int, plan: RenumberingPlan) -> Array:
        if plan.new is None:
            return self.by_id(numbers, num_vertices)
        return numbers[self.backend.asarray(self._planned_ids(numbers, plan).argsort())]

    def _planned_ids(self, numbers: Array, plan: RenumberingPlan) -> Array:
        """Return ids of numbers under a plan with new ids; strings are on the host."""
        places = self.backend.empty(plan.num_vertices, np.int64)
        places.fill(-1)
        places[plan.numbers] = self.backend.xp.arange(plan.new.shape[0])
        places = places[numbers]
        fresh, old = places >= 0, self.of(self.backend.xp.where(places >= 0, -1, numbers), 0)
        if _kind_of_ids(plan.new) == "integer":
            ids = self.backend.empty(numbers.shape[0], np.int64)
            ids[fresh] = plan.new[places[fresh]]
        else:
            fresh = self.backend.to_host(fresh)
            ids = np.empty(numbers.shape[0], dtype=object)
            ids[fresh] = _on_host(plan.new)[self.backend.to_host(places)[fresh]]
        if self._table is not None:
            ids[~fresh] = old[~fresh]
        return ids

    def of(self, numbers: Array, num_vertices: int) -> Array:
        if self._table is None:
            return self.backend.empty(0, np.int64)
        return self._table.of(numbers, bool((numbers < 0).any()))

    def holds(self, vertex: int | str, num_vertices: int) -> bool:
        try:
            return self.find("", vertex, num_vertices)[1] is None
        except InputError:
            return False

    def column(self, num_vertices: int, library: str, numbers: Array | None = None) -> Any:
        return self.backend.empty(0, np.int64) if self._table is None else self._table.column(library, numbers)

    def ends(
        self, src: Array, dst: Array, num_vertices: int, once: bool, library: str | None = None
    ) -> tuple[Any, Any]:
        table = self._table
        if not isinstance(table, DeviceStringTable) or library is None or not table.gives_columns(library):
            return super().ends(src, dst, num_vertices, once, library)
        if once:
            src, dst = table.in_order(src, dst)
        return table.column(library, src), table.column(library, dst)

    def by_id(self, numbers: Array, num_vertices: int) -> Array:
        if isinstance(self._table, DeviceStringTable):
            return self._table.by_id(numbers)
        return super().by_id(numbers, num_vertices)

    def all(self, num_vertices: int) -> Array:
        return self.backend.empty(0, np.int64) if self._table is None else self._table.all().copy()

    def memory_usage(self) -> dict[str, int]:
        size = 0 if self._table is None else self._table.memory_usage()
        return {"vertex_map": size + (0 if self._gone is None else int(self._gone.nbytes))}

    def columns(self, num_vertices: int, kept: Array | None = None) -> dict[str, Array]:
        table, gone = self._table, None if self._gone is None else self._flags(num_vertices)
        if table is None:
            return {}
        ids = table.all().copy()
        if kept is not None:
            ids, gone = table.take(ids, kept), None if gone is None else gone[kept]
        return {"id": ids} if gone is None or not bool(gone.any()) else {"id": ids, "deleted": gone}

    def plan_columns(self, columns: Mapping[str, Array]) -> Callable[[], None]:
        ids = columns.get("id")
        if ids is None or not ids.shape[0]:
            return nothing
        count = int(ids.shape[0])
        table = _make_table(self.backend, "string" if ids.dtype == object else "integer")
        write = table.plan_write(ids, self.backend.xp.arange(count, dtype=np.int64), count, False)

        def commit() -> None:
            write()
            self._table, self._gone = table, columns.get("deleted")

        return commit

    def copy(self) -> VertexIds:
        twin = MappedIds(self.backend, self.dtype, self.max_vertices, self.reuse_ids)
        twin._table = None if self._table is None else self._table.copy()
        twin._gone, twin.epoch = self._gone, self.epoch  # flags are replaced, never written
        return twin

    def _start_match(self, keys: KeyColumns) -> EdgeColumns | None:
        """Return edges as numbers that a kernel is still writing, -1 for unknown ids; None if the host has to wait."""
        usual = self._gone is None and self.dtype == np.int32
        table = self._table
        if table is None or not usual or not keys.src.shape[0] or not table.kind == _kind(keys.src) == _kind(keys.dst):
            return None
        columns = table.start_match(keys.src, keys.dst, self.dtype)
        return None if columns is None else EdgeColumns(columns[0], columns[1], keys.weights, None)

    def _match(self, caller: str, names: Sequence[str], parts: list[Keys], dtype: np.dtype) -> tuple[IdTable, Match]:
        """Look columns up in the table, which is made for the kind of the first ids; refuse ids of the other kind."""
        first = next((_kind(keys) for keys in parts if keys.shape[0]), "integer")
        table = self._table or _make_table(self.backend, first)
        _check_kind(caller, names, parts, table.kind)
        parts = [keys if keys.shape[0] else table.no_keys() for keys in parts]
        return table, table.match(caller, names, parts, dtype)


def _kind(keys: Keys) -> str:
    """Return the kind of a column of ids."""
    return "string" if isinstance(keys, StringKeys | DeviceStrings | CodedStrings) else "integer"


def _kind_of_ids(ids: Any) -> str:
    """Return the kind of ids in the form in which tables keep them."""
    return "string" if isinstance(ids, DeviceStrings) or ids.dtype == object else "integer"


def _on_host(ids: Any) -> np.ndarray:
    """Return strings in the form in which tables keep them as an array on the host."""
    return ids.to_host() if isinstance(ids, DeviceStrings) else ids


def _check_kind(caller: str, names: Sequence[str], parts: list[Keys], wanted: str) -> None:
    """Refuse columns of another kind of ids than the graph's."""
    for name, keys in zip(names, parts, strict=True):
        if keys.shape[0] and _kind(keys) != wanted:
            raise InputTypeError(f"{caller}: `{name}` has {_kind(keys)}s; this graph's vertices are {wanted}s")


def _make_table(backend: Backend, kind: str) -> IdTable:
    """Make an empty table of "integer" or "string" ids."""
    if kind == "integer":
        return IntegerTable(backend)
    return DeviceStringTable(backend) if backend.family == "cuda" else StringTable(backend)
