"""What every store offers: plan an update, then commit it.

A plan only reads, and reserves all memory that the commit needs; it may raise. A commit writes and cannot
fail. So whatever is raised, the graph is as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynstore.backend import Backend
from dynstore.config import make_options
from dynstore.edge_batch import EdgeBatch
from dynstore.errors import LimitError
from dynstore.slots import PRESENT, SlotArrays
from dynstore.typing import Array, OnDuplicate, Path

__all__ = ["Plan", "Store", "StoreOptions"]


@dataclass(frozen=True)
class StoreOptions:
    """A store without options."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An update that is ready to be written.

    Attributes
    ----------
    found : int
        Keys of the batch that are in the store.
    found_loops : int
        Self-loops among them (counted for undirected graphs only).
    commit : callable
        Writes the update; cannot fail.
    grown : bool
    path : {"in-place", "merge"}
    """

    found: int
    found_loops: int
    commit: Callable[[], None]
    grown: bool = False
    path: Path = "merge"


class Store(ABC):
    """Edges sorted by (src, dst) in :class:`~dynstore.slots.SlotArrays`.

    Parameters
    ----------
    backend : Backend
    vertex_dtype : numpy.dtype
        int32 or int64.
    weight_dtype : numpy.dtype or None
        float32, float64, or None for an unweighted graph.
    capacity : int
        Edges (both directions of undirected ones) to reserve.
    options : dict
        The store's own options.
    """

    name: ClassVar[str]
    Options: ClassVar[type[StoreOptions]] = StoreOptions

    def __init__(
        self,
        backend: Backend,
        vertex_dtype: np.dtype,
        weight_dtype: np.dtype | None,
        capacity: int,
        options: dict[str, Any],
    ) -> None:
        self.backend = backend
        self.vertex_dtype = vertex_dtype
        self.weight_dtype = weight_dtype
        self.capacity = capacity
        self.options = make_options(f"store {self.name!r}", self.Options, options)
        self.slots = self._no_edges(0)

    @abstractmethod
    def _no_edges(self, num_vertices: int) -> SlotArrays:
        """Return fresh arrays without edges, with the capacity reserved."""

    @abstractmethod
    def plan_insert(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        """Plan to insert a batch and to have ``num_vertices`` rows afterwards."""

    @abstractmethod
    def plan_delete(self, batch: EdgeBatch) -> Plan:
        """Plan to delete those edges of a batch that are there."""

    def plan_vertices(self, num_vertices: int) -> Plan:
        """Plan to have at least ``num_vertices`` rows."""
        slots = self.slots.with_vertices(self.backend, num_vertices)
        return Plan(0, 0, lambda: self._take(slots), path="in-place")

    def plan_clear(self) -> Plan:
        """Plan to have no edge and no vertex."""
        slots = self._no_edges(0)
        return Plan(0, 0, lambda: self._take(slots))

    def find(self, src: Array, dst: Array) -> Array:
        """Return the slot of each edge, -1 where it is absent; int64, shape (B,)."""
        positions, states = self._locate(self.slots, src, dst)
        return self.backend.xp.where(states == PRESENT, positions, -1)

    def _locate(self, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array]:
        located: tuple[Array, Array] = self.backend.kernels("dynstore", "search").locate_edges(
            self.backend, slots, src, dst
        )
        return located

    def copy(self) -> Store:
        """Return a deep copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.slots = self.slots.copy(self.backend)
        return twin

    def statistics(self) -> dict[str, int]:
        """Return what the store has counted since it was made; by default it counts nothing."""
        return {}

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part."""
        return self.slots.memory_usage()

    def _count_loops(self, batch: EdgeBatch, chosen: Array) -> int:
        """Count the self-loops among the chosen keys; 0 where the batch has none or does not count them."""
        if not batch.num_loops:
            return 0
        return int(self.backend.xp.count_nonzero(chosen & (batch.src == batch.dst)))

    def _take(self, slots: SlotArrays) -> None:
        self.slots = slots

    def _check_num_slots(self, num_slots: int) -> None:
        """Refuse more slots than the offsets' dtype can number (also cuDF's and cuGraph's limit)."""
        limit = int(np.iinfo(self.vertex_dtype).max)
        if num_slots > limit:
            raise LimitError(
                f"store {self.name!r}: {num_slots} slots are needed, {self.vertex_dtype} offsets go to {limit}; "
                'use vertex_dtype="int64"'
            )
