"""The forms in which edges come: frames, Arrow streams, tuples of columns, and lists of pairs or triples.

Nothing is imported to recognise a type: an object can only be a polars frame if polars is loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.input.arrow_memory import check_memory
from dynstore.input.converting import pick_rows
from dynstore.input.kinds import on_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynstore.backend import Backend

__all__ = [
    "GAPS_MARK",
    "NAME_TIMES",
    "as_pandas",
    "bring_columns",
    "brings_weights",
    "check_form",
    "check_labels",
    "check_lengths",
    "check_names",
    "column_names",
    "find_weight",
    "is_frame",
    "length_of",
    "on_gpu",
    "open_edges",
    "split_columns",
    "take_rows",
    "without_gaps",
]

FRAMES = (("pandas", "DataFrame"), ("cudf", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))
# Marks a table of to_cudf (in attrs) or to_arrow (in the schema's metadata) whose null rows are gaps.
GAPS_MARK = "dynstore.gaps"
# The column of weights of a frame where none is named.
WEIGHT = "weight"
# What frames from elsewhere often call their columns.
USUAL_NAMES = (("src", "dst"), ("from", "to"), ("u", "v"), ("start", "end"))
FORMS = (
    "a pandas, pyarrow, polars or cuDF frame, columns as a tuple (src, dst[, weights]) of arrays or lists, "
    "or a list of tuples (src, dst[, weight])"
)


def open_edges(caller: str, edges: Any, extra: Sequence[str] = ()) -> Any:
    """Return edges as a frame or a tuple of columns, which may be read twice.

    A list or tuple of pairs or triples, each with the ``extra`` items behind, becomes a tuple of columns. An Arrow
    stream, which may be readable only once, becomes a pyarrow table. All else is returned as it is, even if it is no
    edges; :func:`split_columns` refuses it.

    Raises
    ------
    InputError
        For rows that are not all pairs or all triples, for tuples that can be read as rows and as columns, and for
        streams that break off.
    """
    kind = type(edges)
    if kind is tuple and edges and type(edges[0]) is not tuple:
        return edges
    if isinstance(edges, list | tuple):
        return _open_rows(caller, edges, extra)
    if not hasattr(edges, "__arrow_c_stream__") or is_frame(edges):
        return edges
    import pyarrow

    if isinstance(edges, pyarrow.RecordBatch):  # the protocol forgets how long buffers are
        return pyarrow.Table.from_batches([edges])
    reader = edges
    if not isinstance(edges, pyarrow.RecordBatchReader):
        try:
            reader = pyarrow.RecordBatchReader.from_stream(edges)
        except (pyarrow.ArrowInvalid, TypeError):  # a stream of single columns, such as a series
            return edges
    try:
        return reader.read_all()
    except pyarrow.ArrowInvalid as error:  # batches that do not fit together; what else the producer raises is its own
        raise InputError(f"{caller}: edges, a {type_name(edges)}, cannot be read: {error}") from error


def _open_rows(caller: str, rows: list[Any] | tuple[Any, ...], extra: Sequence[str]) -> Any:
    """Return pairs or triples, perhaps longer ones, as columns; return a tuple of columns as it is."""
    if not rows:
        return ([], []) if isinstance(rows, list) else rows
    if not isinstance(rows[0], tuple):
        if isinstance(rows, list) and isinstance(rows[0], list):
            raise InputTypeError(
                f"{caller}: edges is a list of lists; write [(0, 1), (2, 3)] for pairs, ([0, 2], [1, 3]) for columns"
            )
        return rows
    width, num_extra = len(rows[0]), len(extra)
    for place, row in enumerate(rows):
        if not isinstance(row, tuple) or len(row) != width or width - num_extra not in (2, 3):
            got = f"{len(row)} items" if isinstance(row, tuple) else f"a {type_name(row)}"
            wanted = "all pairs (src, dst) or all triples (src, dst, weight)"
            if num_extra:
                wanted = f"rows (src, dst[, weight], {', '.join(extra)}), all of one length"
            raise InputTypeError(
                f"{caller}: edges has {got} at row {place}; wanted {wanted}. "
                "Columns are arrays or lists: ([0, 2], [1, 3])"
            )
    if isinstance(rows, tuple) and len(rows) == width:
        example = "[(0, 1), (2, 3)]" if width == 2 else "[(0, 1, 0.5), ...]"
        raise InputError(
            f"{caller}: a tuple of {width} tuples of {width} items could be rows or columns; write a list for rows, "
            f"such as {example}, and lists or arrays for columns, such as ([0, 2], [1, 3])"
        )
    return tuple([row[item] for row in rows] for item in range(width))


def find_weight(edges: Any, names: tuple[str, str, str | None]) -> str | None:
    """Return the name of the column of weights: the given one, or "weight" if the frame has it for no other use."""
    if names[2] is not None or type(edges) is tuple:
        return names[2]
    return WEIGHT if WEIGHT not in names and WEIGHT in column_names(edges) else None


def brings_weights(edges: Any, weight: str | None, num_extra: int = 0) -> bool:
    """Return whether edges have weights: a third column of a tuple, extra ones not counted, or a column's name."""
    return weight is not None or (isinstance(edges, tuple) and len(edges) == 3 + num_extra)


