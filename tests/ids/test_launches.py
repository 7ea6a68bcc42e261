"""What a map of ids adds to an update on CUDA: kernels, waits for the host, allocations, counted in the simulator."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from dynstore.backend import Backend
from dynstore.graph import DynamicGraph

MAP_KERNELS = ("k_look_up_keys", "k_match_keys", "k_rank_keys", "k_number_unknown", "k_insert_keys", "k_remove_keys")


class Counts(NamedTuple):
    kernels: list[str]
    copies: int  # to the host, each of which waits
    allocations: int


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch, device: str) -> Any:
    from dynstore.cuda.compiler import around_launches

    made: list[str] = []
    to_host, empty = Backend.to_host, Backend.empty

    def counting_copy(self: Backend, array: Any) -> Any:
        made.append("copy")
        return to_host(self, array)

    def counting_allocation(self: Backend, shape: Any, dtype: Any) -> Any:
        made.append("allocation")
        return empty(self, shape, dtype)

    def run(update: Any, batch: Any) -> Counts:
        made.clear()
        kernels: list[str] = []

        def start(name: str, launch: Any) -> None:
            kernels.append(name)
            launch()

        with monkeypatch.context() as patch, around_launches(start):
            patch.setattr(Backend, "to_host", counting_copy)
            patch.setattr(Backend, "empty", counting_allocation)
            update(batch)
        return Counts(kernels, made.count("copy"), made.count("allocation"))

    return run


@pytest.fixture
def device() -> str:
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        pytest.skip("counts in the simulator, where every allocation and copy is the backend's")
    return "cuda-sim"


def _graphs(device: str) -> tuple[DynamicGraph, DynamicGraph]:
    """Return a graph whose ids are int64 numbers, and one of sparse ids of the same edges."""
    src, dst = np.random.default_rng(4).integers(0, 60, (2, 400))
    plain, mapped = (DynamicGraph(device=device, renumber=renumber) for renumber in (False, True))
    plain.insert_edges((src, dst))
    mapped.insert_edges((_name(src), _name(dst)))
    return plain, mapped


def _name(numbers: np.ndarray) -> np.ndarray:
    return numbers * 2**40 + 9


def test_known_ids_take_no_kernel_no_copy_and_no_memory_more_than_int64_numbers(device: str, count: Any) -> None:
    plain, mapped = _graphs(device)
    rng = np.random.default_rng(6)
    for step in range(4):
        batch = tuple(rng.integers(0, 60, (2, 9)))
        named = tuple(_name(column) for column in batch)
        for update in ("insert_edges", "delete_edges"):
            wanted, found = count(getattr(plain, update), batch), count(getattr(mapped, update), named)
            if step:  # scratch is there
                assert found.copies <= wanted.copies
                assert found.allocations <= wanted.allocations
            assert len(found.kernels) <= len(wanted.kernels)
            assert found.kernels[0] == "k_match_keys"


def test_new_ids_take_four_kernels_and_no_copy_to_the_host(device: str, count: Any) -> None:
    plain, mapped = _graphs(device)
    for step in range(3):
        src = np.array([60 + 2 * step, 3, 61 + 2 * step, 60 + 2 * step])
        dst = np.array([5, 61 + 2 * step, 4, 9])
        wanted, found = count(plain.insert_edges, (src, dst)), count(mapped.insert_edges, (_name(src), _name(dst)))
        own = [kernel for kernel in found.kernels if kernel in MAP_KERNELS]
        if step:  # a batch after one with new ids is looked up with the host at once
            assert own == ["k_match_keys", "k_rank_keys", "k_number_unknown", "k_insert_keys"]
            assert [kernel for kernel in found.kernels if kernel not in own] == wanted.kernels[
                -len(found.kernels) + 4 :
            ]
        assert found.copies <= wanted.copies
    assert mapped.number_of_vertices() == plain.number_of_vertices() == 66
