"""The engine: stores follow the window, disagreement is found, conversions and rows are right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.backend import get_backend
from dynstore.bench.answers import make_query
from dynstore.bench.contestants import StoreRun, conversions, to_device
from dynstore.bench.schema import OPERATIONS
from dynstore.bench.stream import Edges, cut_stream, edge_keys, sorted_unique
from dynstore.bench.suite_parts import WindowJob
from dynstore.bench.timing import percentiles
from dynstore.bench.window_suite import check_job, run_window
from dynstore.datasets import load, rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.io import OP_DELETE, EventTable
from dynstore.stores import STORES, stores_of
from tests.conftest import DEVICES

SMALL = WindowJob(stores=("gpma+", "rebuild"), algorithms=("bfs",), batch=50, steps=3, device="cpu")
# The simulator is far too slow for the whole job; what it shares with CUDA is tested kernel by kernel.
REAL_DEVICES = [name for name in DEVICES if name != "cuda-sim"]


@pytest.fixture(scope="module")
def messages() -> EventTable:
    return load("collegemsg")


@pytest.mark.parametrize("device", REAL_DEVICES)
def test_all_stores_and_algorithms_agree_on_collegemsg(messages: EventTable, device: str) -> None:
    algorithms = ("bfs", "pagerank", "triangle_count", "weakly_connected_components", "betweenness_centrality")
    stores = tuple(stores_of(device))
    seen: list[tuple[str, int, int]] = []
    job = WindowJob(stores=stores, algorithms=algorithms, window=0.5, batch="1%", steps=3, device=device)
    result = run_window(messages, job, lambda *what: seen.append(what))
    assert result.disagreement is None
    assert (result.device, result.directed, result.batch, result.window_events) == (device, False, 598, 29_918)
    assert result.notes[0].startswith("undirected, because one of the algorithms")
    assert seen[-1] == ("sliding", 3, 3)
    rows = {(row["store"], row["operation"], row["algorithm"]): row for row in result.rows}
    assert len(rows) == len(result.rows)
    keys = edge_keys(messages.src, messages.dst, directed=False)
    last = sorted_unique(keys[4 * 598 : 4 * 598 + 29_918])
    for store in stores:
        for operation in OPERATIONS:
            names = algorithms if operation == "algorithm" else (None,)
            for name in names if operation != "convert" else ():
                row = rows[store, operation, name]
                built = operation == "build"
                assert row["steps"] == 3
                assert row["batch"] == (29_918 if built else 598)
                assert row["edges"] == (sorted_unique(keys[:29_918]) if built else last).shape[0]
                assert 0 <= row["median_ms"] <= row["p90_ms"] <= row["p99_ms"] <= row["max_ms"]
                assert (row["bytes"] is not None) == (operation == "update")
    converts = {store for store, operation, _ in rows if operation == "convert"}
    assert converts == ({"cusparse", "cupy-key-sort"} if device == "cuda" else {"scipy", "numpy-key-sort"})


def test_total_is_the_sum_of_its_parts(messages: EventTable) -> None:
    result = run_window(messages, replace(SMALL, algorithms=("bfs", "pagerank")))
    for store in SMALL.stores:
        part = {key[1:]: np.array(times) for key, times in result.times.items() if key[0] == store}
        update = part["delete", None] + part["insert", None] + part["snapshot", None]
        assert np.allclose(part["update", None], update)
        assert np.allclose(part["total", None], update + part["algorithm", "bfs"] + part["algorithm", "pagerank"])


def test_weighted_windows_hold_the_last_weights() -> None:
    events = rmat(6, 40, 1)
    events = replace(events, weight=np.arange(len(events), dtype=np.float64) + 1)
    job = replace(SMALL, algorithms=("sssp", "pagerank"), weighted=True)
    assert run_window(events, job).disagreement is None
    with pytest.raises(InputError, match="no weights; name their column with --weight"):
        run_window(replace(events, weight=None), job)


def test_explicit_changes_are_replayed() -> None:
    events = rmat(6, 40, 2)
    op = (np.arange(len(events)) % 3 == 2).astype(np.uint8) * OP_DELETE
    result = run_window(replace(events, op=op), replace(SMALL, algorithms=("bfs", "triangle_count")))
    assert result.disagreement is None
    assert result.replayed
    assert any("conversions are left out" in note for note in result.notes)
    assert "convert" not in {row["operation"] for row in result.rows}


def test_bfs_starts_where_most_pairs_of_the_first_window_do(
    messages: EventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def spy(name: str, start: int, num_vertices: int, warm_start: bool = False) -> Any:
        starts.append((start, num_vertices))
        return make_query(name, start, num_vertices, warm_start)

    monkeypatch.setattr("dynstore.bench.window_suite.make_query", spy)
    run_window(messages, SMALL)
    window = slice(0, 29_918)
    pairs = set(zip(messages.src[window].tolist(), messages.dst[window].tolist(), strict=True))
    degree = Counter(src for src, _ in pairs)
    start, num_vertices = starts[0]
    assert degree[start] == max(degree.values())
    assert num_vertices == max(map(max, pairs)) + 1


def test_an_edge_lost_or_kept_by_a_store_is_found(messages: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DynamicGraph.insert_edges

    def lossy(self: DynamicGraph, edges: Any, *args: Any, **kwargs: Any) -> Any:
        short = self.store_name == "rebuild" and len(edges[0]) == SMALL.batch
        return whole(self, tuple(column[1:] for column in edges) if short else edges, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(DynamicGraph, "insert_edges", lossy)
        result = run_window(messages, SMALL)
    assert result.disagreement is not None
    assert "store 'rebuild' holds" in result.disagreement
    assert "1 missing, the first" in result.disagreement

    with monkeypatch.context() as patch:
        patch.setattr(DynamicGraph, "delete_edges", lambda self, edges: None)
        result = run_window(messages, SMALL)
    assert result.disagreement is not None
    assert "store 'gpma+' holds" in result.disagreement
    assert "too many, the first" in result.disagreement


def test_a_wrong_weight_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    events = rmat(6, 40, 1)
    events = replace(events, weight=np.arange(len(events), dtype=np.float64))
    edges = StoreRun.edges
    monkeypatch.setattr(StoreRun, "edges", lambda self: (edges(self)[0], edges(self)[1] + 1))  # type: ignore[operator]
    result = run_window(events, replace(SMALL, algorithms=(), weighted=True))
    assert result.disagreement == "after the build: store 'gpma+' holds other weights than the raw slice's last ones"


def test_a_wrong_answer_is_found(messages: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(name: str, start: int, num_vertices: int, warm_start: bool = False) -> Any:
        query = make_query(name, start, num_vertices, warm_start)

        def call(graph: DynamicGraph) -> Any:
            frame = query.call(graph)
            if graph.store_name == "rebuild" and graph.version > 5:  # built, warmed up and slid once
                frame.loc[7, "distance"] += 1
            return frame

        return replace(query, call=call)

    monkeypatch.setattr("dynstore.bench.window_suite.make_query", wrong)
    result = run_window(messages, SMALL)
    assert result.disagreement is not None
    assert result.disagreement.startswith(
        "step 2: bfs on 'gpma+' and on 'rebuild': 1 distances differ, the first at vertex 7"
    )
    steps = {row["steps"] for row in result.rows if row["operation"] == "update"}
    assert steps == {2}  # the run stops at once


@pytest.mark.parametrize("directed", [True, False])
def test_conversions_give_the_windows_csr(directed: bool) -> None:
    events = rmat(7, 20, 3)
    backend = get_backend("cpu")
    stream = cut_stream(events, 0.5, 10, 1, directed)
    wanted, _ = stream.expected(stream.first)
    src, dst = to_device(backend, stream.rows(0, stream.first.high))
    ways, missing = conversions(backend)
    assert [way.name for way in ways] == ["scipy", "numpy-key-sort"]
    assert missing == []
    for way in ways:
        assert way.run(src, dst, stream.num_vertices, directed) > 0
        assert np.array_equal(way.edges(directed), wanted)


def test_a_conversion_without_its_library_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ways, missing = conversions(get_backend("cpu"))
    assert [way.name for way in ways] == ["numpy-key-sort"]
    assert missing == ["SciPy's conversion is left out: pip install 'dynstore[bench]'"]


def test_answers_are_compared_by_vertex_and_by_partition() -> None:
    class Column(list):
        def to_numpy(self) -> np.ndarray:
            return np.array(self)

    def frame(**columns: list) -> Any:
        return {name: Column(values) for name, values in columns.items()}

    distance = make_query("bfs", 0, 3)
    turned = distance.values(frame(vertex=[2, 0, 1], distance=[5, 0, 1]))
    assert turned.tolist() == [0, 1, 5]
    assert distance.difference(turned, np.array([0, 1, 5])) is None
    assert distance.difference(turned, np.array([0, 1])) == "3 vertices against 2"
    labels = make_query("weakly_connected_components", 0, 4)
    one = labels.values(frame(vertex=[0, 1, 2, 3], labels=[9, 9, 4, 9]))
    same = labels.values(frame(vertex=[0, 1, 2, 3], labels=[0, 0, 7, 0]))
    other = labels.values(frame(vertex=[0, 1, 2, 3], labels=[0, 0, 7, 7]))
    assert labels.difference(one, same) is None
    assert labels.difference(one, other) is not None
    rank = make_query("pagerank", 0, 3)
    assert rank.difference(np.float32([0.5, 0.5]), np.float32([0.500004, 0.499996])) is None
    assert "L1" in (rank.difference(np.float32([0.5, 0.5]), np.float32([0.50001, 0.49999])) or "")
    lengths = make_query("sssp", 0, 3)
    most = np.finfo(np.float32).max
    assert lengths.difference(np.float32([1, most]), np.float32([1.000001, most])) is None
    assert lengths.difference(np.float32([1, 2]), np.float32([1, most])) is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stores": ("nobody",)}, "unknown store 'nobody'; known: "),
        ({"stores": ()}, "bench: no --store is given"),
        ({"stores": ("merge", "merge")}, "bench: --store merge is given twice"),
        ({"algorithms": ("bsf",)}, "unknown algorithm 'bsf'; known: 'betweenness_centrality', 'bfs'"),
        ({"algorithms": ("sssp",)}, "--algorithm sssp needs weights; name their column with --weight"),
        ({"algorithms": ("triangle_count",), "directed": True}, "triangle_count needs an undirected graph"),
        ({"store_options": {"merge": {}}}, "--store-option names the store 'merge'; wanted one of "),
        ({"store_options": {"gpma+": {"leaf": 1}}}, "unknown parameter 'leaf'; known: "),
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"window": 1.5}, "--window is 1.5; wanted a share"),
        ({"batch": "0%"}, "--batch is '0%'"),
        ({"steps": 0}, "--steps is 0"),
    ],
)
def test_bad_jobs_are_refused_before_any_data_is_read(change: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_job(replace(SMALL, **change))
    assert message in str(caught.value)


def test_empty_streams_are_refused() -> None:
    with pytest.raises(InputError, match="no events; wanted at least a few"):
        run_window(EventTable(np.empty(0, np.int64), np.empty(0, np.int64)), SMALL)


@pytest.mark.parametrize("store", sorted(STORES))
def test_the_warm_up_compiles_what_small_and_large_batches_need(store: str) -> None:
    paths = set()

    class Spy(StoreRun):
        def update(self, slide: Any) -> dict[str, float]:
            for batch, change in ((slide.leaving, self.graph.delete_edges), (slide.entering, self.graph.insert_edges)):
                paths.add(change(batch).path)
            return {}

    from dynstore.bench import window_suite

    stream = cut_stream(rmat(6, 8, 0), 0.5, 10, 2)
    run = window_suite._WindowRun(
        replace(SMALL, stores=(store,)), stream, get_backend("cpu"), SimpleNamespace(notes=[], times={})
    )
    run._store = lambda name: Spy(name, get_backend("cpu"), True, False, {})  # type: ignore[method-assign]
    run.warm_up()
    rewriting = {"gpma+": {"in-place", "merge"}, "merge": {"merge"}, "rebuild": {"merge"}}
    assert paths >= rewriting.get(store, {"in-place"})


def test_percentiles() -> None:
    assert percentiles([3.0, 1.0, 2.0]) == {"median_ms": 2.0, "p90_ms": 2.8, "p99_ms": 2.98, "max_ms": 3.0}


def test_batches_reach_the_stores_as_device_arrays() -> None:
    edges = Edges(np.zeros(2, np.int32), np.ones(2, np.int32), np.ones(2, np.float32))
    assert [column.dtype.name for column in to_device(get_backend("cpu"), edges)] == ["int32", "int32", "float32"]
