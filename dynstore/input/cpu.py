"""Columns of ids on the host: their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["find_bounds"]


def find_bounds(backend: Backend, first: Array, second: Array) -> tuple[int, int, int, int]:
    """Return the lowest and highest of each of two integer columns; 0 is always counted as present."""
    low_first, high_first = int(first.min(initial=0)), int(first.max(initial=0))
    return low_first, high_first, int(second.min(initial=0)), int(second.max(initial=0))
