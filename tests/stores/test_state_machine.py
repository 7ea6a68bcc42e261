"""Any sequence of operations leaves every store equal to the dict model, with its invariants intact."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from dynstore.stores import STORES, stores_of
from dynstore.testing.machine import make_machine

ON_GPU = "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "")


@pytest.mark.parametrize("store", sorted(STORES))
def test_any_sequence_of_operations_on_the_host(store: str) -> None:
    run_state_machine_as_test(make_machine(store, "cpu"))


@pytest.mark.parametrize("ids", ["sparse", "strings"])
def test_any_sequence_of_operations_under_ids_of_the_users_own(ids: str) -> None:
    run_state_machine_as_test(make_machine("gpma+", "cpu", ids=ids))


@pytest.mark.parametrize("merge_cost", [0.0, 1e9], ids=["in-place", "merging"])
def test_any_sequence_of_operations_on_one_path_of_gpma_plus(merge_cost: float) -> None:
    run_state_machine_as_test(make_machine("gpma+", "cpu", merge_cost=merge_cost))


SMALL_PAGES = {"delta_edges": 8, "delta_share": 0.3, "density": 0.8, "page_bits": 5}


def test_any_sequence_of_operations_in_small_pages() -> None:
    run_state_machine_as_test(make_machine("paged", "cpu", **SMALL_PAGES))


@pytest.mark.skipif(not ON_GPU, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_any_sequence_of_operations_in_small_pages_on_cuda() -> None:
    run_state_machine_as_test(make_machine("paged", "cuda", **SMALL_PAGES))


@pytest.mark.parametrize("store", stores_of("cuda"))
@pytest.mark.skipif(not ON_GPU, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_any_sequence_of_operations_on_cuda(store: str) -> None:
    run_state_machine_as_test(make_machine(store, "cuda"))


@pytest.mark.parametrize("store", ["gpma+", "merge"])
@pytest.mark.skipif(not ON_GPU, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_any_sequence_of_operations_in_host_memory(store: str) -> None:
    run_state_machine_as_test(make_machine(store, "cuda", memory="host"))


@pytest.mark.skipif(ON_GPU, reason="the simulator and CUDA exclude each other in one process")
def test_short_sequences_in_the_simulator_in_host_memory() -> None:
    machine = make_machine("gpma+", "cuda-sim", most_rows=6, most_id=40, memory="host")
    run_state_machine_as_test(machine, settings=settings(max_examples=3, stateful_step_count=8))


@pytest.mark.parametrize("ids", ["sparse", "strings"])
@pytest.mark.skipif(not ON_GPU, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_any_sequence_of_operations_on_cuda_under_ids_of_the_users_own(ids: str) -> None:
    run_state_machine_as_test(make_machine("gpma+", "cuda", ids=ids))


@pytest.mark.parametrize("ids", ["sparse", "strings"])
@pytest.mark.skipif(ON_GPU, reason="the simulator and CUDA exclude each other in one process")
def test_short_sequences_in_the_simulator_under_ids_of_the_users_own(ids: str) -> None:
    machine = make_machine("rebuild", "cuda-sim", most_rows=6, most_id=40, ids=ids)
    run_state_machine_as_test(machine, settings=settings(max_examples=3, stateful_step_count=8))


@pytest.mark.parametrize("store", stores_of("cuda"))
@pytest.mark.skipif(ON_GPU, reason="the simulator and CUDA exclude each other in one process")
def test_short_sequences_in_the_simulator(store: str) -> None:
    options = {"merge_cost": 0.0} if store == "gpma+" else {}
    machine = make_machine(store, "cuda-sim", most_rows=6, most_id=40, **options)
    run_state_machine_as_test(machine, settings=settings(max_examples=3, stateful_step_count=8))
