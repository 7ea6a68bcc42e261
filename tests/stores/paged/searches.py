"""What is in pages, searches for edges in them, and how many there were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynstore.stores.paged import store as store_module
from dynstore.stores.paged.filter import EdgeFilter
from dynstore.stores.paged.finding import FoundEdges, find_edges
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.merging import LOW_BITS, read_slots

__all__ = ["count_searches", "decode_rows", "find_slots"]


def decode_rows(packed: PagedRows) -> np.ndarray:
    """Return all destinations."""
    keys = read_slots(packed, packed.all_valid(), 0, packed.num_edges)[0]
    destinations: np.ndarray = packed.backend.to_host(keys) & LOW_BITS
    return destinations


def find_slots(packed: PagedRows, src: np.ndarray, dst: np.ndarray) -> list[int]:
    """Find edges behind a filter that passes all."""
    backend, passing = packed.backend, EdgeFilter(packed.backend, 0)
    passing.pass_all()
    found = find_edges(packed, packed.all_valid(), passing, backend.asarray(src), backend.asarray(dst))
    slots: list[int] = backend.to_host(found.slots).tolist()
    return slots


def count_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of searches in pages for each batch of a store."""
    searches: list[int] = []

    def noting(find: Callable[..., FoundEdges]) -> Callable[..., FoundEdges]:
        def note(*args: Any, **options: Any) -> FoundEdges:
            found = find(*args, **options)
            searches.append(found.num_searched)
            return found

        return note

    for name in ("find_batch", "find_edges"):
        monkeypatch.setattr(store_module, name, noting(getattr(store_module, name)))
    return searches
