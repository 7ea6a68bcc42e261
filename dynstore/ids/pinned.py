"""The ids of a version that is read while its graph gets new ones."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.ids.mapped import MappedIds

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.ids.base import Names, VertexIds
    from dynstore.input.columns import EdgeColumns
    from dynstore.typing import Array

__all__ = ["PinnedIds", "pin_ids"]


def pin_ids(ids: VertexIds, num_vertices: int, lock: RLock) -> VertexIds:
    """Return the ids of the first ``num_vertices`` vertices, whatever happens to a graph's ids.

    ``lock`` is held by whatever writes to ``ids``.
    """
    return PinnedIds(ids, num_vertices, lock) if isinstance(ids, MappedIds) else ids


class PinnedIds(MappedIds):
    """The first ids of a graph, in the graph's own table; later ones are unknown.

    A table only gains ids: reordering and clearing leave it to its readers. With ``reuse_ids=True``, where numbers get
    other ids, the table is copied at once. Readers of a table of its own do not wait for the graph's updates.
    """

    def __init__(self, ids: MappedIds, count: int, lock: RLock) -> None:
        self.__dict__.update((ids.copy() if ids.reuse_ids else ids).__dict__)
        self._count, self._is_own = count, ids.reuse_ids
        self._lock = RLock() if self._is_own else lock

    def detach(self) -> Callable[[], None]:
        """Copy the table; return a function that begins to use the copy, which cannot fail."""
        table = self._table if self._table is None or self._is_own else self._table.copy()

        def commit() -> None:
            self._table, self._lock, self._is_own = table, RLock(), True

        return commit

    def find_edges(
        self,
        caller: str,
        edges: Any,
        names: Names,
        weight_dtype: np.dtype | None,
        num_vertices: int,
        validate: bool = True,
    ) -> EdgeColumns:
        with self._lock:
            return super().find_edges(caller, edges, names, weight_dtype, num_vertices)

    def find(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Any]:
        with self._lock:
            numbers, stranger = super().find(caller, ids, num_vertices)
            late = numbers >= self._count
            if bool(late.any()):
                if stranger is None:
                    stranger = super().of(numbers[late][:1], num_vertices)[0]
                    stranger = stranger if isinstance(stranger, str) else int(stranger)
                numbers = self.backend.xp.where(late, -1, numbers)
        return numbers, stranger

    def of(self, numbers: Array, num_vertices: int) -> Array:
        with self._lock:
            return super().of(numbers, num_vertices)

    def column(self, num_vertices: int, library: str, numbers: Array | None = None) -> Any:
        if numbers is None:
            numbers = self.backend.xp.arange(self._count, dtype=self.dtype)
        with self._lock:
            return super().column(num_vertices, library, numbers)

    def ends(
        self, src: Array, dst: Array, num_vertices: int, once: bool, library: str | None = None
    ) -> tuple[Any, Any]:
        with self._lock:
            return super().ends(src, dst, num_vertices, once, library)

    def by_id(self, numbers: Array, num_vertices: int) -> Array:
        with self._lock:
            return super().by_id(numbers, num_vertices)

    def all(self, num_vertices: int) -> Array:
        with self._lock:
            return super().all(num_vertices)[: self._count]

    def columns(self, num_vertices: int, kept: Array | None = None) -> dict[str, Array]:
        with self._lock:
            if kept is None:
                kept = self.backend.xp.arange(num_vertices, dtype=np.int64)
            return super().columns(num_vertices, kept)

    def memory_usage(self) -> dict[str, int]:
        with self._lock:
            return super().memory_usage() if self._is_own else {}
