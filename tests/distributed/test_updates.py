"""A sharded graph does what one graph does, whatever ranks a batch comes in on; what one rank refuses, all refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import distributed
from dynstore.backend import get_backend
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import DynstoreError, InputError, InputTypeError, LimitError, OutOfMemoryError, RankError
from dynstore.graph.core import GraphCore
from dynstore.graph.transaction import Transaction
from dynstore.stores import STORES, get_store
from dynstore.testing.pair import ID_KINDS
from tests.conftest import DEVICES, SEED
from tests.crossed import crossed, in_turn
from tests.distributed.faults import fault_of_one_rank
from tests.distributed.one_graph import Script, compare, state_of

NAMES: dict[str, Any] = {"dense": int, "sparse": ID_KINDS["sparse"], "strings": ID_KINDS["strings"]}
CUDA = [name for name in DEVICES if name != "cpu"]


def run(function, ranks=3, device="cpu"):
    return distributed.run(function, ranks=ranks, device=device, timeout=60.0)


@crossed(ranks=[1, 2, 3, 4], directed=[True, False], weighted=[True, False], ids=list(NAMES))
def test_random_updates(ranks: int, directed: bool, weighted: bool, ids: str) -> None:
    script = Script(SEED + ranks, ranks, num_ids=12, weighted=weighted, name=NAMES[ids])
    compare(script, 12, "cpu", directed=directed, weighted=weighted, renumber=ids != "dense")


@pytest.mark.parametrize("directed", [True, False])
def test_random_updates_by_range(directed: bool) -> None:
    script = Script(SEED, 3, num_ids=40, weighted=True, most=60)
    compare(script, 12, "cpu", "range", directed=directed, weighted=True, max_vertices=40, vertex_dtype="int64")


@in_turn(store=list(STORES), directed=[True, False])
def test_random_updates_in_each_store(store: str, directed: bool) -> None:
    options = {"store": store, "weighted": True, "directed": directed}
    compare(Script(SEED, 3, num_ids=12, weighted=True), 8, "cpu", **options)


@pytest.mark.parametrize("device", CUDA)
@pytest.mark.parametrize("store", [name for name in STORES if "cuda" in get_store(name).families])
def test_random_updates_in_each_store_by_cuda_kernels(device: str, store: str) -> None:
    compare(Script(SEED, 2, num_ids=8, weighted=False, most=6), 3, device, store=store)


@pytest.mark.parametrize("device", CUDA)
@pytest.mark.parametrize(("directed", "ids"), [(True, "dense"), (False, "strings")])
def test_random_updates_by_cuda_kernels(device: str, directed: bool, ids: str) -> None:
    script = Script(SEED, 2, num_ids=8, weighted=not directed, name=NAMES[ids], most=6)
    compare(script, 3, device, directed=directed, weighted=not directed, renumber=ids != "dense")


def test_the_highest_rank_counts() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, weighted=True)
        G.insert_edges([(0, 1, comm.rank), (0, 1, comm.rank + 0.5)] if comm.rank < 2 else [])
        return G.edge_weights([(0, 1)]).tolist(), G.version

    assert run(program) == [([1.5], 1)] * 3


def test_undirected_edges_are_where_both_ends_are() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, partition="range", directed=False, max_vertices=30)
        report = G.insert_edges([(25, 3), (12, 12)] if comm.rank == 1 else [(3, 25)])
        assert G.owners([3, 12, 25]).tolist() == [0, 1, 2]
        return (report.inserted, report.duplicates), G.edge_table().values.tolist(), G.shard.number_of_edges()

    assert run(program) == [((2, 2), [[3, 25]], 1), ((2, 2), [[12, 12]], 1), ((2, 2), [], 1)]


def test_tables_of_ranks_without_edges_have_the_same_dtypes() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, renumber=True, frames="pandas", weighted=True)
        G.insert_edges([("a", "b", 1.0)])
        table = G.edge_table()
        return len(table), table.dtypes.tolist()

    (some, wanted), *others = sorted(run(program), reverse=True, key=lambda found: found[0])
    assert (some, [len(wanted)]) == (1, [3])
    assert others == [(0, wanted)] * 2


def test_vertices_without_edges() -> None:
    def program(comm: Communicator):
        dense, named = ShardedGraph(comm), ShardedGraph(comm, renumber=True)
        dense.insert_vertices([3 * comm.rank] if comm.rank else [])
        named.insert_vertices(["b", "d"] if comm.rank else "a")
        named.insert_vertices(["c", "a"])
        return dense.number_of_vertices(), dense.version, named.vertex_ids().tolist(), named.version

    assert run(program) == [(7, 1, ["a", "b", "d", "c"], 2)] * 3


# ---------------------------------------------------------------------- refused on one rank


def try_it(G: ShardedGraph, method: str, *args: Any, **kwargs: Any) -> tuple[type, str]:
    """Return the error of a call that has to fail and change nothing on this rank; the next update works."""
    before = state_of(G)
    with pytest.raises(DynstoreError) as caught:
        getattr(G, method)(*args, **kwargs)
    assert state_of(G) == before
    return type(caught.value), str(caught.value)


BAD = {
    "negative": ("insert_edges", ([0, -1], [1, 1], [1.0, 1.0]), InputError, "`src` has -1 at row 1"),
    "too high": ("insert_edges", ([2**31 - 1], [1], [1.0]), LimitError, "`src` has 2147483647 at row 0"),
    "past the limit": ("insert_edges", ([0], [60], [1.0]), LimitError, "max_vertices"),
    "NaN": ("insert_edges", ([0], [1], [np.nan]), InputError, "`weights` is NaN at row 0"),
    "text": ("insert_edges", (["a"], [1], [1.0]), InputTypeError, "`src` has 'a'"),
    "lengths": ("delete_edges", ([0, 1], [1]), InputError, "`dst` has 1 items, `src` has 2"),
    "no weights": ("insert_edges", ([0], [1]), InputError, "the edges have no weights"),
    "no edges": ("update", 3, InputTypeError, "edges is a int"),
    "a question": ("has_edges", ([0, 1], [1]), InputError, "`dst` has 1 items, `src` has 2"),
    "no vertex": ("out_degree", [77], InputError, "vertex 77 is not in the graph"),
    "no root": ("gather", 9, InputError, "root is 9; wanted 0 to 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_on_one_rank_is_refused_on_all(case: str) -> None:
    method, bad, error, text = BAD[case]
    good = {"out_degree": [3], "gather": 0}.get(method, ([4], [5], [2.0])[: 2 if method == "has_edges" else 3])

    def program(comm: Communicator):
        G = ShardedGraph(comm, weighted=True, directed=False, max_vertices=50)
        G.insert_edges([(comm.rank, 3, 1.0), (8, comm.rank, 2.0)])
        found = try_it(G, method, bad if comm.rank == 1 else good)
        assert G.insert_edges([(0, 9, 1.0)]).inserted == 1
        return found

    first, second, third = run(program)
    assert first[0] is second[0] is third[0] is error
    assert text in second[1]
    assert "rank" not in second[1]
    assert first[1] == third[1] == f"{method}: rank 1 refused it: {second[1].removeprefix(f'{method}: ')}"


def test_sums_that_are_not_finite_are_refused_by_the_owner() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, weighted=True)
        G.insert_edges([(0, 1, 1.0)])
        infinite = np.inf if comm.rank else -np.inf
        return try_it(G, "insert_edges", [(5, 6, infinite)], on_duplicate="add"), int(G.owners(1)[0])

    found = run(program, 2)
    assert [kind for (kind, _), _ in found] == [InputError] * 2
    assert sorted("refused it" in text for (_, text), _ in found) == [False, True]
    assert all("sum to nan" in text for (_, text), _ in found)


def test_ids_of_two_kinds_are_refused() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, renumber=True)
        return try_it(G, "insert_edges", [("a", "b")] if comm.rank else [(1, 2)])

    text = "insert_edges: rank 0 has integers as ids, rank 1 has strings; wanted one kind"
    assert run(program, 2) == [(InputTypeError, text)] * 2


def test_the_most_vertices_are_those_of_all_ranks() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, renumber=True, max_vertices=5)
        found = try_it(G, "insert_edges", [(f"a{comm.rank}", f"b{comm.rank}")])
        G.insert_edges([("a", f"b{comm.rank}")])
        return found[0], G.number_of_vertices()

    assert run(program) == [(LimitError, 4)] * 3


def test_ranks_that_make_different_calls_are_refused() -> None:
    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        G.insert_edges([]) if comm.rank else G.delete_edges([])

    with pytest.raises(RankError, match=r"rank \d calls (insert|delete)_edges, rank \d calls"):
        run(program, 2)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_a_rank_that_ends_within_an_update_ends_all(monkeypatch: pytest.MonkeyPatch, error: type) -> None:
    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        G.insert_edges([(0, 1)])
        before = state_of(G)
        try:
            G.insert_edges(Edges() if comm.rank == 1 else [(2, 3)])
        finally:
            assert state_of(G) == before

    class Edges(list):
        def __len__(self) -> int:
            raise error("here")

    with pytest.raises(RankError, match=f"rank 1 raised {error.__name__}: here"):
        run(program)


@pytest.mark.parametrize("kind", ["empty", "xp"])
@pytest.mark.parametrize(
    ("failing", "options", "method"),
    [
        *((failing, {"weighted": True, "directed": False}, "update") for failing in range(3)),
        # It deletes first, and takes that back.
        *((failing, {"weighted": True, "store": "lpma"}, "update") for failing in range(3)),
        *((failing, {"renumber": True}, "insert_edges") for failing in range(3)),
        *((failing, {}, "delete_edges") for failing in range(3)),
        *((1, {"weighted": True, "device": device}, "update") for device in CUDA),
    ],
)
def test_each_allocation_of_one_rank_fails_in_turn(
    monkeypatch: pytest.MonkeyPatch, kind: str, failing: int, options: dict[str, Any], method: str
) -> None:
    device = options.get("device", "cpu")
    backend, num_ids, num_rows = get_backend(device), *((40, 30) if device == "cpu" else (8, 5))
    ranks = 2 if device == "cuda-sim" else 3
    faulty = fault_of_one_rank(backend, kind, failing)
    random = np.random.default_rng(SEED)

    def batch(weighted: bool) -> tuple[Any, ...]:
        columns = random.integers(0, num_ids, num_rows), random.integers(0, num_ids, num_rows)
        return (*columns, random.random(num_rows)) if weighted else columns

    weighted = bool(options.get("weighted"))
    first = [batch(weighted) for _ in range(3)]
    args = [[batch(weighted), batch(False)] if method == "update" else [batch(weighted)] for _ in range(3)]

    def program(comm: Communicator) -> int:
        G = ShardedGraph(comm, **options)
        G.insert_edges(first[comm.rank])
        before = state_of(G)
        for failures in range(1000):
            if comm.rank == failing:
                faulty.calls, faulty.fail_at, faulty.armed = 0, failures, True
            try:
                getattr(G, method)(*args[comm.rank])
                return failures
            except OutOfMemoryError as error:
                texts.append((comm.rank, str(error)))
            finally:
                if comm.rank == failing:
                    faulty.armed = False
            assert state_of(G) == before, failures
        raise AssertionError("it fails for ever")

    texts: list[tuple[int, str]] = []
    with monkeypatch.context() as patch:
        patch.setattr(backend, kind, faulty)
        counts = run(program, ranks, device)
    assert all((f"rank {failing} refused it" in text) == (rank != failing) for rank, text in texts)
    assert len(set(counts)) == 1
    assert counts[0] > (0 if method == "delete_edges" else 2)


def test_memory_that_runs_out_twice_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(update: Transaction, *args: Any) -> None:
        update.core.end_version(None)
        raise OutOfMemoryError("update: memory ran out twice; the deletions are made, the insertions are not")

    refusing: set[GraphCore] = set()
    attempt_or_plan = Transaction.attempt_or_plan

    def refuse(update: Transaction, *args: Any) -> Any:
        if update.core in refusing:
            raise MemoryError("test")
        return attempt_or_plan(update, *args)

    monkeypatch.setattr(Transaction, "insert_again", fail)
    monkeypatch.setattr(Transaction, "attempt_or_plan", refuse)

    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm, weighted=True, store="lpma")
        G.insert_edges([(comm.rank, 1, 1.0)])
        if comm.rank == 1:
            refusing.add(G.shard.core)
        G.update([(comm.rank, 2, 1.0)], [(0, 1), (1, 1), (2, 1)])

    with pytest.raises(RankError, match=r"update: rank \d raised .*memory ran out twice"):
        run(program)


# ---------------------------------------------------------------------- making one


def test_options_have_to_be_the_same() -> None:
    def program(comm: Communicator) -> None:
        ShardedGraph(comm, weighted=comm.rank == 2)

    with pytest.raises(RankError, match="weighted is False on rank 0 and True on rank 2; wanted the same on all"):
        run(program)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"reuse_ids": True, "renumber": True}, "reuse_ids is True; a graph on several ranks does not support it yet"),
        ({"timestamps": "int64"}, "timestamps is 'int64'"),
        ({"edge_columns": {"id": "int64"}}, "edge_columns is"),
        ({"partition": "rows"}, "unknown partition 'rows'"),
        ({"device": "cuda"}, "device is 'cuda', that of comm is 'cpu'; leave it out"),
        ({"capacity": -1}, "capacity is -1; wanted 0 or more"),
        ({"stroe": "merge"}, "unknown parameter 'stroe'"),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(RankError, match=text) as caught:
        run(lambda comm: ShardedGraph(comm, **options), 2)
    assert isinstance(caught.value.__cause__, InputError)


def test_a_graph_needs_a_communicator() -> None:
    with pytest.raises(InputTypeError, match=r"ShardedGraph: comm is a int; wanted a Communicator: run\(\) passes"):
        ShardedGraph(4)  # type: ignore[arg-type]


def test_what_it_says_of_itself() -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, capacity=1000)
        assert (G.is_directed(), G.is_weighted(), G.is_renumbered(), G.device) == (True, False, False, "cpu")
        return repr(G)

    assert run(program, 2)[1] == (
        "ShardedGraph(directed, 0 vertices, 0 edges, rank 1 of 2, store='gpma+', device='cpu', version=0)"
    )


DIFFERENT: dict[str, Any] = {
    "on_duplicate": lambda G, own: G.insert_edges([(0, 3, 1.0)], on_duplicate="add" if own else "replace"),
    "root": lambda G, own: G.gather(int(own)),
    "start": lambda G, own: distributed.bfs(G, 3 if own else 4),
    "depth_limit": lambda G, own: distributed.bfs(G, 3, depth_limit=1 if own else 2),
    "source": lambda G, own: distributed.sssp(G, 3 if own else 4),
    "alpha": lambda G, own: distributed.pagerank(G, alpha=0.5 if own else 0.8),
    "fail_on_nonconvergence": lambda G, own: distributed.pagerank(G, fail_on_nonconvergence=own),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_arguments_that_differ_are_refused_on_all(name: str) -> None:
    def program(comm: Communicator):
        G = ShardedGraph(comm, weighted=True, directed=False, max_vertices=50)
        G.insert_edges([(comm.rank, 3, 1.0), (8, 4, 2.0)])
        before = state_of(G)
        with pytest.raises(InputError, match=rf": {name} is .* on rank 0 and .* on rank 1; wanted the same on all$"):
            DIFFERENT[name](G, comm.rank == 1)
        assert state_of(G) == before
        assert G.insert_edges([(0, 9, 1.0)]).inserted == 1

    run(program)
