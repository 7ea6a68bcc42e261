"""Rows of a stream as NumPy columns, whatever form they came in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    "settled",
]

CALLER = "Stream"
ROLES = ("source", "destination", "weight", "time", "op")
MAX_INT64 = int(np.iinfo(np.int64).max)


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
    """

    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray | None = None
    times: np.ndarray | None = None
    deletes: np.ndarray | None = None
    extra: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return int(self.src.shape[0])

    def __getitem__(self, rows: Any) -> StreamRows:
        """Return some rows: those of a slice, a mask or numbers."""
        weights, times, deletes = (
            None if column is None else column[rows] for column in (self.weights, self.times, self.deletes)
        )
        extra = tuple(column[rows] for column in self.extra)
        return StreamRows(self.src[rows], self.dst[rows], weights, times, deletes, extra)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns; a text is counted as 64."""
        columns = (self.src, self.dst, self.weights, self.times, self.deletes, *self.extra)
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
    return StreamRows(column("src"), column("dst"), column("weights"), column("times"), column("deletes"), extra)


class RowReader:
    """Reads what a source returns.

    Parameters
    ----------
    G : DynamicGraph
    columns : mapping, or None
        Role -> name of the column: "source", "destination", "weight", "time", "op". A column of a role that is not
        named is called like the role. Only source and destination must be there.
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
        before = self.dated, self._ids, self._exact, self._time
        try:
            yield
        except BaseException:
            self.dated, self._ids, self._exact, self._time = before
            raise

    def wanted(self) -> tuple[set[str] | None, bool]:
        """Return the names of the columns that are read if they are there, and whether some were named.

        None for all: those that a function transforms.
        """
        if self._transform is not None:
            return None, False
        roles = [role for role in ROLES if role != "weight" or self._weighted]
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

        src, dst = (self._read_ids(names[role], column(role)) for role in ROLES[:2])
        ops = None if column("op") is None else _texts_of(column("op"))
        times = None if column("time") is None else self._read_times(names["time"], column("time"))
        weights = column("weight") if self._weighted else None
        extra = {name: table[name] for name in self._extra}
        read = zip(ROLES, (src, dst, weights, times, ops), strict=True)
        check_lengths(CALLER, [(names[role], one) for role, one in read if one is not None], extra)
        deletes = None if ops is None else read_ops(CALLER, names["op"], ops) == OP_DELETE
        deletes = deletes if deletes is not None and deletes.any() else None

        def values(name: str, column: Any, dtype: np.dtype | None) -> np.ndarray:
            """Rows that delete may have anything there."""
            given = _on_host(column)
            if deletes is not None:
                kept = np.flatnonzero(~deletes)
                given = given.take(kept) if isinstance(given, TextColumn) else take_rows((given,), kept)[0]
            if isinstance(given, TextColumn):
                given = given.numbers()
            read = read_weight if dtype is None else read_values
            found: np.ndarray = read(CALLER, self._host, name, given, dtype or self._weight_dtype)
            if deletes is None:
                return found
            filled = np.zeros(len(src), found.dtype)
            filled[~deletes] = found
            return filled

        weights = None if weights is None else values(names["weight"], weights, None)
        columns = (values(name, given, self._dtypes[name]) for name, given in extra.items())
        return StreamRows(src, dst, weights, times, deletes, tuple(columns))

    def nothing(self) -> StreamRows:
        """Return no rows: a batch without columns has none."""
        nothing = np.empty(0, np.int64)
        return StreamRows(nothing, nothing, times=nothing if self._timed else None, extra=(nothing,) * len(self._extra))

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


def _pairs_of(rows: StreamRows, directed: bool) -> np.ndarray:
    """Return a number for each row: rows of one pair have the same."""
    count = len(rows)
    _, numbers = np.unique(np.concatenate((rows.src, rows.dst)), return_inverse=True)
    src, dst = numbers[:count].astype(np.int64), numbers[count:].astype(np.int64)
    if not directed:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    pairs: np.ndarray = src * (2 * count) + dst
    return pairs
