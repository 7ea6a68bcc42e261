"""Where a graph's edges lie: in the device's memory, or in host memory that its kernels use in place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dynstore.arguments import check_flag, check_name
from dynstore.errors import InputError
from dynstore.stores import STORES, get_store

if TYPE_CHECKING:
    import numpy as np

    from dynstore.backend import Backend
    from dynstore.graph.core import GraphCore
    from dynstore.stores.base import Store
    from dynstore.typing import Memory

__all__ = ["MEMORIES", "check_memory", "choose_memory", "may_move"]

_log = logging.getLogger("dynstore")

MEMORIES = ("device", "host", "auto")
# memory="auto" takes the device if the edges, and the sort of their first batch, need at most this share of what is
# free. The rest is for algorithms, and for growth.
AUTO_SHARE = 0.8
# Slots for an edge after a build, and bytes for a row of the first batch while it is sorted.
SLOTS_AN_EDGE, SORT_BYTES = 1 / 0.65, 32


def check_memory(caller: str, memory: Any, spill: Any, store: type[Store]) -> bool:
    """Refuse an unknown kind of memory, and one that this store cannot use; return ``spill`` as a bool."""
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


def may_move(core: GraphCore) -> bool:
    """Whether the edges of a graph lie in a GPU's memory and could lie in host memory."""
    store = core.out
    return core.backend.family == "cuda" and store.memory == "device" and "host" in store.memories
