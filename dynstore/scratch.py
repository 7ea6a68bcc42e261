"""Memory that updates work in, kept from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Arena, Backend, Part

__all__ = ["ScratchCache"]

Made = TypeVar("Made")
# How many bytes are kept of one kind: such a share of those that it is for, or so many where that is more. Making what
# an insertion of 1e5 edges works in (10 MB for 5 million edges) takes the host longer than all else that it does.
MAX_SHARE, MAX_BYTES = 1 / 4, 1 << 26


class ScratchCache:
    """What the last updates of one structure worked in, by kind of update."""

    def __init__(self) -> None:
        self._kept: dict[str | None, tuple[Arena, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy keeps nothing yet: kernels know scratch by its addresses."""
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
        """Return ``make(backend, *arrays)`` of what ``backend.together`` allocates: the last call's, if it wanted that.

        For what is done with by the next call of this kind, which always has as many zeroed. It is kept where it is
        small, or small beside what it is for, of ``size`` bytes. Of the kind None nothing is: it is for who needs it
        longer.
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
        """Fill nothing with zeros in the next call of this kind: kernels leave what was taken last as it was given."""
        if kind in self._kept:
            self._kept[kind][0].is_clear = True

    def give_away(self, kind: str) -> None:
        """Keep no longer what was taken last: it is needed past the next call."""
        self._kept.pop(kind, None)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(scratch.nbytes for scratch, _ in self._kept.values())
