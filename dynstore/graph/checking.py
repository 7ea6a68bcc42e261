"""What makes columns and options a graph: all that comes from a folder is checked, as kernels believe what they read.

Problems are ValueErrors that say what is wrong. Who reads the folder says which one it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import type_name
from dynstore.graph.core import EXTRA, GraphState
from dynstore.graph.events.layout import ID as EVENT_ID
from dynstore.graph.records import TIME, WEIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_state", "decoded_strings"]

FLAGS = ("directed", "weighted", "renumber", "reuse_ids")
# Rows and versions are int64 in kernels and records.
MAX_INT64 = 2**63 - 1
# Up to so many rows, both ends of an edge fit one int64.
PACKED = 2**31


def decoded_strings(name: str, text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return strings as an array of objects.

    Parameters
    ----------
    name : str
        The column's, for messages.
    text : array, uint8
        All strings, in UTF-8.
    ends : array, shape (B,), int64
        Where each of them ends.

    Raises
    ------
    ValueError
        For places that do not ascend or do not end with the text, and for what is no UTF-8.
    """
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    falls = ends < starts
    if falls.any():
        row = int(falls.argmax())
        raise ValueError(f"column '{name}.ends' has {ends[row]} at row {row}; wanted {starts[row]} or more")
    last = int(ends[-1]) if len(ends) else 0
    if last != len(text):
        raise ValueError(f"column '{name}.ends' ends at {last}; the strings have {len(text)} bytes")
    content, strings, start = text.tobytes(), np.empty(len(ends), dtype=object), 0
    for row, end in enumerate(ends.tolist()):
        try:
            strings[row] = content[start:end].decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the string in row {row} of {name!r} is no UTF-8: {error.reason}") from error
        start = end
    return strings


def check_state(state: GraphState) -> None:
    """Refuse columns and options that make no graph.

    Raises
    ------
    ValueError, KeyError, TypeError
    """
    options, columns = state.options, state.columns
    _check_options(options)
    _check_counts(state)
    _check_lengths(state)
    _check_edges(options, columns, state.num_vertices)
    if options.get("multigraph"):
        _check_events(columns)
    elif not options["directed"]:
        _check_ways_back(options, columns, state.num_vertices)
    _check_ids(columns)


def _check_options(options: Any) -> None:
    if not isinstance(options, dict):
        raise ValueError(f"the options are a {type_name(options)}; wanted a dict")
    if "device" in options:
        raise ValueError("the options have 'device', which whoever loads the graph chooses")
    for name in FLAGS:
        if type(options[name]) is not bool:
            raise ValueError(f"{name} is {options[name]!r}; wanted True or False")


def _check_counts(state: GraphState) -> None:
    num_vertices, version, dtype = state.num_vertices, state.version, state.options["vertex_dtype"]
    if dtype not in ("int32", "int64"):
        raise ValueError(f"vertex_dtype is {dtype!r}; wanted 'int32' or 'int64'")
    if type(num_vertices) is not int or type(version) is not int:
        raise ValueError(f"num_vertices is {num_vertices!r}, version {version!r}; wanted integers")
    if num_vertices < 0:
        raise ValueError(f"num_vertices is {num_vertices}; wanted 0 or more")
    if num_vertices > np.iinfo(dtype).max:
        raise ValueError(f"num_vertices is {num_vertices}; {dtype} rows go to {np.iinfo(dtype).max}")
    if not 0 <= version <= MAX_INT64:
        raise ValueError(f"version is {version}; versions go from 0 to {MAX_INT64}")


def _extra_dtypes(options: Mapping[str, Any]) -> dict[str, Any]:
    times = {TIME: options["timestamps"]} if options.get("timestamps") else {}
    ids = {EVENT_ID: "int64"} if options.get("multigraph") else {}
    return {**options.get("edge_columns", {}), **times, **ids}


def _check_lengths(state: GraphState) -> None:
    """Refuse columns that are not those of the options, or of other lengths."""
    options, columns, num_vertices = state.options, state.columns, state.num_vertices
    wanted = {"source", "destination"} | ({WEIGHT} if options["weighted"] else set())
    wanted |= {EXTRA + name for name in _extra_dtypes(options)}
    if options["renumber"] and num_vertices:
        wanted.add("id")
    may_be = wanted | ({"deleted"} if options["reuse_ids"] else set())
    num_rows = columns["source"].shape[0]
    if not wanted <= set(columns) <= may_be:
        raise ValueError(f"there are columns {sorted(columns)}; wanted {sorted(wanted)}")
    for name, column in columns.items():
        length = num_vertices if name in ("id", "deleted") else num_rows
        if column.shape[0] != length:
            raise ValueError(f"column {name!r} has {column.shape[0]} rows; wanted {length}")


