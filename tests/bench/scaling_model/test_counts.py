"""What the model counts is what the ranks really bring to their collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.scaling_model.counts import ALGORITHMS, UPDATES, Tally, make_graph, own_rows
from dynstore import distributed
from dynstore.distributed import Communicator, CountingCommunicator, ShardedGraph, Traffic
from tests.conftest import SEED


def random_rows(num_vertices: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(SEED + count)
    src, dst = np.minimum(*random.integers(0, num_vertices, (2, count))), random.integers(0, num_vertices, count)
    src[0] = num_vertices - 1
    return src, dst, random.random(count).astype(np.float32)


def counted(size: int, rows: Any, batch: Any, directed: bool) -> list[dict[str, dict[str, Traffic]]]:
    """Return what each rank counts, by call and operation."""

    def program(comm: Communicator) -> dict[str, dict[str, Traffic]]:
        counting, found = CountingCommunicator(comm), {}
        G = ShardedGraph(counting, weighted=True, directed=directed)
        for name in ("build", *ALGORITHMS, "insert", "delete"):
            if name == "triangle_count" and directed:
                continue
            given = batch if name in UPDATES else rows
            own = tuple(column[own_rows(size, len(column)) == comm.rank] for column in given)
            counting.reset()
            if name == "delete":
                G.delete_edges(own[:2])
            elif name in ("build", "insert"):
                G.insert_edges(own)
            else:
                getattr(distributed, name)(G, *((3,) if name in ("bfs", "sssp") else ()))
            found[name] = counting.counts
        return found

    return distributed.run(program, size, "cpu")


def as_counted(tally: Tally) -> list[dict[str, Traffic]]:
    return [
        {name: Traffic(calls, int(tally.messages[name][rank]), int(tally.nbytes[name][rank]))
         for name, calls in tally.calls.items()}
        for rank in range(tally.size)
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("directed", [True, False])
def test_the_model_counts_what_ranks_bring(size: int, directed: bool) -> None:
    rows, batch = random_rows(150, 700), random_rows(150, 90)
    graph = make_graph(*rows, directed)
    found = counted(size, rows, batch, directed)
    for name in found[0]:
        if name in ALGORITHMS:
            tally = ALGORITHMS[name](graph, size, 3)
        else:
            given = rows if name == "build" else batch
            tally = UPDATES["delete" if name == "delete" else "insert"](graph, size, *given[:2])
        assert as_counted(tally) == [each[name] for each in found], name


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "sssp"])  # its rounds grow with the graph
def test_as_large_a_graph_a_rank(name: str) -> None:
    """What is foretold for a graph that grows with its ranks is near to what is counted for such a graph."""
    size, random = 4, np.random.default_rng(7)

    def uniform(num_vertices: int) -> Any:
        count = 12 * num_vertices
        return make_graph(*random.integers(0, num_vertices, (2, count)), random.random(count, np.float32), False)

    foretold = ALGORITHMS[name](uniform(600), size, 3).grown()
    found = ALGORITHMS[name](uniform(600 * size), size, 3)
    assert abs(foretold.rounds - found.rounds) <= 1
    assert foretold.vertices == pytest.approx(found.vertices, rel=0.25 if name == "bfs" else 0.02)  # by its rounds
    for operation in ("all_to_all", "all_reduce", "broadcast"):
        nbytes = found.nbytes[operation].tolist()
        assert foretold.nbytes[operation].tolist() == pytest.approx(nbytes, rel=0.25), operation
    assert foretold.rows.tolist() == pytest.approx(found.rows.tolist(), rel=0.25)


def test_lists_for_many_ranks_are_longer_than_an_envelope() -> None:
    """Of 2200 ranks each says how many rows go to each: that takes a second trip."""
    rows = random_rows(3000, 200_000)
    few, many = (UPDATES["insert"](make_graph(*rows, True), size, *rows[:2]) for size in (500, 2200))
    assert few.nbytes["all_gather"].tolist() == [499 * 2 * 4096] * 500
    assert (many.nbytes["all_gather"] > 2199 * (2 * 4096 + 4400)).all()
