"""Fixtures of the tests of what is CUDA's own."""

from __future__ import annotations

import pytest

from dynstore.backend import get_backend
from dynstore.edge_batch import RawEdges


@pytest.fixture
def device():
    from dynstore._cuda import compiler

    if compiler.SIMULATED:
        return "cuda-sim"
    if not get_backend().on_gpu:
        pytest.skip("no CUDA device")
    return "cuda"


@pytest.fixture
def ordering(device, monkeypatch):
    """The module, which orders batches of any length here; insertions, too, take the kernels of large batches."""
    from dynstore._cuda import ordering, unsorted

    monkeypatch.setattr(unsorted, "MOST_FUSED", 0)
    monkeypatch.setattr(ordering, "FEWEST_ROWS", 1)
    return ordering


@pytest.fixture
def pieces(ordering, monkeypatch):
    """The module; batches are searched by pieces here, whatever their share of the slots."""
    from dynstore._cuda import pieces, present, unsorted

    for module in (present, unsorted):
        monkeypatch.setattr(module, "fits_pieces", lambda *_: True)
    return pieces


@pytest.fixture
def launches():
    """The names of the kernels that are started."""
    from dynstore._cuda.compiler import around_launches

    names = []
    with around_launches(lambda name, launch: (names.append(name), launch())):
        yield names


@pytest.fixture
def sorts(monkeypatch):
    """The calls that sort a batch."""
    calls, sort = [], RawEdges._sort
    monkeypatch.setattr(RawEdges, "_sort", lambda batch: (calls.append(batch), sort(batch))[1])
    return calls
