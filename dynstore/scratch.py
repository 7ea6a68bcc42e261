"""Scratch memory, kept from one update to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Arena, Backend, Part

__all__ = ["ScratchCache"]

Made = TypeVar("Made")
# The most bytes kept of one kind: this share of the structure's bytes, or MAX_BYTES if that is more. Making the scratch
# of an insertion of 1e5 edges (10 MB for 5 million edges) takes the host longer than the rest of its work.
MAX_SHARE, MAX_BYTES = 1 / 4, 1 << 26


class ScratchCache:
    """The scratch of the last updates of one structure, by kind of update."""

    def __init__(self) -> None:
        self._kept: dict[str | None, tuple[Arena, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle as an empty cache: packed arguments hold the scratch's addresses."""
        return ScratchCache, ()

    def take(
        self,
        backend: Backend,
        kind: str | None,
        size: int,
        make: Callable[..., Made],
        parts: tuple[Part, ...],
        zeroed: int = 0,
    ) -> Made:
        """Return ``make(backend, *arrays)`` of an arena, or the last call's result if ``parts`` are the same.

        The caller must be done with it by the next call of this kind, and always pass the same ``zeroed``. It is kept
        if it is small, by itself or compared with the ``size`` bytes of the structure. For the kind None nothing is
        kept, so the caller may use it longer.
        """
        kept = self._kept.get(kind)
        if kept is not None and kept[0].parts == parts:
            kept[0].clear()
            made: Made = kept[1]
            return made
        self._kept.pop(kind, None)
        kept = None  # to free it before the next one is made
        scratch = backend.arena(*parts, zeroed=zeroed)
        made = make(backend, *scratch.arrays)
        if kind is not None and scratch.nbytes <= max(MAX_SHARE * size, MAX_BYTES):
            self._kept[kind] = scratch, made
        return made

    def leave_clear(self, kind: str) -> None:
        """Skip the zeroing in the next call of this kind: kernels have left zeros where the scratch had zeros."""
        if kind in self._kept:
            self._kept[kind][0].is_clear = True

    def give_away(self, kind: str) -> None:
        """Drop the last scratch of this kind from the cache: the caller needs it longer."""
        self._kept.pop(kind, None)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(scratch.nbytes for scratch, _ in self._kept.values())
