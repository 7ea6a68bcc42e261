"""Memory, options and limits of the store."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.errors import InputError, LimitError
from tests.stores.slab_hash.test_store import make


def test_memory_by_part_and_capacity():
    graph = make(capacity=21_000)
    usage = graph.memory_usage()
    assert usage["slabs"] == 1000 * 128
    graph.insert_edges((np.arange(5000) % 50, np.arange(5000)))
    assert graph.memory_usage()["slabs"] == 1000 * 128
    assert graph.memory_usage()["src"] == 0
    graph.snapshot()
    assert graph.memory_usage()["src"] == 4 * 5000
    assert graph.memory_usage()["heads"] >= 17 * graph.number_of_vertices()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"load_factor": 0}, "load_factor"),
        ({"load_factor": "much"}, "load_factor"),
        ({"max_chain": 0}, "max_chain is 0; wanted 1 or more"),
        ({"max_chain": 1.5}, "max_chain"),
        ({"reuse_tombstones": 1}, "reuse_tombstones"),
        ({"pool_growth": 1.0}, "pool_growth"),
        ({"slab": 1}, "unknown parameter 'slab'"),
    ],
)
def test_options_that_cannot_be_used(options, match):
    with pytest.raises(InputError, match=match):
        make(**options)


def test_more_slabs_than_there_are_numbers_for():
    with pytest.raises(LimitError, match="slabs are needed"):
        make(vertex_dtype="int64", capacity=1 << 40, load_factor=1.0)
