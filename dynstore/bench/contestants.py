"""The compared contestants: stores behind DynamicGraph, and plain conversions of a window into a CSR."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.bench.stream import Edges, Slide, edge_keys
from dynstore.bench.timing import LapTimer
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Conversion", "DeviceSlide", "StoreRun", "conversions", "to_device"]

Batch = tuple[Any, ...]


class DeviceSlide:
    """A slide with batches in the device's memory, for ``insert_edges`` and ``delete_edges``."""

    def __init__(self, backend: Backend, slide: Slide) -> None:
        self.slide = slide
        self.leaving = to_device(backend, Edges(slide.leaving.src, slide.leaving.dst))
        self.entering = to_device(backend, slide.entering)


def to_device(backend: Backend, edges: Edges) -> Batch:
    """Return ``(src, dst)`` or ``(src, dst, weight)`` in the device's memory."""
    columns = (edges.src, edges.dst) if edges.weight is None else (edges.src, edges.dst, edges.weight)
    return tuple(backend.asarray(column) for column in columns)


class StoreRun:
    """One store, driven through its public class.

    Parameters
    ----------
    name : str
    backend : Backend
    directed, weighted : bool
    options : mapping
        Store options.
    """

    def __init__(self, name: str, backend: Backend, directed: bool, weighted: bool, options: Mapping[str, Any]) -> None:
        self.name = name
        device: Any = backend.name
        self._watch = LapTimer(backend)
        self._make: Callable[[], DynamicGraph] = lambda: DynamicGraph(
            directed=directed, weighted=weighted, store=name, device=device, **options
        )
        self.graph = self._make()
        self.max_bytes = 0

    def build(self, edges: Batch) -> float:
        """Make the graph anew from ``edges`` in one batch; return the ms, snapshot included."""
        self.graph = self._make()  # drops the old graph, outside the timing
        self._watch.start()
        self.graph.insert_edges(edges)
        self.graph.snapshot()
        return self._watch.lap()

    def update(self, slide: DeviceSlide) -> dict[str, float]:
        """Apply a slide; return the ms of "delete", "insert", "snapshot" and of all three, "update"."""
        self._watch.start()
        self.graph.delete_edges(slide.leaving)
        deleted = self._watch.lap()
        self.graph.insert_edges(slide.entering)
        inserted = self._watch.lap()
        self.graph.snapshot()
        shown = self._watch.lap()
        self.max_bytes = max(self.max_bytes, int(self.graph.memory_usage()["total"]))
        return {"delete": deleted, "insert": inserted, "snapshot": shown, "update": deleted + inserted + shown}

    def run(self, call: Callable[[DynamicGraph], Any]) -> tuple[Any, float]:
        """Return an algorithm's frame and its ms."""
        self._watch.start()
        frame = call(self.graph)
        return frame, self._watch.lap()

    def edges(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the sorted keys of the graph's edges, and the weights in that order."""
        table = self.graph.edge_table()
        src, dst = table["source"].to_numpy(), table["destination"].to_numpy()
        keys = edge_keys(src, dst, self.graph.is_directed())
        order = None
        if not bool((keys[1:] > keys[:-1]).all()):
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
        if "weight" not in table.columns:
            return keys, None
        weight = table["weight"].to_numpy()
        return keys, weight if order is None else weight[order]


class Conversion:
    """A plain conversion of a window's raw rows into a CSR without duplicates; it has no state between steps."""

    def __init__(
        self, name: str, backend: Backend, convert: Callable[[Backend, Array, Array, int], tuple[Array, Array]]
    ) -> None:
        self.name = name
        self._backend = backend
        self._watch = LapTimer(backend)
        self._convert = convert
        self._csr: tuple[Array, Array] | None = None

    def run(self, src: Array, dst: Array, num_vertices: int, directed: bool) -> float:
        """Convert rows in the device's memory; return the ms, including the mirroring of undirected rows."""
        xp = self._backend.xp
        self._csr = None
        self._watch.start()
        if not directed:
            src, dst = xp.concatenate((src, dst)), xp.concatenate((dst, src))
        self._csr = self._convert(self._backend, src, dst, num_vertices)
        return self._watch.lap()

    def edges(self, directed: bool) -> np.ndarray:
        """Return the sorted keys of the last result; undirected pairs once."""
        assert self._csr is not None
        offsets, indices = (self._backend.to_host(array) for array in self._csr)
        src = np.repeat(np.arange(offsets.shape[0] - 1), np.diff(offsets))
        if not directed:
            once = src <= indices
            src, indices = src[once], indices[once]
        return np.sort(edge_keys(src, indices, directed))


def conversions(backend: Backend) -> tuple[list[Conversion], list[str]]:
    """Return the conversions available on this device, and a line for each missing one."""
    if backend.on_gpu:
        return [Conversion("cusparse", backend, _by_cusparse), Conversion("cupy-key-sort", backend, _by_key_sort)], []
    key_sort = Conversion("numpy-key-sort", backend, _by_key_sort)
    if importlib.util.find_spec("scipy") is None:
        return [key_sort], ["SciPy's conversion is left out: pip install 'dynstore[bench]'"]
    return [Conversion("scipy", backend, _by_scipy), key_sort], []


def _by_key_sort(backend: Backend, src: Array, dst: Array, num_vertices: int) -> tuple[Array, Array]:
    """Pack, sort, drop duplicates, search the row starts: the plainest rebuild."""
    xp = backend.xp
    keys = src.astype(np.int64)
    keys <<= 32
    keys |= dst
    keys.sort()
    fresh = xp.ones(keys.shape[0], np.bool_)
    xp.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    keys = keys[fresh]
    rows = (keys >> 32).astype(np.int32)
    offsets = xp.zeros(num_vertices + 1, np.int64)
    xp.cumsum(xp.bincount(rows, minlength=num_vertices), out=offsets[1:])
    return offsets.astype(np.int32), keys.astype(np.int32)  # the low half of a key is its destination


def _by_scipy(backend: Backend, src: Array, dst: Array, num_vertices: int) -> tuple[Array, Array]:
    """``coo_matrix.tocsr``: it sums duplicates, so values are multiplicities; the structure is the graph."""
    import scipy.sparse

    ones = np.ones(src.shape[0], np.float32)
    csr = scipy.sparse.coo_matrix((ones, (src, dst)), shape=(num_vertices, num_vertices)).tocsr()
    csr.sum_duplicates()
    return csr.indptr, csr.indices


def _by_cusparse(backend: Backend, src: Array, dst: Array, num_vertices: int) -> tuple[Array, Array]:
    """CuPy's ``coo_matrix.tocsr`` over cuSPARSE (coosort, coo2csr); it sums duplicates too."""
    import cupyx.scipy.sparse

    ones = backend.xp.ones(src.shape[0], np.float32)
    csr = cupyx.scipy.sparse.coo_matrix((ones, (src, dst)), shape=(num_vertices, num_vertices)).tocsr()
    return csr.indptr, csr.indices
