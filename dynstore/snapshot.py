"""The gap-aware CSR: one version of a graph, as every kernel reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from dynstore.bits import full_words, unpack_bits
from dynstore.errors import InputTypeError, StaleSnapshotError
from dynstore.pins import export
from dynstore.stores.table.selection import count_before, select

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.pins import Pins
    from dynstore.typing import Array, Memory

__all__ = ["GapCSR", "Lease"]


class Lease:
    """The time in which one version may be read; the graph ends it with its next update."""

    __slots__ = ("ended_by", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.ended_by: int | None = None

    def check(self, caller: str = "snapshot") -> None:
        """Raise :class:`StaleSnapshotError` if the graph has been updated since; ``caller`` gives what is read."""
        if self.ended_by == self.version:
            raise StaleSnapshotError(
                f"{caller}: it showed version {self.version} of the graph until an update failed, which had written "
                f"to its arrays; call {caller}() again"
            )
        if self.ended_by is not None:
            raise StaleSnapshotError(
                f"{caller}: it shows version {self.version} of the graph, which is now at version {self.ended_by}; "
                f"call {caller}() again after an update"
            )


class GapCSR:
    """Compressed sparse rows with gaps: one version of a graph, without a copy.

    Row ``v`` has the slots ``offsets[v]`` to ``offsets[v + 1]`` (exclusive). Slot ``p`` holds an edge if bit ``p % 32``
    of ``valid[p // 32]`` is set. The neighbours of a row ascend, gaps included. After the graph's next update, reading
    an array raises :class:`~dynstore.errors.StaleSnapshotError`.

    Attributes
    ----------
    offsets : array, shape (V + 1,), vertex dtype
        The first slot of each row.
    indices : array, shape (S,), vertex dtype
        The destination in each slot; a gap repeats a neighbouring key.
    sources : array, shape (S,), vertex dtype
        The row of each slot, gaps included.
    weights : array, shape (S,), float32 or float64, or None
        The weight in each slot; None for an unweighted graph.
    valid : array, shape (at least ceil(S / 32),), uint32
        One bit for each slot, lowest bit first; bits past S are 0.
    num_vertices, num_slots, num_edges : int
        V, S, and the number of valid slots. An undirected graph stores both directions of an edge.
    version : int
        The version of the graph.
    backend : Backend
        The device of the arrays.
    memory : {"device", "host"}
        Where ``indices``, ``sources`` and ``weights`` lie: in device memory, or in host memory that kernels read in
        place.
    """

    def __init__(
        self,
        backend: Backend,
        offsets: Array,
        sources: Array,
        indices: Array,
        valid: Array,
        weights: Array | Callable[[], Array] | None,
        num_edges: int,
        lease: Lease | None = None,
        pins: Pins | None = None,
        memory: Memory = "device",
    ) -> None:
        self.backend = backend
        self._offsets = offsets
        self._sources = sources
        self._indices = indices
        self._valid = valid
        self._weights = weights
        self._lease = lease or Lease(0)
        self._pins = pins
        self.memory: Memory = memory
        self.num_vertices = int(offsets.shape[0]) - 1
        self.num_slots = int(indices.shape[0])
        self.num_edges = num_edges
        self.version = self._lease.version

    def __repr__(self) -> str:
        return (
            f"GapCSR(num_vertices={self.num_vertices}, num_edges={self.num_edges}, "
            f"num_slots={self.num_slots}, version={self.version}, device={self.backend.name!r})"
        )

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            "GapCSR: a snapshot cannot be pickled or copied, because it shows its graph's memory; "
            "pickle the graph, or copy the snapshot with compact()"
        )

    @property
    def offsets(self) -> Array:
        self._lease.check()
        return self._offsets

    @property
    def sources(self) -> Array:
        self._lease.check()
        return self._sources

    @property
    def indices(self) -> Array:
        self._lease.check()
        return self._indices

    @property
    def weights(self) -> Array | None:
        self._lease.check()
        weights = self._weights
        if callable(weights):  # made when they are first read
            weights = self._weights = weights()
        return weights

    @property
    def valid(self) -> Array:
        self._lease.check()
        return self._valid

    @property
    def is_weighted(self) -> bool:
        """True if edges have weights."""
        return self._weights is not None

    @property
    def is_packed(self) -> bool:
        """True if there are no gaps."""
        return self.num_edges == self.num_slots

    def mask(self) -> Array:
        """Return which slots hold an edge.

        Returns
        -------
        array, shape (S,), bool
            A new array.
        """
        self._lease.check()
        return unpack_bits(self.backend, self._valid, self.num_slots)

    def compact(self) -> GapCSR:
        """Return a copy without gaps. It stays readable after updates.

        Returns
        -------
        GapCSR
            All its slots hold edges.
        """
        backend, columns, mask = self.backend, (self.sources, self.indices, self.weights), self.mask()
        sources, indices, weights = select(backend, columns, mask, self.memory)
        return GapCSR(
            backend,
            count_before(backend, mask, self._offsets),
            sources,
            indices,
            full_words(backend, self.num_edges),
            weights,
            self.num_edges,
            Lease(self.version),
            memory=self.memory,
        )

    def with_weights(self, weights: Array) -> GapCSR:
        """Return the same rows with other weights, shape (S,); readable as long as this one."""
        return GapCSR(
            self.backend,
            self.offsets,
            self.sources,
            self.indices,
            self.valid,
            weights,
            self.num_edges,
            self._lease,
            memory=self.memory,
        )

    def end(self) -> None:
        """End this snapshot alone, not others of its version: a failed update wrote to it."""
        self._lease = Lease(self.version)
        self._lease.ended_by = self.version

    def export(self) -> dict[str, Any]:
        """Return the arrays to keep them: no copy is made, and no later update changes them.

        As long as you keep one of the arrays, or a view of it, the next update copies the graph once, and writes to the
        copy.

        Returns
        -------
        dict
            NumPy or CuPy arrays over the store's own memory: ``offsets``, ``sources``, ``indices``, ``valid``, and
            ``weights`` if the graph is weighted; in a graph with extra columns these are a copy.
        """
        weights = self.weights
        arrays = {"offsets": self._offsets, "sources": self._sources, "indices": self._indices, "valid": self._valid}
        if weights is not None:
            arrays["weights"] = weights
        if self._pins is None:
            return arrays
        return {name: export(array, self._pins) for name, array in arrays.items()}