def column_names(edges: Any) -> list[Any]:
    """Return the names of a frame's columns, as they are; none for all else."""
    if not is_frame(edges):
        return []
    return list(edges.column_names if hasattr(edges, "column_names") else edges.columns)


def is_frame(edges: Any) -> bool:
    """Return whether an object is a frame or table of a library that dynstore reads."""
    for module, name in FRAMES:
        # While another thread imports the library, its module is there, but perhaps not yet the class.
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(edges, kind):
            return True
    return False


def split_columns(caller: str, edges: Any, names: tuple[str, str, str | None]) -> list[tuple[str, Any]]:
    """Return the columns of edges by name, each as it came; refuse what is no edges."""
    check_names(caller, names)
    edges = open_edges(caller, edges)
    if isinstance(edges, tuple):
        if len(edges) not in (2, 3):
            raise InputError(
                f"{caller}: a tuple of edges has {len(edges)} items; wanted (src, dst) or (src, dst, weights)"
            )
        if names[2] is not None:
            raise InputError(
                f"{caller}: weight={names[2]!r} names a column, but edges is a tuple; pass (src, dst, weights)"
            )
        columns = [("src", edges[0]), ("dst", edges[1])]
        return columns if len(edges) == 2 else [*columns, ("weights", edges[2])]
    check_form(caller, edges)
    wanted = [name for name in names if name is not None]
    check_labels(caller, column_names(edges), wanted)
    edges = without_gaps(caller, edges, wanted)
    columns = [(name, edges[name]) for name in wanted]
    for name, column in columns:
        check_memory(caller, name, column)
    return columns


def check_form(caller: str, edges: Any) -> None:
    """Refuse what :func:`open_edges` has returned if it is neither a frame nor a tuple."""
    if not isinstance(edges, tuple) and not is_frame(edges):
        raise InputTypeError(f"{caller}: edges is a {type_name(edges)}; wanted {FORMS}{_form_hint(edges)}")


def check_lengths(caller: str, columns: list[tuple[str, Any]], extra: Mapping[str, Any] | None = None) -> None:
    """Refuse columns of different lengths: those of :func:`split_columns`, and the extra ones."""
    (first, column), *others = columns
    count = length_of(caller, first, column)
    for name, other in others:
        length = length_of(caller, name, other)
        if length != count:
            raise InputError(f"{caller}: `{name}` has {length} items, `{first}` has {count}; they must be equal")
    for name, other in (extra or {}).items():
        length = length_of(caller, name, other)
        if length != count:
            raise InputError(f"{caller}: `{name}` has {length} items, the edges have {count}; they must be equal")


def length_of(caller: str, name: str, column: Any) -> int:
    """Return the length of a column; refuse what has none."""
    try:
        return len(column)
    except TypeError:
        raise InputTypeError(
            f"{caller}: `{name}` is a {type_name(column)}; wanted a column, such as an array or a list"
        ) from None


def _form_hint(edges: Any) -> str:
    """Return how to write edges that came in a form that is none."""
    if isinstance(edges, list):
        return ". Columns are a tuple of two lists: ([0, 1], [1, 2])"
    if getattr(edges, "ndim", 0) == 2:
        return ". Columns of an array are (a[:, 0], a[:, 1])"
    if hasattr(edges, "adjacency"):
        return ". A NetworkX graph is taken by dynstore.from_networkx"
    return ""


def check_names(caller: str, names: tuple[str, str, str | None]) -> None:
    """Refuse names of columns that are no strings, such as a second batch in the place of ``source``."""
    source, destination, weight = names
    if type(source) is type(destination) is str and (weight is None or type(weight) is str):
        return
    for argument, name in zip(("source", "destination", "weight"), names, strict=True):
        if not isinstance(name, str) and (name is not None or argument != "weight"):
            raise InputTypeError(f"{caller}: {argument} is {name!r}; wanted the name of a column, a string")


