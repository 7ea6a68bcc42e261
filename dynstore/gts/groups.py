"""Which pages go over the link together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["Group", "list_groups"]


class Group(NamedTuple):
    """Neighbouring pages, all small or all large."""

    first: int
    size: int
    is_large: bool


def list_groups(pids: np.ndarray, ranges: np.ndarray, most: int, borders: tuple[int, ...]) -> Iterator[Group]:
    """Yield groups of at most ``most`` pages: first all small pages, then all large ones, each in order.

    Parameters
    ----------
    pids : numpy.ndarray, int64
        Page ids, ascending.
    ranges : numpy.ndarray
        The RVT's LP_RANGE.
    borders : tuple of int
        No group has pages on both sides of one of these page ids.
    """
    large = ranges[pids] >= 0
    zones = np.searchsorted(borders, pids, side="right")
    for is_large in (False, True):
        chosen = large == is_large
        some, zone = pids[chosen], zones[chosen]
        if not some.shape[0]:
            continue
        begins = np.flatnonzero((np.diff(some, prepend=-2) != 1) | (np.diff(zone, prepend=-1) != 0))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), some.shape[0]], strict=True):
            for at in range(begin, end, most):
                yield Group(int(some[at]), min(most, end - at), is_large)
