"""Random programs on 1 to 4 ranks do what they do on one graph: updates, batches that are refused, ids, algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import distributed
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import DynstoreError, RankError
from dynstore.testing.model import COUNTS
from dynstore.testing.pair import ID_KINDS
from tests.conftest import DEVICES, PROFILE, SEED
from tests.distributed.one_graph import by_edge, state_of, whole

IDS: dict[str, Any] = {"dense": int, "sparse": ID_KINDS["sparse"], "strings": ID_KINDS["strings"]}
METHODS = ("insert_edges", "insert_edges", "delete_edges", "update", "insert_vertices", "refused", "algorithms")
Step = tuple[str, list[list[Any]], dict[str, Any]]


class Program:
    """A random program: options of a graph, and for each step the method, a batch a rank for each argument, options."""

    def __init__(self, seed: int, store: str, small: bool) -> None:
        self.random = random = np.random.default_rng(seed)
        self.ranks, kind = int(random.integers(1, 3 if small else 5)), str(random.choice(list(IDS)))
        self.name, self.renumber, self.is_text = IDS[kind], kind != "dense", kind == "strings"
        self.num_ids = int(random.choice([3, 8, 20] if small else [3, 8, 30, 200]))
        self.most = 9 if small else int(random.choice([3, 12, 60]))
        self.weighted = bool(random.random() < 0.5)
        self.options: dict[str, Any] = {
            "store": store, "directed": bool(random.random() < 0.5), "weighted": self.weighted,
            "renumber": self.renumber, "vertex_dtype": str(random.choice(["int32", "int64"])), "frames": "pandas",
        }  # fmt: skip
        self.partition = "hash"
        if random.random() < 0.3:
            self.options["max_vertices"], self.partition = self.num_ids, "range"
        self.steps = [self.step(str(random.choice(METHODS))) for _ in range(5 if small else 10)]
        self.asked = self.ids(12), self.ids(12)

    def ids(self, count: int) -> np.ndarray:
        drawn = self.random.integers(0, self.num_ids, count).tolist()
        return np.array([self.name(each) for each in drawn], object if self.is_text else np.int64)

    def batch(self, weighted: bool) -> list[tuple[np.ndarray, ...]]:
        """Return rows for each rank, some of which are loops; some ranks have none."""
        batches = []
        for _ in range(self.ranks):
            count = int(self.random.integers(0, self.most + 1)) * bool(self.random.random() < 0.7)
            ends = self.ids(count), self.ids(count)
            if self.random.random() < 0.2:
                ends = ends[0], ends[0].copy()
            batches.append((*ends, self.random.normal(1, 2, count)) if weighted else ends)
        return batches

    def step(self, method: str) -> Step:
        more: dict[str, Any] = {}
        if method == "insert_vertices":
            return method, [[self.ids(int(self.random.integers(0, 4))) for _ in range(self.ranks)]], more
        if method == "delete_edges":
            return method, [self.batch(False)], more
        if method == "algorithms":
            return method, [], more
        if self.random.random() < 0.3:
            more["on_duplicate"] = "add"
        weighted = self.weighted
        if weighted and self.random.random() < 0.2:
            weighted, more["default_weight"] = False, 1.5
        batch = self.batch(weighted)
        if method == "refused":
            spoiled = int(self.random.integers(self.ranks))
            src, dst, *rest = batch[spoiled]
            wrong = [(np.append(src, self.ids(1)), dst, *rest), 7, (src,), (src, dst, *rest, rest, rest)]
            batch[spoiled] = wrong[int(self.random.integers(len(wrong)))]  # type: ignore[call-overload]
        return method, [batch, *([self.batch(False)] if method == "update" else [])], more


def run_algorithms(module: Any, G: Any) -> dict[str, Any]:
    """Return what each algorithm says of each vertex, by its id; or which error it raises."""
    vertices = G.vertex_ids().tolist()
    if not vertices:
        return {}
    calls = {
        "bfs": lambda: module.bfs(G, vertices and min(vertices)),
        "weakly_connected_components": lambda: module.weakly_connected_components(G),
        "pagerank": lambda: module.pagerank(G, max_iter=6, tol=0.0, fail_on_nonconvergence=False)[0],
        "sssp": lambda: module.sssp(G, min(vertices)),
        "triangle_count": lambda: module.triangle_count(G),
    }
    found: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            frame = call()
        except RankError:
            raise
        except DynstoreError as error:
            found[name] = type(error).__name__
        else:
            column = "counts" if name == "triangle_count" else frame.columns[frame.columns != "vertex"][0]
            found[name] = dict(zip(frame["vertex"].tolist(), frame[column].tolist(), strict=True))
    return found


def check_answers(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, expected in wanted.items():
        values = found[name]
        if isinstance(expected, str):
            assert values == expected, name
        elif name == "weakly_connected_components":  # labels are any vertex of a component
            pairs = {(values[vertex], label) for vertex, label in expected.items()}
            assert len({one for one, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
        elif name == "pagerank":
            assert values == pytest.approx(expected, rel=2e-4, abs=1e-7, nan_ok=True)
        else:
            assert values == expected, name


def run_sharded(program: Program, device: str) -> list[list[Any]]:
    """Return a log for each rank: of each step the report, the error's kind, or answers; and the graph's state."""

    def run(comm: Communicator) -> list[Any]:
        G, log = ShardedGraph(comm, partition=program.partition, **program.options), []
        for method, batches, more in program.steps:
            before, outcome = state_of(G), None
            try:
                if method == "algorithms":
                    outcome = run_algorithms(distributed, G)
                else:
                    name = "insert_edges" if method == "refused" else method
                    outcome = getattr(G, name)(*(batch[comm.rank] for batch in batches), **more)
            except RankError:
                raise
            except DynstoreError as error:
                outcome = type(error).__name__
                assert state_of(G) == before
            log.append((outcome, state_of(G), by_edge(G.edge_table(), G.is_directed())))
            log[-1] += (G.has_edges(program.asked).tolist(), [*map(float, G.edge_weights(program.asked))])
        return log

    return distributed.run(run, program.ranks, device)  # type: ignore[arg-type]


def counts_of(one: dynstore.DynamicGraph, method: str, parts: list[Any], more: dict[str, Any]) -> list[int] | str:
    """Return the counts of an update's report, or which error it raises."""
    try:
        report = getattr(one, method)(*parts, **more)
    except DynstoreError as error:
        return type(error).__name__
    return [getattr(report, name) for name in COUNTS]


