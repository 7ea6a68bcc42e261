"""Rows of a stream as NumPy columns, whatever form they came in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.backend import get_backend
from dynstore.errors import DynstoreError, InputError, InputTypeError, unknown_name
from dynstore.ids.columns import StringKeys, read_keys
from dynstore.input.columns import STRINGS, read_column, read_weight
from dynstore.input.extra_columns import fit_times, read_values
from dynstore.input.forms import as_pandas, check_lengths, column_names, is_frame, open_edges, split_columns, take_rows
from dynstore.input.kinds import is_of
from dynstore.input.ops import OP_DELETE, read_ops
from dynstore.input.times import read_times
from dynstore.io import EventTable
from dynstore.io.text_values import TextBatch, TextColumn, decide_ids, decide_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynstore.distributed import ShardedGraph
    from dynstore.graph import DynamicGraph
    from dynstore.io.text_values import IdKind, TimeKind
    from dynstore.windows.window import Window

__all__ = [
    "CALLER",
    "ROLES",
    "RowReader",
    "StreamRows",
    "as_array",
    "joined",
    "keeps_times",
    "last_of_each_pair",
    "needs_times",
    "reads_weights",
    "refuse_known",
    "settled",
    "settled_by_id",
]

CALLER = "Stream"
ROLES = ("source", "destination", "weight", "time", "op", "edge_id")
MAX_INT64 = int(np.iinfo(np.int64).max)
INT64 = np.dtype(np.int64)


@dataclass(slots=True, frozen=True)
class StreamRows:
    """Columns of equal length.

    Attributes
    ----------
    src, dst : numpy.ndarray
        Ids, as they came.
    weights : numpy.ndarray or None
    times : numpy.ndarray or None
        int64 or float64; date-times are nanoseconds.
    deletes : numpy.ndarray of bool, or None
        Which rows delete; None: all insert.
    extra : tuple of numpy.ndarray
        The graph's extra columns.
    edge_ids : numpy.ndarray of int64, or None
        Ids of events, for a multigraph. Where a row deletes, its event is this one, and its other columns mean nothing.
    """

    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray | None = None
    times: np.ndarray | None = None
    deletes: np.ndarray | None = None
    extra: tuple[np.ndarray, ...] = ()
    edge_ids: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.src.shape[0])

    def __getitem__(self, rows: Any) -> StreamRows:
        """Return some rows: those of a slice, a mask or numbers."""
        weights, times, deletes, edge_ids = (
            None if column is None else column[rows]
            for column in (self.weights, self.times, self.deletes, self.edge_ids)
        )
        extra = tuple(column[rows] for column in self.extra)
        return StreamRows(self.src[rows], self.dst[rows], weights, times, deletes, extra, edge_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns; a text is counted as 64."""
        columns = (self.src, self.dst, self.weights, self.times, self.deletes, *self.extra, self.edge_ids)
        sizes = (column.nbytes * (1 if column.dtype != object else 9) for column in columns if column is not None)
        return int(sum(sizes))

    def edges(self, weighted: bool = True, extra: bool = True) -> tuple[np.ndarray, ...]:
        """Return what ``insert_edges`` takes, with weights and extra columns if the graph has them."""
        weights = (self.weights,) if weighted and self.weights is not None else ()
        return (self.src, self.dst, *weights, *(self.extra if extra else ()))


def joined(parts: Sequence[StreamRows]) -> StreamRows:
    """Return the rows of all parts; of which at least one is there. They have times if all parts have."""
    if len(parts) == 1:
        return parts[0]
    if any(part.deletes is not None for part in parts):
        parts = [
            replace(part, deletes=np.zeros(len(part), np.bool_)) if part.deletes is None else part for part in parts
        ]

    def column(name: str) -> Any:
        if any(getattr(part, name) is None for part in parts):
            return None
        return np.concatenate([getattr(part, name) for part in parts])

    extra = tuple(np.concatenate(columns) for columns in zip(*(part.extra for part in parts), strict=True))
    src, dst, weights, times, deletes, edge_ids = (
        column(name) for name in ("src", "dst", "weights", "times", "deletes", "edge_ids")
    )
    return StreamRows(src, dst, weights, times, deletes, extra, edge_ids)


