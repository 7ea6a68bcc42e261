"""The filter of edges: what it passes, and which searches it saves."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.backend import Backend
from dynstore.graph import DynamicGraph
from dynstore.stores.paged.cpu import d_find_bits
from dynstore.stores.paged.filter import EdgeFilter
from dynstore.typing import Array
from tests.stores.paged.searches import count_searches
from tests.stores.paged.test_store import SMALL


@pytest.mark.parametrize("mean_degree", [1, 3, 200])
def test_the_filter_passes_all_edges_and_few_others(mean_degree: int, backend: Backend) -> None:
    rng = np.random.default_rng(3)
    count = 20_000 if backend.family == "cpu" else 600
    num_rows = count // mean_degree
    rows, others = rng.integers(0, num_rows, 2 * count), rng.integers(0, 2**31, 2 * count)
    keys = rng.permutation(np.unique((rows << 32) | others))
    added, absent = backend.asarray(keys[::2]), backend.asarray(keys[1::2])
    degrees = np.bincount(keys[::2] >> 32, minlength=num_rows)
    offsets = np.concatenate(([0], np.cumsum(degrees)))
    passing = EdgeFilter(backend, int(added.shape[0]))

    def share_passed(keys: Array) -> float:
        words, passed = backend.to_host(passing.words), 0
        for key in backend.to_host(keys):
            place, bits = d_find_bits(offsets, key >> 32, key & 0xFFFFFFFF, len(words))
            passed += int(words[place]) & int(bits) == int(bits)
        return passed / len(keys)

    assert share_passed(added) == 0
    passing.add(backend.asarray(offsets), added)
    assert share_passed(added) == 1
    assert passing.nbytes == pytest.approx(1.5 * added.shape[0], rel=0.1)
    assert share_passed(absent) < 0.03


def test_new_edges_are_hardly_looked_for_in_pages(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph(store="paged", device=backend_name, **{**SMALL, "delta_edges": 500})
    src, dst = np.divmod(np.arange(1000), 40)
    G.insert_edges((src, dst))
    looked = count_searches(monkeypatch)
    assert G.insert_edges((src[:400], dst[:400] + 50)).inserted == 400
    assert sum(looked) < 60
    assert G.has_edges((src[:100], dst[:100])).all()
    assert 100 <= sum(looked) < 170
