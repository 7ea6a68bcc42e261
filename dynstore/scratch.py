"""Memory that updates work in, kept from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend, Part, Together

__all__ = ["KeptScratch", "make_scratch"]

Made = TypeVar("Made")
# What is kept of one kind, in bytes of what it is for.
MOST_SHARE = 1 / 8


def make_scratch(backend: Backend, make: Callable[..., Made], *parts: Part, zeroed: int) -> Made:
    """Return ``make(*arrays)`` of what ``backend.empty_together`` returns, for one update alone."""
    return make(*backend.empty_together(*parts, zeroed=zeroed))


class KeptScratch:
    """What the last updates of one structure worked in, by kind of update."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Together, Any]] = {}
        self._clean: set[str] = set()  # the kinds whose last call has left zeros where it found them

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy keeps nothing yet: kernels know scratch by its addresses."""
        return KeptScratch, ()

    def take(
        self, backend: Backend, kind: str, size: int, make: Callable[..., Made], *parts: Part, zeroed: int
    ) -> Made:
        """Return what :func:`make_scratch` does: the last call's, if it wanted the same.

        For what is done with by the next call of this kind, which always has as many zeroed. It is kept where it is
        small beside what it is for, of ``size`` bytes.
        """
        scratch, made = self._kept.pop(kind, (None, None))
        is_clean = kind in self._clean
        self._clean.discard(kind)
        if scratch is not None and scratch.parts == parts:
            if not is_clean:
                scratch.clear()
        else:
            scratch = made = None  # to free it before the next one is made
            scratch = backend.together(*parts, zeroed=zeroed)
            made = make(*scratch.arrays)
        if scratch.nbytes <= MOST_SHARE * size:
            self._kept[kind] = scratch, made
        return cast("Made", made)

    def note_clean(self, kind: str) -> None:
        """Take for granted that what is zeroed is zeros again when the kernels that were started so far have ended."""
        self._clean.add(kind)

    def give_away(self, kind: str) -> None:
        """Keep no longer what was taken last: it is needed past the next call."""
        self._kept.pop(kind, None)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(scratch.nbytes for scratch, _ in self._kept.values())
