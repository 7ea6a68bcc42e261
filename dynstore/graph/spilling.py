"""Where a graph's edges lie: in the device's memory, or in host memory that its kernels use in place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from dynstore.arguments import check_flag, check_name
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.graph.orientations import Orientations
from dynstore.stores import STORES, get_store

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from dynstore.backend import Backend
    from dynstore.stores.base import Store
    from dynstore.typing import Memory

__all__ = ["MEMORIES", "Spilling", "check_memory", "choose_memory"]

_log = logging.getLogger("dynstore")
T = TypeVar("T")

MEMORIES = ("device", "host", "auto")
# memory="auto" takes the device if the edges, and the sort of their first batch, need at most this share of what is
# free. The rest is for algorithms, and for growth.
AUTO_SHARE = 0.8
# Slots for an edge after a build, and bytes for a row of the first batch while it is sorted.
SLOTS_AN_EDGE, SORT_BYTES = 1 / 0.65, 32


def check_memory(caller: str, memory: Any, spill: Any, store: type[Store]) -> bool:
    """Refuse what is no memory, or none of this store; return ``spill``."""
    check_name(caller, "memory", memory, MEMORIES)
    if (check_flag(caller, "spill", spill) or memory != "device") and "host" not in store.memories:
        able = ", ".join(repr(name) for name in sorted(STORES) if "host" in get_store(name).memories)
        got = f"memory={memory!r}" if memory != "device" else "spill=True"
        raise InputError(f"{caller}: got {got} with store={store.name!r}; wanted one of the stores {able}")
    return bool(spill)


def choose_memory(
    backend: Backend,
    store: type[Store],
    memory: str,
    num_entries: int,
    num_vertices: int,
    dtypes: tuple[np.dtype, np.dtype | None],
    directed: bool,
) -> Memory:
    """Return where the edges of a graph shall lie; ``memory``: as of :class:`dynstore.DynamicGraph`.

    Parameters
    ----------
    num_entries : int
        Edges that are known to come, both directions of undirected ones.
    dtypes : pair
        Of vertices, and of weights or None.
    """
    if "device" not in store.memories:
        return "host"
    if backend.family == "cpu" or memory == "device":
        return "device"
    free = backend.free_bytes()
    if memory == "host" or free is None:
        return "host" if memory == "host" else "device"
    vertex, weight = dtypes
    slot = 2 * vertex.itemsize + (0 if weight is None else weight.itemsize) + 1 / 8
    table = num_entries * SLOTS_AN_EDGE * slot + num_vertices * vertex.itemsize
    need = (2 if directed else 1) * table + num_entries * SORT_BYTES
    chosen: Memory = "device" if need <= AUTO_SHARE * free else "host"
    _log.info("memory 'auto' is %r: about %d bytes are needed, %d are free on the device", chosen, need, free)
    return chosen


class Spilling(Orientations):
    """The part of :class:`dynstore.DynamicGraph` that moves its edges to host memory."""

    @property
    def _may_move(self) -> bool:
        store = self._out
        return self.backend.family == "cuda" and store.memory == "device" and "host" in store.memories

    def _settle(self, num_entries: int, num_vertices: int) -> None:
        """Choose the memory of a graph without edges, for a first batch, if that is to be chosen."""
        if self._memory == "auto" and self._may_move and not self._out.num_edges:
            kinds = self.vertex_dtype, self._out.weight_dtype
            entries = max(num_entries, self._out.capacity)
            if (
                choose_memory(self.backend, type(self._out), "auto", entries, num_vertices, kinds, self._directed)
                == "host"
            ):
                self._move()

    def _or_spill(self, caller: str, update: Callable[[], T]) -> T:
        """Do an update; if the device's memory runs out, free caches and do it again; at last from host memory.

        The edges move there if the graph may spill. ``update`` leaves the graph as it was if it raises.
        """
        try:
            return self._with_caches_freed(update)
        except MemoryError as error:
            if not self._may_move:
                raise
            if not self._spills:
                raise OutOfMemoryError(
                    f'{error}; memory="host" keeps the edges in host memory, and spill=True moves them there when '
                    "they do not fit"
                ) from error
            reason = str(error)
        # The error is gone, and with it what the update had reserved.
        self._move()
        _log.warning("%s: %s; the graph's edges are in host memory from now on", caller, reason)
        return update()

    def _move(self) -> None:
        """Move all edges to host memory, or raise and leave them where they are. The version stays."""
        moves = [store.plan_move() for store in (self._out, self._in) if store is not None]
        for move in moves:
            move()
        self._views = {}  # they show the old arrays
