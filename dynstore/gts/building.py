"""Making slotted pages of a graph or of edges."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dynstore.arguments import check_flag
from dynstore.errors import InputError, LimitError, UnweightedGraphError
from dynstore.graph import AnyGraph, DynamicGraph
from dynstore.gts.cpu.writing import k_assign_pages, k_write_pages
from dynstore.gts.formats import PageFormat
from dynstore.gts.topology import PagedTopology
from dynstore.terminal import show_progress
from dynstore.typing import MAX_INT32

__all__ = ["build", "build_from_rows"]

MAX_THREADS = 16
# Pages are written in so many parts: several a thread, as parts take different times.
NUM_SHARES = 64


def build(
    edges: Any,
    *,
    page_bytes: int = 1 << 20,
    p: int = 2,
    q: int = 2,
    weights: bool = False,
    directed: bool = True,
    progress: bool = False,
) -> PagedTopology:
    """Make slotted pages of a graph or of edges.

    Parameters
    ----------
    edges : DynamicGraph, GraphView, or edges
        A graph whose vertices are the integers from 0 to V - 1, or edges as :meth:`DynamicGraph.insert_edges` takes
        them.
    page_bytes : int
        The size of a page, a multiple of 4.
    p, q : int
        How many bytes the id of a page has, and the number of a slot. The paper takes 2 and 2 for pages of 1 MiB, and
        3 and 3 for pages of 64 MiB.
    weights : bool
        Whether the weights are on the pages, as float32.
    directed : bool
        For edges: if False, each edge is stored in both directions. A graph is taken as it is.
    progress : bool
        Whether to show a bar on stderr, if that is a terminal: how many pages are written.

    Returns
    -------
    PagedTopology
        In memory.

    Raises
    ------
    InputError
        If the graph was made with ``renumber=True``, or a size cannot be used.
    LimitError
        If the graph needs more pages than ``p`` bytes can number, or a weight does not fit float32.
    UnweightedGraphError
        If ``weights`` is True and the edges have no weights.

    Examples
    --------
    >>> from dynstore import gts
    >>> gts.build(([0, 0, 1], [1, 2, 2]), page_bytes=64)
    PagedTopology(num_vertices=3, num_edges=3, small_pages=1, large_pages=0, page_bytes=64)
    """
    weighted, shown = check_flag("build", "weights", weights), check_flag("build", "progress", progress)
    form = PageFormat(page_bytes, p, q, weighted)
    graph = edges if _is_graph(edges) else _read_edges(edges, weighted, check_flag("build", "directed", directed))
    if graph.is_renumbered():
        raise InputError("build: the graph has ids of its own; wanted one whose vertices are 0 to V - 1")
    if weighted and not graph.is_weighted():
        raise UnweightedGraphError("build: weights=True, and the graph has no weights")
    rows = graph.snapshot()
    packed = rows if rows.is_packed else rows.compact()
    host = graph.core.backend.to_host
    values = host(packed.weights) if weighted else None
    return build_from_rows(host(packed.offsets), host(packed.indices), values, form, graph.is_directed(), shown)


def build_from_rows(
    offsets: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray | None,
    form: PageFormat,
    directed: bool = True,
    progress: bool = False,
) -> PagedTopology:
    """Make slotted pages of compressed rows.

    Parameters
    ----------
    offsets : numpy.ndarray, shape (V + 1,)
    indices : numpy.ndarray, shape (E,)
        Neighbours, each from 0 to V - 1; this is not checked.
    weights : numpy.ndarray, shape (E,), or None
    form : PageFormat
    directed : bool
        If False, each edge is in both rows.
    progress : bool
        As for :func:`build`.

    Returns
    -------
    PagedTopology
        In memory.

    Raises
    ------
    LimitError
        If there are more pages than the format can number, or a weight does not fit float32.
    """
    num_vertices = offsets.shape[0] - 1
    sizes = form.page_bytes, form.vertex_bytes, form.entry_bytes, form.max_slots, form.large_capacity, 8 * form.p
    nothing = np.empty(0, dtype=np.int64)
    count = k_assign_pages(offsets, sizes, nothing, nothing, nothing)
    if count > form.max_pages:
        raise LimitError(
            f"build: the graph needs {count} pages of {form.page_bytes} bytes; p={form.p} numbers {form.max_pages}; "
            "wanted larger pages or a larger p"
        )
    starts, ranges = np.empty(count + 1, dtype=np.int64), np.empty(count, dtype=np.int64)
    records = np.empty(num_vertices, dtype=np.int64)
    if count:
        k_assign_pages(offsets, sizes, starts, ranges, records)
    starts[count] = num_vertices
    pages = np.zeros((count, form.page_bytes), dtype=np.uint8)
    bits = np.empty(0, dtype=np.uint32) if weights is None else _as_float32(weights).view(np.uint32)
    units, layout = pages.view(form.unit), tuple(form.layout.tolist())

    def write(first: int) -> int:
        last: int = min(first + share, count)
        k_write_pages(first, last, units, layout, form.large_capacity, starts, ranges, records, offsets, indices, bits)
        return last

    workers = min(os.cpu_count() or 1, MAX_THREADS)
    share = max(1, -(-count // NUM_SHARES))
    with show_progress(progress) as (advance, _), ThreadPoolExecutor(workers) as threads:
        for written in threads.map(write, range(0, count, share)):
            advance("writing pages", written, count)
    dtype = np.int32 if num_vertices <= MAX_INT32 else np.int64
    least = 0.0 if weights is None or not weights.shape[0] else float(weights.min())
    return PagedTopology(form, pages, starts, ranges, np.diff(offsets).astype(dtype), directed, least)


def _as_float32(weights: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        narrow: np.ndarray = weights.astype(np.float32)
    too_large = np.isinf(narrow) & ~np.isinf(weights)
    if too_large.any():
        weight = float(weights[too_large.argmax()])
        raise LimitError(f"build: an edge has the weight {weight}; that does not fit float32")
    return narrow


def _is_graph(edges: Any) -> bool:
    return all(hasattr(edges, name) for name in ("snapshot", "is_renumbered", "is_directed"))


def _read_edges(edges: Any, weighted: bool, directed: bool) -> AnyGraph:
    graph = DynamicGraph(directed=directed, weighted=weighted, store="rebuild", device="cpu")
    try:
        graph.insert_edges(edges)
    except InputError as error:
        raise type(error)(str(error).replace("insert_edges:", "build:", 1)) from None
    return graph