def _check_edges(options: Mapping[str, Any], columns: Mapping[str, np.ndarray], num_vertices: int) -> None:
    """Refuse edges of other dtypes than the options', to rows that are not there, and in another order."""
    src, dst = columns["source"], columns["destination"]
    if {str(src.dtype), str(dst.dtype)} != {options["vertex_dtype"]}:
        raise ValueError(f"the edges are {src.dtype} and {dst.dtype}; wanted {options['vertex_dtype']}")
    for name, dtype in _extra_dtypes(options).items():
        if str(columns[EXTRA + name].dtype) != dtype:
            raise ValueError(f"the edge column {name!r} is {columns[EXTRA + name].dtype}; wanted {dtype}")
    if src.shape[0] and not (min(src.min(), dst.min()) >= 0 and max(src.max(), dst.max()) < num_vertices):
        raise ValueError(f"an edge leads to a row that is not there; there are {num_vertices}")
    if not options.get("multigraph") and not np.all(
        (src[1:] > src[:-1]) | ((src[1:] == src[:-1]) & (dst[1:] > dst[:-1]))
    ):
        raise ValueError("the edges are not in order")
    weights = columns.get(WEIGHT)
    if weights is not None:
        if str(weights.dtype) != options["weight_dtype"]:
            raise ValueError(f"the weights are {weights.dtype}; wanted {options['weight_dtype']}")
        missing = np.isnan(weights)
        if missing.any():
            raise ValueError(f"the weight of edge {int(missing.argmax())} is NaN; wanted a number")
    deleted = columns.get("deleted")
    if deleted is not None:
        if len(deleted) and deleted.view(np.uint8).max() > 1:
            raise ValueError("column 'deleted' has other bytes than 0 and 1")
        held = deleted[src] | deleted[dst]
        if held.any():
            edge = int(held.argmax())
            row = src[edge] if deleted[src[edge]] else dst[edge]
            raise ValueError(f"the deleted vertex in row {row} has edges")


def _check_ways_back(options: Mapping[str, Any], columns: Mapping[str, np.ndarray], num_vertices: int) -> None:
    """Refuse undirected edges that are not there in both directions, with the same values."""
    src, dst = columns["source"], columns["destination"]
    there, back = src < dst, src > dst
    low, high = src[there], dst[there]
    others, ends = dst[back], src[back]  # the lower ends, and the higher ones
    packed = num_vertices <= PACKED
    order = np.argsort(others.astype(np.int64) << 32 | ends) if packed else np.lexsort((ends, others))
    others, ends = others[order], ends[order]
    count = min(len(low), len(others))
    wrong = (low[:count] != others[:count]) | (high[:count] != ends[:count])
    if wrong.any() or len(low) != len(others):
        place = int(wrong.argmax()) if wrong.any() else count
        pairs = [(part[0][place], part[1][place]) for part in ((low, high), (others, ends)) if place < len(part[0])]
        one, other = min(pairs)
        raise ValueError(f"the edge {one} - {other} has no way back; wanted undirected edges in both directions")
    names = [*([WEIGHT] if WEIGHT in columns else []), *(EXTRA + name for name in _extra_dtypes(options))]
    for name in names:
        forth, turned = columns[name][there], columns[name][back][order]
        differs = (forth != turned) & ~((forth != forth) & (turned != turned))  # NaN may be in extra columns
        if differs.any():
            place = int(differs.argmax())
            what = "weights" if name == WEIGHT else f"values of {name.removeprefix(EXTRA)!r}"
            raise ValueError(
                f"the edge {low[place]} - {high[place]} has two {what}, {forth[place]} and {turned[place]}; wanted one"
            )


def _check_events(columns: Mapping[str, np.ndarray]) -> None:
    """Refuse ids that two edges have, and weights that have no sum."""
    ids = np.sort(columns[EXTRA + EVENT_ID])
    twice = ids[1:] == ids[:-1]
    if twice.any():
        raise ValueError(f"the edge id {ids[int(twice.argmax())]} is there twice")
    weights = columns.get(WEIGHT)
    if weights is not None and weights.dtype.kind == "f" and not np.isfinite(weights).all():
        row = int((~np.isfinite(weights)).argmax())
        raise ValueError(f"the weight of edge {row} is {weights[row]}; wanted a finite number")


def _check_ids(columns: Mapping[str, np.ndarray]) -> None:
    """Refuse ids that no vertex can have, or that two have."""
    ids = columns.get("id")
    if ids is None or not len(ids):
        return
    if ids.dtype == object:
        held = set()
        for text in ids.tolist():
            if text in held:
                raise ValueError(f"the id {text!r} is there twice")
            held.add(text)
        return
    ordered = np.sort(ids)
    if ordered[0] < 0:
        raise ValueError(f"the id {ordered[0]} is negative; wanted 0 or more")
    if ordered[-1] == MAX_INT64:
        raise ValueError(f"the id {ordered[-1]} is too large; ids go to {MAX_INT64 - 1}")
    twice = ordered[1:] == ordered[:-1]
    if twice.any():
        raise ValueError(f"the id {ordered[int(twice.argmax())]} is there twice")
