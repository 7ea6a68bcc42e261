"""Algorithms over shards give what they give on one graph, on every rank."""

from __future__ import annotations

from contextlib import nullcontext
from threading import Lock, current_thread
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import distributed
from dynstore.backend import get_backend
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import (
    FailedToConvergeError,
    InputError,
    InputTypeError,
    OutOfMemoryError,
    RankError,
    UnweightedGraphError,
)
from dynstore.testing.pair import ID_KINDS
from tests.conftest import DEVICES, SEED
from tests.crossed import crossed
from tests.distributed.faults import fault_of_one_rank


def sharded(device: str, ranks: int, columns, calls, **options):
    """Insert columns, a part a rank, and return what calls of the graph return."""

    def program(comm: Communicator):
        G = ShardedGraph(comm, **{"frames": "pandas", **options})
        ends = np.arange(ranks + 1) * len(columns[0]) // ranks
        G.insert_edges(tuple(column[ends[comm.rank] : ends[comm.rank + 1]] for column in columns))
        return [call(G) for call in calls]

    return distributed.run(program, ranks=ranks, device=device)


CALLS = [
    lambda G: distributed.bfs(G, [3, 4]),
    lambda G: distributed.bfs(G, 0, depth_limit=2, return_predecessors=False),
    distributed.weakly_connected_components,
    lambda G: distributed.pagerank(G, tol=1e-6),
]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("options", [{"weighted": True}, {"vertex_dtype": "int64", "store": "slab_hash"}])
def test_one_graph_says_the_same(ranks: int, directed: bool, options: dict) -> None:
    random = np.random.default_rng(SEED + ranks)
    columns = [random.integers(0, 300, 280), random.integers(0, 300, 280)]
    columns += [random.random(280)] if options.get("weighted") else []
    one = dynstore.DynamicGraph.from_edges(tuple(columns), directed=directed, device="cpu", **options)
    wanted = [
        dynstore.bfs(one, [3, 4]),
        dynstore.bfs(one, 0, depth_limit=2, return_predecessors=False),
        dynstore.weakly_connected_components(one),
    ]
    ranked = dynstore.pagerank(one, tol=1e-6)
    for found in sharded("cpu", ranks, columns, CALLS, directed=directed, **options):
        assert all(one.equals(other) for one, other in zip(found[:3], wanted, strict=True))
        assert found[3].dtypes.tolist() == ranked.dtypes.tolist()
        np.testing.assert_allclose(found[3]["pagerank"], ranked["pagerank"], atol=1e-5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("weight_dtype", ["float32", "float64"])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("ties", [True, False])
def test_shortest_paths(ranks: int, weight_dtype: str, directed: bool, ties: bool) -> None:
    random = np.random.default_rng(SEED + ranks)
    weights = random.integers(0, 4, 900) / 4 if ties else random.random(900) * (random.random(900) < 0.8)
    weights = weights.astype(weight_dtype)
    weights[:3] = np.inf
    columns = [random.integers(0, 300, 900), random.integers(0, 300, 900), weights]
    options = {"directed": directed, "weighted": True, "weight_dtype": weight_dtype}
    one = dynstore.DynamicGraph.from_edges(tuple(columns), device="cpu", **options)
    calls = [lambda G: distributed.sssp(G, 3), lambda G: distributed.sssp(G, 7, cutoff=0.75)]
    for found in sharded("cpu", ranks, columns, calls, **options):
        for frame, wanted in zip(found, (dynstore.sssp(one, 3), dynstore.sssp(one, 7, cutoff=0.75)), strict=True):
            assert list(frame.columns) == list(wanted.columns)
            assert frame.dtypes.tolist() == wanted.dtypes.tolist()
            assert frame["distance"].tolist() == wanted["distance"].tolist()
            check_predecessors(one, frame)


def check_predecessors(one: dynstore.DynamicGraph, frame) -> None:
    """Assert that each predecessor is one edge nearer, and that they lead to the source."""
    distances, before = frame["distance"].to_numpy(), frame["predecessor"].to_numpy()
    reached = np.flatnonzero(before >= 0)
    assert (distances[before < 0] != 0).sum() == (distances == np.finfo(distances.dtype).max).sum()
    lengths = one.edge_weights((before[reached], reached))
    np.testing.assert_array_equal(distances[before[reached]] + lengths, distances[reached])
    steps = reached
    for _ in range(len(before)):
        steps = before[steps]
        steps = steps[steps >= 0]
    assert not len(steps), "predecessors go round in a circle"


@crossed(dtypes=[("float32", "int32"), ("float64", "int64")], directed=[True, False], backend_name=DEVICES)
def test_shortest_paths_on_kernels_of_the_device(backend_name: str, directed: bool, dtypes: tuple[str, str]) -> None:
    """A hub, whose row is cut into pieces, ties, a path and a ring of zeros, vertices that nothing reaches."""
    random = np.random.default_rng(SEED)
    path, ring = np.arange(160, 166), np.arange(170, 174)
    hub = random.permutation(150)[:80]
    columns = [
        np.concatenate((np.full(80, 7), random.integers(0, 150, 90), [5, 3], path, ring, [175])),
        np.concatenate((hub, random.integers(0, 150, 90), [160, 171], path + 1, np.roll(ring, -1), [176])),
    ]
    weights = random.integers(1, 6, len(columns[0])).astype(dtypes[0])
    weights[100:130] = weights[-11:-1] = 0
    columns.append(weights)
    options = {"directed": directed, "weighted": True, "weight_dtype": dtypes[0], "vertex_dtype": dtypes[1]}
    one = dynstore.DynamicGraph.from_edges(tuple(columns), device="cpu", **options)
    calls = [lambda G: distributed.sssp(G, 7), lambda G: distributed.sssp(G, 170), lambda G: distributed.sssp(G, 7, 4)]
    wanted = [dynstore.sssp(one, 7), dynstore.sssp(one, 170), dynstore.sssp(one, 7, cutoff=4)]
    smallest = sharded("cpu", 1, columns, calls, **options)[0]
    for found in sharded(backend_name, 2, columns, calls, **options):
        for frame, first, other in zip(found, smallest, wanted, strict=True):
            assert frame.equals(first)
            assert frame["distance"].equals(other["distance"])
            check_predecessors(one, frame)


@crossed(ranks=[1, 2, 3, 4], vertex_dtype=["int32", "int64"], backend_name=DEVICES)
def test_triangles(backend_name: str, ranks: int, vertex_dtype: str) -> None:
    random = np.random.default_rng(SEED + ranks)
    columns = [np.minimum(random.integers(0, 60, 500), random.integers(0, 60, 500)), random.integers(0, 60, 500)]
    options = {"directed": False, "vertex_dtype": vertex_dtype}
    one = dynstore.DynamicGraph.from_edges(tuple(columns), device="cpu", **options)
    calls = [distributed.triangle_count, lambda G: distributed.triangle_count(G, [5, 3])]
    for found in sharded(backend_name, ranks, columns, calls, **options):
        assert found[0].equals(dynstore.triangle_count(one))
        assert found[1].equals(dynstore.triangle_count(one, [5, 3]))


@pytest.mark.parametrize("columns", [([0], [1]), ([0, 1, 2], [1, 2, 0]), ([4], [4])])
def test_some_ranks_have_no_edges(backend_name: str, columns: tuple[list[int], list[int]]) -> None:
    options = {"directed": False, "weighted": True}
    weighted = tuple(np.array(column) for column in (*columns, [0.5] * len(columns[0])))
    one = dynstore.DynamicGraph.from_edges(weighted, device="cpu", **options)
    calls = [distributed.triangle_count, lambda G: distributed.sssp(G, 0)]
    for found in sharded(backend_name, 4, weighted, calls, **options):
        assert found[0].equals(dynstore.triangle_count(one))
        assert found[1].equals(dynstore.sssp(one, 0))


@crossed(options=[{}, {"weighted": True}, {"vertex_dtype": "int64"}], directed=[True, False], backend_name=DEVICES)
def test_on_kernels_of_the_device(backend_name: str, directed: bool, options: dict) -> None:
    """A hub, whose row is cut into pieces, short rows, a loop, a path, and vertices without edges."""
    random = np.random.default_rng(SEED)
    hub, path = random.permutation(150)[:80], np.arange(160, 166)
    columns = [
        np.concatenate((np.full(80, 7), random.integers(0, 150, 40), [5], path)),
        np.concatenate((hub, random.integers(0, 150, 40), [5], path + 1)),
    ]
    columns += [random.random(len(columns[0])).astype(np.float32)] if options.get("weighted") else []
    one = dynstore.DynamicGraph.from_edges(tuple(columns), directed=directed, device="cpu", **options)
    calls = [
        lambda G: distributed.bfs(G, [7, 160]),
        lambda G: distributed.bfs(G, 0, return_predecessors=False),
        CALLS[2],
        lambda G: distributed.pagerank(G, max_iter=6, tol=0.0, fail_on_nonconvergence=False)[0],
    ]
    ranked = dynstore.pagerank(one, max_iter=6, tol=0.0, fail_on_nonconvergence=False)[0]
    for found in sharded(backend_name, 2, columns, calls, directed=directed, **options):
        assert found[0].equals(dynstore.bfs(one, [7, 160]))
        assert found[1].equals(dynstore.bfs(one, 0, return_predecessors=False))
        assert found[2].equals(dynstore.weakly_connected_components(one))
        np.testing.assert_allclose(found[3]["pagerank"], ranked["pagerank"], rtol=1e-4)


def test_a_long_path_over_all_ranks() -> None:
    path = np.random.default_rng(SEED).permutation(400)
    columns = [path[:-1], path[1:]]
    calls = [lambda G: distributed.bfs(G, int(path[0])), CALLS[2]]
    for searched, labelled in sharded("cpu", 4, columns, calls):
        assert searched["distance"].to_numpy()[path].tolist() == list(range(400))
        assert searched["predecessor"].to_numpy()[path].tolist() == [-1, *path[:-1].tolist()]
        assert labelled["labels"].tolist() == [0] * 400


def test_ids_of_any_kind() -> None:
    name = ID_KINDS["strings"]
    numbers = np.array([0, 1, 2, 5, 9]), np.array([1, 2, 3, 6, 5])
    columns = [np.array([name(number) for number in column], dtype=object) for column in numbers]
    calls = [lambda G: distributed.bfs(G, "v0"), CALLS[2], CALLS[3]]
    one = dynstore.DynamicGraph.from_edges(tuple(columns), renumber=True, device="cpu")
    ranked = dynstore.pagerank(one, tol=1e-6).set_index("vertex")["pagerank"]
    for searched, labelled, ranks in sharded("cpu", 3, columns, calls, renumber=True):
        reached = searched[searched["distance"] < 100].set_index("vertex")
        assert reached["distance"].to_dict() == {"v0": 0, "v1": 1, "v2": 2, "v3": 3}
        assert reached["predecessor"].dropna().to_dict() == {"v1": "v0", "v2": "v1", "v3": "v2"}
        parts = {frozenset(part["vertex"]) for _, part in labelled.groupby("labels")}
        assert parts == {frozenset({"v0", "v1", "v2", "v3"}), frozenset({"v5", "v6", "v9"})}
        for vertex, rank in zip(ranks["vertex"], ranks["pagerank"], strict=True):
            assert rank == pytest.approx(ranked[vertex], abs=1e-5)


def test_an_empty_graph() -> None:
    columns = np.empty(0, np.int64), np.empty(0, np.int64)
    for found in sharded("cpu", 2, columns, CALLS[2:]):
        assert [len(frame) for frame in found] == [0, 0]


def test_ranks_that_do_not_converge() -> None:
    columns = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 3])
    (first, second) = sharded(
        "cpu", 2, columns, [lambda G: distributed.pagerank(G, max_iter=2, tol=1e-9, fail_on_nonconvergence=False)]
    )
    assert first[0][1] is second[0][1] is False
    with pytest.raises(RankError, match="failed to converge: after 2 iterations") as caught:
        sharded("cpu", 2, columns, [lambda G: distributed.pagerank(G, max_iter=2, tol=1e-9)])
    assert isinstance(caught.value.__cause__, FailedToConvergeError)