def compare(program: Program, device: str) -> None:
    logs = run_sharded(program, device)
    one = dynstore.DynamicGraph(device="cpu", **program.options)
    for place, (method, batches, more) in enumerate(program.steps):
        entries = [log[place] for log in logs]
        if method == "algorithms":
            for outcome, *_ in entries:
                check_answers(outcome, run_algorithms(dynstore, one))
        elif method == "refused":
            assert len({outcome for outcome, *_ in entries}) == 1
            assert isinstance(entries[0][0], str)
        else:
            parts = [np.concatenate(batch) if method == "insert_vertices" else whole(batch) for batch in batches]
            wanted = counts_of(one, method, parts, more)
            for outcome, *_ in entries:
                found = outcome if isinstance(outcome, str) else [getattr(outcome, name) for name in COUNTS]
                assert found == wanted, (place, method)
        edges: dict[Any, Any] = {}
        for _, state, table, there, weights in entries:
            assert state[:3] == (one.number_of_edges(), one.number_of_vertices(), one.version), (place, method)
            assert sorted(state[3]) == sorted(one.vertex_ids().tolist())
            assert there == one.has_edges(program.asked).tolist()
            np.testing.assert_array_equal(weights, one.edge_weights(program.asked))
            assert not edges.keys() & table.keys()
            edges |= table
        assert edges == by_edge(one.edge_table(), one.is_directed())


@pytest.mark.parametrize("number", range(400 if PROFILE == "thorough" else 25))
def test_on_the_host(number: int) -> None:
    stores = ["gpma+", "lpma", "gpma+", "graphvine", "merge", "slab_hash"]
    compare(Program(SEED + number, stores[number % len(stores)], small=False), "cpu")


@pytest.mark.parametrize("number", range(60 if PROFILE == "thorough" else 4))
@pytest.mark.parametrize("device", [name for name in DEVICES if name != "cpu"])
def test_by_cuda_kernels(device: str, number: int) -> None:
    compare(Program(SEED + number, ["gpma+", "slab_hash"][number % 2], small=True), device)