class RowReader:
    """Reads what a source returns.

    Parameters
    ----------
    G : DynamicGraph
    columns : mapping, or None
        Role -> name of the column: "source", "destination", "weight", "time", "op", "edge_id". A column of a role that
        is not named is called like the role. Only source and destination must be there.
    weighted : bool
        Whether rows need weights.
    timed : bool
        Whether rows need times.
    ids : {"integer", "text"}, optional
        What ids are, where rows do not say it. By default as those of the graph, if it has vertices; else what the
        first rows of the source look like.
    transform : callable, optional
        Gets what the source has brought as a pandas frame, and returns the rows, in any form.
    """

    def __init__(
        self,
        G: DynamicGraph,
        columns: Mapping[str, str] | None,
        weighted: bool,
        timed: bool,
        ids: IdKind | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        columns = {} if columns is None else columns
        if not isinstance(columns, Mapping):
            raise InputTypeError(f"{CALLER}: columns is {columns!r}; wanted a dict such as {{'source': 'payer'}}")
        for role, name in columns.items():
            if role not in ROLES:
                raise unknown_name(CALLER, "role of a column", role, ROLES)
            if not isinstance(name, str):
                raise InputTypeError(f"{CALLER}: the column {role!r} is {name!r}; wanted its name, a string")
        self._named, self._names = set(columns), {role: columns.get(role, role) for role in ROLES}
        self._weighted, self._timed, self._transform = weighted, timed, transform
        self._last = ["time"] if keeps_times(G) else []  # the last column of a tuple
        self._dtypes = G.edge_dtypes
        self._extra = [name for name in self._dtypes if name not in self._last]
        self._keeps_events = G.is_multigraph()
        if not self._keeps_events and "edge_id" in self._named:
            raise InputError(
                f"{CALLER}: columns names 'edge_id', but edges have no ids; make the graph with multigraph=True"
            )
        self._keyed: bool | None = None  # whether rows have ids of events; None before the first
        if self._names["op"] in self._extra:
            raise InputError(
                f"{CALLER}: the graph has the edge column {self._names['op']!r}, which rows would have as operations, "
                "too; name another column of operations by columns={'op': ...}"
            )
        self._host = get_backend("cpu")
        # Rows are checked as the graph would check them, so that a bad one is known before its batch.
        self._vertex_dtype = np.dtype(np.int64) if G.is_renumbered() else G.vertex_dtype
        self._weight_dtype = G.weight_dtype
        self._time_dtype = self._dtypes[self._last[0]] if self._last else None
        self.dated: bool | None = None  # whether times are date-times; None before the first
        self._ids, self._exact, self._as_texts = ids, False, ids == "text"
        self._wanted = "ids are integers, as those before"
        if not G.is_renumbered():
            self._wanted = f"vertex ids are integers{STRINGS}"
            if ids == "text":
                raise InputError(
                    f'{CALLER}: ids is "text", and the graph has vertex numbers; make it with renumber=True'
                )
            self._ids = "integer"
        elif ids is None and G.number_of_vertices():
            self._ids = "text" if G.core.ids.kind == "string" else "integer"
        self._time: TimeKind | None = None  # of texts

    def need_times(self, dated: bool) -> bool:
        """Require times of this kind from here on; return False if others have come already, or are wanted."""
        if self.dated not in (None, dated):
            return False
        self._timed, self.dated = True, dated
        return True

    @contextmanager
    def unchanged_on_error(self) -> Iterator[None]:
        """Take back what the body has found out about the source, if it raises."""
        before = self.dated, self._ids, self._exact, self._time, self._keyed
        try:
            yield
        except BaseException:
            self.dated, self._ids, self._exact, self._time, self._keyed = before
            raise

    def wanted(self) -> tuple[set[str] | None, bool]:
        """Return the names of the columns that are read if they are there, and whether some were named.

        None for all: those that a function transforms.
        """
        if self._transform is not None:
            return None, False
        left_out = {"weight": not self._weighted, "edge_id": not self._keeps_events}
        roles = [role for role in ROLES if not left_out.get(role, False)]
        return {self._names[role] for role in roles} | set(self._extra), bool(self._named)

    def read(self, given: Any) -> StreamRows:
        """Return rows as columns on the host.

        Raises
        ------
        InputError
            If a column is missing, has nulls, or differs in length.
        """
        if self._transform is not None:
            given = self._transformed(given, self._transform)
        if isinstance(given, EventTable):
            return self._read_table(given.columns())
        if isinstance(given, Mapping):
            return self._read_table(given)
        edges = open_edges(CALLER, given, [*self._extra, *self._last])
        if isinstance(edges, tuple):
            return self._read_tuple(edges)
        if not is_frame(edges):
            split_columns(CALLER, edges, ("source", "destination", None))  # refuses it, and says what is wanted
        return self._read_table({name: edges[name] for name in column_names(edges) if isinstance(name, str)})

    def _transformed(self, given: Any, transform: Callable[[Any], Any]) -> Any:
        columns = given.columns() if isinstance(given, EventTable) else given
        if isinstance(columns, Mapping):
            columns = {name: _texts_of(column) for name, column in columns.items() if column is not None}
        frame = as_pandas(CALLER, columns, ROLES)
        if not len(frame.columns):
            return {}
        try:
            return transform(frame)
        except DynstoreError:
            raise
        except Exception as error:
            raise InputError(f"{CALLER}: transform raised {type(error).__name__}: {error}") from error

    def _read_tuple(self, edges: tuple[Any, ...]) -> StreamRows:
        others = [*self._extra, *self._last]
        count = len(edges) - len(others)
        if count not in (2, 3):
            more = "".join(f", {name}" for name in others)
            raise InputError(f"{CALLER}: a batch has {len(edges)} columns; wanted (src, dst[, weights]{more})")
        table = dict(zip(ROLES, edges[:count], strict=False)) | dict(zip(others, edges[count:], strict=True))
        return self._read_table(table, {role: role for role in ROLES})

    def _read_table(self, table: Mapping[str, Any], names: Mapping[str, str] | None = None) -> StreamRows:
        names = self._names if names is None else names
        if isinstance(table, TextBatch):
            self._decide(table.first, names)
            table = self._by_types(table, names)
        needed = [*ROLES[:2], *(["weight"] if self._weighted else []), *(["time"] if self._timed else [])]
        wanted = [names[role] for role in ROLES if role in needed or role in self._named] + self._extra
        present = [name for name, column in table.items() if column is not None]
        if not present:
            return self.nothing()
        ops = None if table.get(names["op"]) is None else _texts_of(table[names["op"]])
        deletes = None if ops is None else read_ops(CALLER, names["op"], ops) == OP_DELETE
        deletes = deletes if deletes is not None and deletes.any() else None
        edge_ids = None
        if self._keeps_events:
            edge_ids = self._read_edge_ids(names["edge_id"], table.get(names["edge_id"]), deletes)
        by_id = deletes is not None and edge_ids is not None  # what deletes names an event
        if deletes is not None and by_id and deletes.all():
            wanted = [name for name in wanted if name == names["time"] and self._timed]
        missing = [name for name in wanted if name not in present]
        if missing:
            roles = ", ".join(f"{role!r}: ..." for role in ROLES if names[role] in missing)
            them = "them" if len(missing) > 1 else "it"
            raise InputError(
                f"{CALLER}: columns not found: {', '.join(missing)}; the batch has {', '.join(present) or 'none'}"
                + (f". Name {them}: columns={{{roles}}}" if roles else "")
            )

        def column(role: str) -> Any:
            return table.get(names[role])

        kept = None if deletes is None else np.flatnonzero(~deletes)

        def values(column: Any, read: Callable[[Any], np.ndarray]) -> np.ndarray:
            """Rows that delete may have anything there, or nothing."""
            if deletes is None or kept is None:
                return read(_on_host(column))
            found = np.empty(0, np.int64)
            if len(kept):
                given = _on_host(column)
                found = read(given.take(kept) if isinstance(given, TextColumn) else take_rows((given,), kept)[0])
            filled = np.full(len(deletes), "" if found.dtype == object else 0, found.dtype)
            filled[kept] = found
            return filled

        readers = [partial(self._read_ids, names[role]) for role in ROLES[:2]]
        src, dst = column("source"), column("destination")
        if not by_id:
            src, dst = readers[0](src), readers[1](dst)
        times = None if column("time") is None else self._read_times(names["time"], column("time"))
        weights = column("weight") if self._weighted else None
        extra = {name: table.get(name) for name in self._extra}
        lengths = zip(ROLES, (src, dst, weights, times, ops, edge_ids), strict=True)
        there = {name: given for name, given in extra.items() if given is not None}
        check_lengths(CALLER, [(names[role], one) for role, one in lengths if one is not None], there)
        if by_id:
            src, dst = values(src, readers[0]), values(dst, readers[1])
        if self._weighted and (weights is not None or by_id):
            weights = values(weights, partial(self._read_weights, names["weight"]))
        columns = (values(given, partial(self._read_extra, name)) for name, given in extra.items())
        return StreamRows(src, dst, weights, times, deletes, tuple(columns), edge_ids)

    def _read_weights(self, name: str, given: Any) -> np.ndarray:
        if self._weight_dtype.kind in "iu":  # floats in between would round them
            return self._read_column(name, given, self._weight_dtype)
        given = given.numbers() if isinstance(given, TextColumn) else given
        found: np.ndarray = read_weight(CALLER, self._host, name, given, self._weight_dtype)
        return found

    def _read_extra(self, name: str, given: Any) -> np.ndarray:
        return self._read_column(name, given, self._dtypes[name])

    def _read_column(self, name: str, given: Any, dtype: np.dtype) -> np.ndarray:
        given = given.numbers() if isinstance(given, TextColumn) else given
        found: np.ndarray = read_values(CALLER, self._host, name, given, dtype)
        return found

    def _read_edge_ids(self, name: str, given: Any, deletes: np.ndarray | None) -> np.ndarray | None:
        """Read ids of events, which all rows have, or none."""
        if given is None and deletes is not None:
            raise InputError(
                f"{CALLER}: row {int(deletes.argmax())} deletes, and the batch has no column `{name}`; in a multigraph "
                "a pair may have several edges, so a deletion needs the edge's id. Name the column: "
                "columns={'edge_id': ...}"
            )
        if self._keyed is not None and self._keyed != (given is not None):
            got = "is missing" if given is None else "is there"
            before = "have" if self._keyed else "lack"
            raise InputError(f"{CALLER}: the column `{name}` {got}, and the batches before {before} it")
        self._keyed = given is not None
        return None if given is None else self._read_column(name, _on_host(given), INT64)

    def nothing(self) -> StreamRows:
        """Return no rows: a batch without columns has none."""
        nothing = np.empty(0, np.int64)
        times, edge_ids = (nothing if there else None for there in (self._timed, self._keyed))
        extra = (nothing,) * len(self._extra)
        return StreamRows(nothing, nothing, times=times, extra=extra, edge_ids=edge_ids)

    def _decide(self, first: TextBatch, names: Mapping[str, str]) -> None:
        """Find what ids and times are in the first rows of a text, unless it is known."""
        ends = [first[names[role]] for role in ROLES[:2] if names[role] in first]
        if self._ids is None and ends and len(ends[0]):
            self._ids, self._exact = decide_ids(ends), True
        if self._time is None and names["time"] in first and len(first[names["time"]]):
            self._time = decide_times(first[names["time"]])

    def _by_types(self, table: TextBatch, names: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the columns of a text, read by the types that are known."""
        kinds = dict.fromkeys((names["source"], names["destination"]), "dictionary" if self._ids == "text" else "int64")
        if self._weighted:
            kinds[names["weight"]] = "float64"
        if self._keeps_events:
            kinds[names["edge_id"]] = "int64"
        if self._time in ("integer", "float"):
            kinds[names["time"]] = "int64" if self._time == "integer" else "float64"
        wanted = {name: kind for name, kind in kinds.items() if name in table}
        return table.typed(wanted, self._exact and self._ids != "text")

    def _read_ids(self, name: str, column: Any) -> np.ndarray:
        """Read a column of ids: objects that are strings, or integers of a type that int64 can hold."""
        if isinstance(column, TextColumn):
            if self._ids == "text":
                column = column.texts()
            else:
                column = column.integers(self._wanted, 0, MAX_INT64 - 1, self._exact)
        elif self._as_texts and isinstance(column, list | tuple):  # of JSON
            column = [str(item) if type(item) is int else item for item in column]
        keys = read_keys(CALLER, self._host, name, _on_host(column))
        texts = isinstance(keys, StringKeys)
        if keys.shape[0]:
            if self._ids is not None and texts != (self._ids == "text"):
                got, before = ("strings", "integers") if texts else ("integers", "strings")
                raise InputTypeError(f"{CALLER}: `{name}` has {got}; wanted {before}, as the ids before")
            self._ids = "text" if texts else "integer"
        if isinstance(keys, StringKeys):
            return keys.all()
        ids: np.ndarray = read_column(CALLER, self._host, name, keys, self._vertex_dtype)[0]
        return ids

    def _read_times(self, name: str, column: Any) -> np.ndarray:
        if isinstance(column, TextColumn):
            column = column.times(self._time or "integer")
        times, dated = read_times(CALLER, self._host, name, _on_host(column))
        if len(times):
            if self.dated is not None and dated != self.dated:
                got, before = ("date-times", "numbers") if dated else ("numbers", "date-times")
                raise InputTypeError(f"{CALLER}: `{name}` has {got}; wanted {before}, as in the batches before")
            self.dated = dated
        if self._time_dtype is not None:
            fit_times(CALLER, self._host, name, times, dated, self._time_dtype)
        host: np.ndarray = times
        return host


def as_array(column: Any) -> np.ndarray:
    """Return a column on the host."""
    column = _on_host(column)
    if isinstance(column, np.ndarray):
        return column
    if type(column).__module__.startswith("cudf."):
        column = column.to_arrow()  # its own to_numpy refuses nulls
    if hasattr(column, "to_numpy"):  # pandas, polars, pyarrow
        return np.asarray(column.to_numpy(**({"zero_copy_only": False} if hasattr(column, "type") else {})))
    array = np.asarray(column)
    return array.astype(object) if array.dtype.kind == "U" else array


def _on_host(column: Any) -> Any:
    """Return CuPy's arrays as NumPy's, all else as it is."""
    return column.get() if is_of(column, "cupy") else column


def _texts_of(column: Any) -> Any:
    """Return a column of a text file as its strings, all else as it is."""
    return column.values() if isinstance(column, TextColumn) else column


def keeps_times(G: DynamicGraph | ShardedGraph) -> bool:
    """Whether a graph has a column of times; one on several ranks has none."""
    return getattr(G, "timestamps", None) is not None


def needs_times(G: DynamicGraph | ShardedGraph, window: Window | None) -> bool:
    """Whether a graph, or its window, needs the times of rows."""
    return keeps_times(G) or (window is not None and window.by == "time")


def reads_weights(G: DynamicGraph | ShardedGraph, window: Window | None) -> bool:
    """Whether a graph, or its window, reads the weights of rows."""
    return G.is_weighted() and (window is None or window.keep != "count")


def last_of_each_pair(rows: StreamRows, directed: bool) -> StreamRows:
    """Return the last row of each pair, in order of the rows."""
    _, last = np.unique(_pairs_of(rows, directed)[::-1], return_index=True)
    return rows[np.sort(len(rows) - 1 - last)]


def settled(rows: StreamRows, directed: bool) -> tuple[StreamRows, StreamRows]:
    """Return the rows to insert, and one row of each pair to delete before.

    So a batch of insertions and deletions has the effect that they would have one by one: an insertion counts if no
    deletion of its pair comes after it. All of these are kept, as an edge gets the greatest time of its rows.
    """
    _, pairs = np.unique(_pairs_of(rows, directed), return_inverse=True)
    assert rows.deletes is not None
    last = np.full(len(rows), -1)  # the row of each pair's last deletion
    deletions = np.flatnonzero(rows.deletes)
    last[pairs[deletions]] = deletions
    inserts = ~rows.deletes & (np.arange(len(rows)) > last[pairs])
    return rows[inserts], rows[np.sort(last[last >= 0])]


def refuse_known(edge_id: int) -> NoReturn:
    """Refuse an event that comes while it is there."""
    raise InputError(
        f"{CALLER}: edge_id has {edge_id}, which is there already; wanted a new id, or delete that edge before"
    )


def settled_by_id(rows: StreamRows) -> tuple[StreamRows, np.ndarray, np.ndarray]:
    """Settle insertions and deletions of single events, so that a batch has the effect of its rows one by one.

    Returns
    -------
    rows : StreamRows
        Those to insert: an insertion counts if no deletion of its id comes after it.
    gone : numpy.ndarray of int64
        The events to delete before, each once: those whose first row deletes.
    passing : numpy.ndarray of int64
        Ids that only come and go within the batch. The graph must not have them.

    Raises
    ------
    InputError
        For an event that comes while it is there.
    """
    assert rows.deletes is not None
    assert rows.edge_ids is not None
    ids, first, numbers = np.unique(rows.edge_ids, return_index=True, return_inverse=True)
    order = np.argsort(numbers, kind="stable")  # the rows of each id, one after another
    twice = (numbers[order[1:]] == numbers[order[:-1]]) & ~rows.deletes[order[1:]] & ~rows.deletes[order[:-1]]
    if twice.any():
        refuse_known(int(ids[numbers[order[1:]][twice.argmax()]]))
    deletions = np.flatnonzero(rows.deletes)
    last = np.full(len(ids), -1)  # the row of each id's last deletion
    last[numbers[deletions]] = deletions  # of several, the last one is written last
    stays = ~rows.deletes & (np.arange(len(rows)) > last[numbers])
    is_deleted_first = rows.deletes[first]
    comes = np.zeros(len(ids), np.bool_)
    comes[numbers[stays]] = True
    return rows[stays], ids[is_deleted_first], ids[~is_deleted_first & ~comes]


def _pairs_of(rows: StreamRows, directed: bool) -> np.ndarray:
    """Return a number for each row: rows of one pair have the same."""
    count = len(rows)
    _, numbers = np.unique(np.concatenate((rows.src, rows.dst)), return_inverse=True)
    src, dst = numbers[:count].astype(np.int64), numbers[count:].astype(np.int64)
    if not directed:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    pairs: np.ndarray = src * (2 * count) + dst
    return pairs