NAME_TIMES = ". Name the column of times: time=..."


def check_labels(
    caller: str, labels: list[Any], wanted: list[str], remedy: str = ". Name the columns: source=..., destination=..."
) -> None:
    """Refuse names that are not among a frame's labels, or that two columns have.

    ``remedy`` ends the message if no label is similar.
    """
    missing = [name for name in dict.fromkeys(wanted) if name not in labels]
    if missing:
        known = [str(label) for label in labels]
        raise InputError(
            f"{caller}: columns not found: {', '.join(missing)}; the frame has {', '.join(known) or 'none'}"
            + (_hint(missing, labels) or remedy)
        )
    for name in wanted:
        if labels.count(name) > 1:
            raise InputError(f"{caller}: the frame has {labels.count(name)} columns `{name}`; wanted one")


def _hint(missing: list[str], labels: list[Any]) -> str:
    """Return what the caller may have meant."""
    for label in labels:
        if not isinstance(label, str) and str(label) in missing:
            return f". {label!r} is no string: name columns by strings, as frame.rename(columns=str) does"
    for first, second in USUAL_NAMES:
        if len(missing) == 2 and first in labels and second in labels:
            return f". Say source={first!r}, destination={second!r}"
    guess = get_close_matches(missing[0], [label for label in labels if isinstance(label, str)], n=1, cutoff=0.5)
    return f". Did you mean {guess[0]!r}?" if guess else ""


def bring_columns(caller: str, backend: Backend, edges: Any) -> Any:
    """Return edges opened (:func:`open_edges`); NumPy's integer ids in a tuple are copied to the GPU."""
    edges = open_edges(caller, on_gpu(backend, edges))
    if not isinstance(edges, tuple):
        return edges
    hosted = [column for column in edges[:2] if type(column) is np.ndarray]
    if not backend.on_gpu or not hosted:
        return edges
    return *(_bring(backend, column) for column in edges[:2]), *edges[2:]


def on_gpu(backend: Backend, given: Any) -> Any:
    """Return the cuDF object that a proxy of ``cudf.pandas`` stands for, if the graph is on the GPU; all else as it is.

    Any other way to read a proxy copies it to the host. What cuDF cannot hold stays a proxy.
    """
    if not hasattr(type(given), "as_gpu_object") or backend.family != "cuda":
        return given
    try:
        return given.as_gpu_object()
    except Exception:  # cuDF has several for this
        return given


def _bring(backend: Backend, column: Any) -> Any:
    usual = type(column) is np.ndarray and column.ndim == 1 and column.shape[0] and column.dtype.kind in "iu"
    return backend.asarray(column) if usual else column


def as_pandas(caller: str, edges: Any, names: Sequence[str]) -> Any:
    """Return edges of any form, or a dict of columns, as a pandas frame; ``names`` are those of a tuple's columns."""
    import pandas

    if isinstance(edges, Mapping):
        return pandas.DataFrame(edges)
    edges = open_edges(caller, edges)
    if isinstance(edges, tuple):
        return pandas.DataFrame(dict(zip(names, edges, strict=False)))
    return edges.to_pandas() if hasattr(edges, "to_pandas") else edges


def take_rows(columns: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
    """Return some rows of columns of any kind.

    Parameters
    ----------
    columns : tuple
        As :func:`split_columns` returns them, without their names.
    rows : array, shape (N,), int64
        Numbers of rows, of NumPy or CuPy.
    """
    host = rows if isinstance(rows, np.ndarray) else rows.get()
    return tuple(pick_rows(column, host if _is_on_host(column) else rows) for column in columns)


def _is_on_host(column: Any) -> bool:
    return not on_device(column)


def without_gaps(caller: str, edges: Any, wanted: list[str]) -> Any:
    """Drop the rows of a table made by dynstore that are null in all wanted columns; other tables stay as they are."""
    if hasattr(edges, "schema") and hasattr(edges, "column_names"):  # pyarrow
        if GAPS_MARK.encode() not in (edges.schema.metadata or {}):
            return edges
        import pyarrow.compute

        for name, column in zip(edges.column_names, edges.columns, strict=True):
            check_memory(caller, name, column)
        held = None
        for name in wanted:
            valid = pyarrow.compute.is_valid(edges[name])
            held = valid if held is None else pyarrow.compute.or_(held, valid)
        return edges.filter(held)
    if getattr(edges, "attrs", {}).get(GAPS_MARK) and hasattr(edges, "to_arrow"):  # cuDF; pandas has attrs, too
        return edges[list(dict.fromkeys(wanted))].dropna(how="all")
    return edges