READING = {
    "bfs": lambda G: distributed.bfs(G, 0),
    "sssp": lambda G: distributed.sssp(G, 0),
    "pagerank": distributed.pagerank,
    "components": distributed.weakly_connected_components,
    "triangles": distributed.triangle_count,
    "has_edges": lambda G: G.has_edges([(G.comm.rank, 1), (1, 2)]),
    "edge_weights": lambda G: G.edge_weights([(G.comm.rank, 1), (1, 2)]),
    "degree": lambda G: G.degree([G.comm.rank]),
    "gather": lambda G: G.gather(1),
}


@pytest.mark.parametrize("kind", ["empty", "xp"])
@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("failing", range(3))
def test_each_allocation_of_one_rank_fails_in_turn(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, failing: int
) -> None:
    backend = get_backend("cpu")
    faulty = fault_of_one_rank(backend, kind, failing)

    def program(comm: Communicator) -> int:
        G = ShardedGraph(comm, weighted=True, directed=False)
        G.insert_edges([(0, 1, 1.0), (1, 2, 0.5), (2, 0, 1.0), (2, 3, 1.0), (3, 4, 1.0)])
        for failures in range(1000):
            if comm.rank == failing:
                faulty.calls, faulty.fail_at, faulty.armed = 0, failures, True
            try:
                READING[name](G)
                return failures
            except OutOfMemoryError:
                pass
            finally:
                if comm.rank == failing:
                    faulty.armed = False
        raise AssertionError("it fails for ever")

    with monkeypatch.context() as patch:
        patch.setattr(backend, kind, faulty)
        counts = distributed.run(program, ranks=3, device="cpu", timeout=20.0)
    assert counts[0] == counts[1] == counts[2] >= (kind == "xp")


