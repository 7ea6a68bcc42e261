"""Shards in host memory: each rank's edges lie where it has room, and what one rank moves concerns no other one."""

from __future__ import annotations

from threading import current_thread
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import distributed
from dynstore.backend import Backend
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import OutOfMemoryError
from dynstore.stores import get_store
from tests.conftest import DEVICES, SEED
from tests.distributed.one_graph import by_edge, state_of

CUDA = [name for name in DEVICES if name != "cpu"]
STORE = get_store("gpma+")


def rows(seed: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(SEED + seed)
    return (*random.integers(0, 30, (2, 25)), random.random(25).astype(np.float32))


def refuse_on_one_rank(monkeypatch: pytest.MonkeyPatch, times: int = 1000) -> None:
    """Let the memory of rank 1 run out in plans for edges on the device."""
    plan, left = STORE.plan_insert, [times]

    def refusing(store: Any, *args: Any, **more: Any) -> Any:
        on_device = store.backend.family == "cuda" and store.memory == "device"
        if current_thread().name == "rank 1" and on_device and left[0]:
            left[0] -= 1
            raise OutOfMemoryError("the device has no room")
        return plan(store, *args, **more)

    monkeypatch.setattr(STORE, "plan_insert", refusing)


def compare(G: ShardedGraph, updates: int) -> None:
    one = dynstore.DynamicGraph(device="cpu", weighted=True, frames="pandas")
    for step in range(updates):
        for rank in range(G.comm.size):
            one.insert_edges(rows(2 * step + rank))
    tables = G.comm.all_gather(by_edge(G.edge_table(), True))
    assert tables[0] | tables[1] == by_edge(one.edge_table(), True)
    ranked: Any = distributed.pagerank(G, max_iter=4, tol=0.0, fail_on_nonconvergence=False)
    expected: Any = dynstore.pagerank(one, max_iter=4, tol=0.0, fail_on_nonconvergence=False)
    np.testing.assert_allclose(ranked[0]["pagerank"], expected[0]["pagerank"], rtol=1e-4)
    assert distributed.bfs(G, 3).equals(dynstore.bfs(one, 3))


@pytest.mark.parametrize("device", CUDA)
def test_edges_in_host_memory(device: str) -> None:
    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm, weighted=True, frames="pandas", memory="host")
        G.insert_edges(rows(comm.rank))
        assert G.shard.memory == "host"
        compare(G, 1)

    distributed.run(program, 2, device)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", CUDA)
def test_the_first_batch_chooses_on_each_rank(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 10 if current_thread().name == "rank 1" else 1 << 24)

    def program(comm: Communicator) -> str:
        G = ShardedGraph(comm, weighted=True, frames="pandas", memory="auto")
        G.insert_edges(rows(comm.rank))
        compare(G, 1)
        return G.shard.memory

    assert distributed.run(program, 2, device) == ["device", "host"]  # type: ignore[arg-type]


@pytest.mark.parametrize("device", CUDA)
def test_one_rank_spills(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(comm: Communicator) -> list[str]:
        G = ShardedGraph(comm, weighted=True, frames="pandas", spill=True)
        G.insert_edges(rows(comm.rank))
        memories = [G.shard.memory]
        comm.barrier()
        if comm.rank == 0:
            refuse_on_one_rank(monkeypatch)
        comm.barrier()
        G.insert_edges(rows(2 + comm.rank))
        compare(G, 2)
        return [*memories, G.shard.memory]

    assert distributed.run(program, 2, device) == [["device", "device"], ["device", "host"]]  # type: ignore[arg-type]


@pytest.mark.parametrize("device", CUDA)
def test_one_rank_that_may_not_spill_refuses(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(comm: Communicator) -> str:
        G = ShardedGraph(comm, weighted=True, frames="pandas")
        G.insert_edges(rows(comm.rank))
        before = state_of(G)
        comm.barrier()
        if comm.rank == 0:
            refuse_on_one_rank(monkeypatch, 1)
        comm.barrier()
        with pytest.raises(OutOfMemoryError) as caught:
            G.insert_edges(rows(2 + comm.rank))
        assert state_of(G) == before
        G.insert_edges(rows(2 + comm.rank))
        compare(G, 2)
        return str(caught.value)

    texts = distributed.run(program, 2, device)  # type: ignore[arg-type]
    assert all('the device has no room; memory="host" keeps the edges in host memory' in text for text in texts)
    assert "rank 1 refused it" in texts[0]
