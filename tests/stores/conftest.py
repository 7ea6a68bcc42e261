"""Fixtures of the tests of what is CUDA's own."""

from __future__ import annotations

import pytest

from dynstore.backend import get_backend
from dynstore.batches.unsorted import RawEdges


@pytest.fixture
def device():
    from dynstore.cuda import compiler

    if compiler.SIMULATED:
        return "cuda-sim"
    if not get_backend().on_gpu:
        pytest.skip("no CUDA device")
    return "cuda"


@pytest.fixture
def partition(device, monkeypatch):
    """The module, which orders batches of any length here; insertions, too, take the kernels of large batches."""
    from dynstore.stores.gpma_plus.cuda import insert_buckets
    from dynstore.stores.pma.cuda import partition

    monkeypatch.setattr(insert_buckets, "MAX_FUSED", 0)
    monkeypatch.setattr(partition, "MIN_ROWS", 1)
    return partition


@pytest.fixture
def tiles(partition, monkeypatch):
    """The module; batches are searched by pieces here, whatever their share of the slots."""

    from dynstore.stores.gpma_plus.cuda import insert_buckets
    from dynstore.stores.pma.cuda import delete, tiles

    for module in (delete, insert_buckets):
        monkeypatch.setattr(module, "fits_tiles", lambda *_: True)
    return tiles


@pytest.fixture
def launches():
    """The names of the kernels that are started."""
    from dynstore.cuda.compiler import around_launches

    names = []
    with around_launches(lambda name, launch: (names.append(name), launch())):
        yield names


@pytest.fixture
def sorts(monkeypatch):
    """The calls that sort a batch."""
    calls, sort = [], RawEdges._sort
    monkeypatch.setattr(RawEdges, "_sort", lambda batch: (calls.append(batch), sort(batch))[1])
    return calls