def test_wrong_calls() -> None:
    columns = np.array([0, 1]), np.array([1, 2]), np.array([1.0, -1.0])

    def refuse(G: ShardedGraph) -> None:
        with pytest.raises(InputError, match=r"pagerank: .*the graph has negative weights"):
            distributed.pagerank(G)
        with pytest.raises(InputError, match=r"bfs: .*Found invalid vertex"):
            distributed.bfs(G, 0 if G.comm.rank else 77)
        with pytest.raises(InputError, match=r"sssp: .*the graph has negative weights"):
            distributed.sssp(G, 0)
        with pytest.raises(InputError, match=r"triangle_count: .*must be undirected"):
            distributed.triangle_count(G)
        with pytest.raises(UnweightedGraphError, match=r"sssp: .*got ShardedGraph\(weighted=False\)"):
            distributed.sssp(ShardedGraph(G.comm), 0)
        with pytest.raises(InputTypeError, match=r"bfs: G is a .*DynamicGraph; wanted a ShardedGraph. dynstore.bfs is"):
            distributed.bfs(G.shard, 0)  # type: ignore[arg-type]

    sharded("cpu", 2, columns, [refuse], weighted=True)


@pytest.mark.parametrize(
    ("place", "tol"),
    [
        ("ranks.Ranking._advance", 1e-9),
        ("ranks.Ranking._advance", 0.0),
        ("searches.Search._expand", None),
        ("searches.Search.take", None),
        ("shortest_paths.Paths._relax", None),
        ("shortest_paths.Paths.take", None),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_what_fails_between_transfers_is_raised_on_all_ranks(
    device: str, place: str, tol: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 fails in its third step, where ranks meet without agreements; the next call works."""
    kernels = get_backend(device).kernels("dynstore.distributed", place.split(".")[0])
    owner, name = getattr(kernels, place.split(".")[1]), place.split(".")[2]
    step, steps, lock = getattr(owner, name), [0], Lock()

    def failing(self: Any, *args: Any) -> None:
        with lock:
            steps[0] += current_thread().name == "rank 1"
            fails = current_thread().name == "rank 1" and steps[0] == 3
        if fails:
            with self.failure if name == "take" else nullcontext():
                raise MemoryError("there is no room")
            return
        step(self, *args)

    def call(G: ShardedGraph) -> Any:
        if place.startswith("searches"):
            return distributed.bfs(G, 0)
        if place.startswith("shortest_paths"):
            return distributed.sssp(G, 0)
        return distributed.pagerank(G, max_iter=9, tol=tol, fail_on_nonconvergence=False)[0]

    def program(comm: Communicator) -> str:
        G = ShardedGraph(comm, directed=False, frames="pandas", weighted=place.startswith("shortest_paths"))
        columns = [*range(8), 0], [*range(1, 9), 5], np.full(9, 0.5)
        G.insert_edges(columns if G.is_weighted() else columns[:2])
        before = call(G)
        comm.barrier()
        if comm.rank == 0:
            steps[0] = 0
            monkeypatch.setattr(owner, name, failing)
        comm.barrier()
        with pytest.raises(OutOfMemoryError) as caught:
            call(G)
        assert call(G).equals(before)
        return str(caught.value)

    texts = distributed.run(program, 3, device)  # type: ignore[arg-type]
    assert all("there is no room" in text for text in texts)
    assert all("rank 1 refused it" in text for text in (texts[0], texts[2]))
