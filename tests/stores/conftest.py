"""Fixtures of the tests of what is CUDA's own."""

from __future__ import annotations

import pytest

from dynstore.backend import get_backend
from dynstore.batches.unsorted import RawEdges
from tests.conftest import DEVICES
from tests.crossed import pair_up

# Of the contract's batches, which are of every type. Each pair of types has kernels of its own to be compiled for each
# store; the wide ones without weights, and int32 ids with weights of float64, are for `make test-thorough`.
TYPES = [("int32", None), ("int32", "float32"), ("int64", "float64")]
BATCHES = pair_up(TYPES, [True, False], ["replace", "add"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "cuda" not in DEVICES and getattr(item, "originalname", "") == "test_random_batches_of_every_type":
            given = item.callspec.params
            types = given["vertex_dtype"], given["weight_dtype"]
            if (types, given["directed"], given["on_duplicate"]) not in BATCHES:
                item.add_marker(pytest.mark.thorough)


@pytest.fixture
def device():
    from dynstore.cuda import compiler

    if compiler.SIMULATED:
        return "cuda-sim"
    if not get_backend().on_gpu:
        pytest.skip("no CUDA device")
    return "cuda"


@pytest.fixture
def partition(device):
    """The module that orders large batches, once it is known where kernels run."""
    from dynstore.stores.pma.cuda import partition

    return partition


@pytest.fixture
def tiles(partition):
    """The module by which large batches are searched by pieces."""
    from dynstore.stores.pma.cuda import tiles

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


@pytest.fixture
def cupy(device):
    """CuPy, on a real GPU."""
    if device != "cuda":
        pytest.skip("needs a GPU")
    return pytest.importorskip("cupy")
