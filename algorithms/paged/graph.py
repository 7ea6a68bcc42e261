"""A graph whose edges lie in pages of host memory, and whose changes lie on the device until they are flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged import searches, sweeps
from dynstore.algorithms.paged.passes import PageReader
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.stores.paged.merging import LOW_BITS, merge_edges

if TYPE_CHECKING:
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["PagedGraph"]

OUT, INTO = "out", "into"


class _Side:
    """The rows of one orientation: pages, a bit a slot, and degrees.

    Attributes
    ----------
    packed : PagedRows
    valid : array of uint32 words
    degrees : array, shape (V,), int64
        Of the graph: edges in pages and others.
    reader : PageReader
    """

    def __init__(self, packed: PagedRows, way: str, resident: float) -> None:
        self.packed, self.valid = packed, packed.all_valid()
        self.degrees = packed.offsets[1:] - packed.offsets[:-1]
        self.reader = PageReader(packed, way, resident, valid=self.valid)

    def is_valid(self, slots: Array) -> Array:
        """Return whether slots hold edges; False for -1."""
        safe = self.packed.backend.xp.maximum(slots, 0)
        bits = (self.valid[safe >> 5] >> (safe & 31).astype(np.uint32)) & np.uint32(1)
        return (slots >= 0) & (bits != 0)


class PagedGraph:
    """Rows in pages that change: deletions clear bits, insertions go to a graph on the device, a flush joins them.

    Parameters
    ----------
    out : PagedRows
        The out-edges.
    into : PagedRows, optional
        The in-edges; without them the graph is symmetric, and ``out`` must hold each edge in both directions.
    way, resident
        How the algorithms read pages, see :class:`PageReader`.

    Notes
    -----
    All counts are of rows' entries, so an edge of a symmetric graph counts twice, a self-loop once.
    """

    def __init__(self, out: PagedRows, into: PagedRows | None = None, way: str = "auto", resident: float = 0.0) -> None:
        if into is not None and (into.num_vertices, into.num_edges) != (out.num_vertices, out.num_edges):
            raise InputError(
                f"PagedGraph: `into` has {into.num_edges} edges of {into.num_vertices} vertices; "
                f"wanted {out.num_edges} of {out.num_vertices}, as `out` has"
            )
        self.backend, self.num_vertices, self.is_symmetric = out.backend, out.num_vertices, into is None
        self._options = way, resident
        self._set_base(out, into)

    def _set_base(self, out: PagedRows, into: PagedRows | None) -> None:
        delta = DynamicGraph(directed=True, device=self.backend.name)  # type: ignore[arg-type]
        if self.num_vertices:
            delta.insert_vertices([self.num_vertices - 1])
        sides = {OUT: _Side(out, *self._options)}
        if into is not None:
            sides[INTO] = _Side(into, *self._options)
        self._sides, self._delta, self._num_edges = sides, delta, out.num_edges

    def number_of_edges(self) -> int:
        """Return the number of entries of all rows."""
        return self._num_edges

    def number_of_changes(self) -> int:
        """Return the edges that a flush would move into pages."""
        return int(self._delta.number_of_edges())

    def __repr__(self) -> str:
        kind = "symmetric" if self.is_symmetric else "directed"
        return (
            f"PagedGraph({kind}, {self.num_vertices} vertices, {self._num_edges} edges, "
            f"{self.number_of_changes()} of them not in pages, device={self.backend.name!r})"
        )

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part: ``host`` are the pages of all orientations, all others lie on the device."""
        usage = {"host": 0, "directory": 0, "bits": 0, "degrees": 0, "resident": 0}
        for side in self._sides.values():
            parts = side.packed.memory_usage()
            usage["host"] += parts.pop("pages") + parts.pop("weights")
            usage["directory"] += sum(parts.values())
            usage["bits"] += int(side.valid.nbytes)
            usage["degrees"] += int(side.degrees.nbytes)
            usage["resident"] += side.reader.resident_bytes
        return {**usage, "delta": int(self._delta.memory_usage()["total"])}

    def has_edges(self, src: Any, dst: Any) -> Array:
        """Return whether each edge is there, shape (B,), bool."""
        src, dst = self._read("has_edges", src, dst)
        side = self._sides[OUT]
        return side.is_valid(side.packed.find_edges(src, dst)) | self._delta.has_edges((src, dst))

    def insert_edges(self, src: Any, dst: Any) -> int:
        """Insert edges; return how many entries are new. An edge that was deleted from a page gets its bit again."""
        return self._write("insert_edges", src, dst, True)

    def delete_edges(self, src: Any, dst: Any) -> int:
        """Delete edges; return how many entries were there."""
        return self._write("delete_edges", src, dst, False)

    def flush(self) -> None:
        """Write all edges into new pages; the old ones are given back at the end."""
        sides = {kind: self._merged(kind) for kind in self._sides}
        self._set_base(sides[OUT], sides.get(INTO))

    def bfs(self, start: Any, **options: Any) -> tuple[Array, Array | None]:
        """Search as :func:`dynstore.algorithms.paged.bfs` does."""
        into = None if self.is_symmetric else self.reader(INTO)
        return searches.bfs(self.reader(OUT), start, symmetric=self.is_symmetric, into=into, **options)

    def pagerank(self, **options: Any) -> tuple[Array, int, float]:
        """Rank vertices as :func:`dynstore.algorithms.paged.pagerank` does."""
        return sweeps.pagerank(self.reader(INTO), self._sides[OUT].degrees, **options)

    def weakly_connected_components(self) -> Array:
        """Label vertices as :func:`dynstore.algorithms.paged.weakly_connected_components` does."""
        return sweeps.weakly_connected_components(self.reader(OUT))

    def reader(self, kind: str = OUT) -> PageReader:
        """Return the reader of out-edges ("out") or in-edges ("into"), for the graph as it is until the next update."""
        kind = OUT if self.is_symmetric else kind
        reader = self._sides[kind].reader
        reader.extra = self._delta.snapshot(transposed=kind == INTO) if self.number_of_changes() else None
        return reader

    def _read(self, caller: str, src: Any, dst: Any) -> tuple[Array, Array]:
        src, dst = self.backend.asarray(src, np.int64), self.backend.asarray(dst, np.int64)
        if src.shape != dst.shape or src.ndim != 1:
            raise InputError(f"{caller}: src has shape {src.shape}, dst {dst.shape}; wanted columns of equal length")
        for name, ids in (("src", src), ("dst", dst)):
            if ids.shape[0] and (int(ids.min()) < 0 or int(ids.max()) >= self.num_vertices):
                raise InputError(
                    f"{caller}: {name} has ids from {int(ids.min())} to {int(ids.max())}; "
                    f"wanted 0 to {self.num_vertices - 1}"
                )
        return src, dst

    def _write(self, caller: str, src: Any, dst: Any, inserts: bool) -> int:
        """Insert or delete edges, or change nothing: what may fail is done before the delta changes, or is that."""
        src, dst = self._read(caller, src, dst)
        xp = self.backend.xp
        keys = (src << 32) | dst
        if self.is_symmetric:
            keys = xp.concatenate([keys, (dst << 32) | src])
        keys = xp.unique(keys)
        src, dst = keys >> 32, keys & LOW_BITS
        slots = {OUT: self._sides[OUT].packed.find_edges(src, dst)}
        in_base = slots[OUT] >= 0
        if not self.is_symmetric:
            slots[INTO] = self._sides[INTO].packed.find_edges(dst[in_base], src[in_base])
        is_there = self._sides[OUT].is_valid(slots[OUT])
        others = src[~in_base], dst[~in_base]
        is_there[~in_base] = self._delta.has_edges(others)
        changes = is_there != inserts
        rows = {OUT: src[changes], INTO: dst[changes]}
        slots[OUT] = slots[OUT][in_base]
        # No kernel is missing and nothing is allocated once the delta has changed.
        commit = self.backend.prepare(self._commit, slots, rows, inserts)
        (self._delta.insert_edges if inserts else self._delta.delete_edges)(others)
        commit()
        count = int(rows[OUT].shape[0])
        self._num_edges += count if inserts else -count
        return count

    def _commit(self, slots: dict[str, Array], rows: dict[str, Array], inserts: bool) -> None:
        """Write bits and degrees."""
        bits = self.backend.kernels("dynstore.stores.paged")
        counts = self.backend.kernels("dynstore.algorithms.paged", "slots")
        for kind, side in self._sides.items():
            bits.write_bits(side.valid, slots[kind], inserts)
            counts.add_rows(side.degrees, rows[kind], 1 if inserts else -1)

    def _merged(self, kind: str) -> PagedRows:
        """Return pages of all edges of one orientation."""
        side = self._sides[kind]
        added = self._delta.snapshot(transposed=kind == INTO).compact()
        return merge_edges(side.packed, side.valid, side.degrees, (added.sources, added.indices, None))
