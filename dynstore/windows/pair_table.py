"""The hash table of a window's pairs, as its kernels take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["EMPTY", "PairTable"]

EMPTY = -1  # the key of a slot without a pair


class PairTable(NamedTuple):
    """What the kernels of a slide read and write; see :class:`~dynstore.windows.pairs.Pairs`.

    Attributes
    ----------
    keys, counts : arrays, shape (S,)
    held : array, shape (S, 1) or (S, 2)
        What slots hold beside counts, so what a slide saves: ``latest`` or ``sums``.
    sums : array, shape (S, 2)
    latest, marks : arrays, shape (S,)
        Without entries where the window needs none.
    signed : bool
        Whether a weight was negative, so that sums may be.
    seed : int
    slide : int
        The number of this slide, for marks.
    """

    keys: Array
    counts: Array
    held: Array
    sums: Array
    latest: Array
    marks: Array
    signed: bool
    seed: int
    slide: int
