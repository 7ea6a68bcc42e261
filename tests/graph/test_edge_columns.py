"""Extra columns of edges go with every update, copy, frame and saved graph."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputError, InputTypeError, LimitError, OutOfMemoryError
from dynstore.graph import records
from dynstore.stores import STORES
from dynstore.stores.base import Store
from dynstore.testing.faults import for_every_allocation, for_every_new_array
from dynstore.testing.invariants import check_graph
from dynstore.testing.pair import Pair
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.graph.cases import KIND_NAMES, KINDS
from tests.libraries import FRAMES, from_pandas

COLUMNS = {"id": "int64", "type": "int32", "when": "float64"}
Row = tuple[Any, ...]
every_kind = pytest.mark.parametrize(("directed", "weighted"), KINDS, ids=KIND_NAMES)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tables run out of fresh records again and again."""
    monkeypatch.setattr(records, "MIN_RECORDS", 2)


class Model:
    """A graph as a dict from edges to the values of weight and extra columns."""

    def __init__(self, directed: bool, weighted: bool) -> None:
        self.directed, self.weighted = directed, weighted
        self.edges: dict[tuple[int, int], Row] = {}

    def edge(self, u: int, v: int) -> tuple[int, int]:
        return (u, v) if self.directed else (min(u, v), max(u, v))

    def update(self, insert: list[Row], delete: list[tuple[int, int]], add: bool) -> None:
        for u, v in delete:
            self.edges.pop(self.edge(u, v), None)
        for u, v, *row in insert:
            edge = self.edge(u, v)
            if self.weighted and add and edge in self.edges:
                row[0] += self.edges[edge][0]
            self.edges[edge] = tuple(row)


def rows_of(G: DynamicGraph) -> dict[tuple[int, int], Row]:
    columns = [G.core.backend.to_host(column).tolist() for column in G.edge_columns().values()]
    return {(u, v): tuple(row) for u, v, *row in zip(*columns, strict=True)}


def drawn(rng: np.random.Generator, count: int, most: int, weighted: bool) -> list[Row]:
    ends = rng.integers(0, most, (2, count)).tolist()
    weights = [rng.integers(-8, 8, count).astype(float).tolist()] if weighted else []
    extra = [rng.integers(0, 2**40, count).tolist(), rng.integers(-9, 9, count).tolist(), rng.random(count).tolist()]
    return list(zip(*ends, *weights, *extra, strict=True))


@every_kind
@pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
def test_updates_are_those_of_a_dict(
    directed: bool, weighted: bool, vertex_dtype: Any, backend_name: str, rng: np.random.Generator, small_tables: None
) -> None:
    G = DynamicGraph(directed, weighted, device=backend_name, vertex_dtype=vertex_dtype, edge_columns=COLUMNS)
    model, exports = Model(directed, weighted), []
    steps, most, size = (40, 40, 60) if backend_name == "cpu" else (5, 12, 24)
    for step in range(steps):
        insert = drawn(rng, int(rng.integers(0, size)), most, weighted)
        delete = [(u, v) for u, v, *_ in drawn(rng, int(rng.integers(0, size)), most, False)]
        add = bool(rng.integers(0, 2))
        way, how = step % 3, "add" if add else "replace"
        if way == 0:
            delete = []
            G.insert_edges(insert, on_duplicate=how)
        elif way == 1:
            insert = []
            G.delete_edges(delete)
        else:
            G.update(insert, delete, on_duplicate=how)
        model.update(insert, delete, add)
        assert rows_of(G) == model.edges
        assert G.number_of_edges() == len(model.edges)
        check_graph(G, transposed=step > steps // 2)
        exports = [G.to_arrow(), *exports[:1]] if step % 5 == 0 else exports  # pins the slots for some steps
    assert rows_of(G.copy()) == rows_of(pickle.loads(pickle.dumps(G))) == model.edges


@every_kind
def test_both_directions_and_both_orientations_have_the_values(
    directed: bool, weighted: bool, backend_name: str, small_tables: None
) -> None:
    pair = Pair(True, directed=directed, weighted=weighted, device=backend_name, edge_columns={"id": "int64"})
    weights = [[0.5, 1.0, 2.0, 4.0]] if weighted else []
    pair.insert([0, 1, 3, 3], [1, 0, 3, 4], *weights)
    pair.insert([1, 4, 3, 0], [0, 3, 3, 5], *weights, on_duplicate="add")
    pair.delete([3, 5], [3, 0])
    pair.update("delete_vertices", [4])
    pair.insert([4, 4], [5, 3], *[[1.0, 2.0] for _ in weights])
    pair.check_queries()
    pair.update("clear")
    pair.insert([1], [2], *[[1.0] for _ in weights])


@pytest.mark.parametrize("ids", ["sparse", "strings"])
def test_ids_of_the_users_own(ids: str, rng: np.random.Generator, backend_name: str) -> None:
    name = (lambda number: f"v{number}") if ids == "strings" else (lambda number: int(number) * 10**12)
    pair = Pair(directed=False, renumber=True, reuse_ids=True, device=backend_name, edge_columns={"id": "int64"})
    for _ in range(3):
        pair.insert(*([name(number) for number in rng.integers(0, 9, 12)] for _ in range(2)))
    pair.update("reorder")
    pair.update("delete_vertices", [name(3), name(4)])
    pair.insert([name(20), name(3)], [name(21), name(5)])
    pair.check_queries()
    some = pair.model.vertex_ids()[:5]
    H = pair.graph.subgraph(some)
    wanted = {edge: tuple(pair.model.extra[edge]) for edge in pair.model.edges if set(edge) <= set(some)}
    assert rows_of(H) == wanted


# ---------------------------------------------------------------------- records


def test_records_are_used_again_and_tables_shrink(small_tables: None) -> None:
    G = DynamicGraph(device="cpu", edge_columns={"id": "int64"})
    many = np.arange(5000)
    for start in range(0, 20_000, 5000):  # the same edges again and again
        G.insert_edges((many, many + 1, many + start))
    G.predecessors(0)
    assert G.core.records is not None
    assert G.core.records.size <= 1.5 * 10_000
    full = G.memory_usage()["edge_columns"]
    assert G.core.records.nbytes == full
    G.delete_edges((many[150:], many[150:] + 1))
    shown = G.to_arrow()
    before = shown.to_pydict()
    for start in range(0, 20_000, 100):
        G.insert_edges((many[:100], many[:100] + 1, many[:100] + start))
    assert G.memory_usage()["edge_columns"] < full / 10
    ids = [*range(19_900, 20_000), *range(15_100, 15_150)]
    assert rows_of(G) == {(i, i + 1): (ids[i],) for i in range(150)}
    turned = G.snapshot(transposed=True)
    assert G.snapshot_columns(True)["id"][turned.mask()].tolist() == ids
    assert shown.to_pydict() == before


def test_a_refused_update_leaves_everything_as_it_was(small_tables: None, backend_name: str) -> None:
    G = DynamicGraph(weighted=True, device=backend_name, edge_columns=COLUMNS)
    G.insert_edges(([0, 1], [1, 2], [1.0, 2.0], [10, 11], [1, 2], [0.5, np.nan]))
    snapshot, before = G.snapshot(), G.to_pandas()
    columns = ([0, 5], [1, 6], [3.0, 4.0], [12, 13], [3, 4], [1.0, 2.0])
    bad: list[tuple[int, Any, type[Exception], str]] = [
        (0, [0, -1], InputError, "`src` has -1 at row 1"),
        (1, [1, 10**9], LimitError, "id 1000000000 would make rows"),
        (2, [1.0, np.nan], InputError, "`weights` is NaN at row 1"),
        (3, [1.5, 2.5], InputTypeError, "`id` is float64; wanted integers, as the edge column is int64"),
        (3, ["a", "b"], InputTypeError, "`id` has 'a'"),
        (3, [None, 1], InputError, "`id` has a null at row 0"),
        (3, [1], InputError, "`id` has 1 items, the edges have 2; they must be equal"),
        (4, [1, 2**31], LimitError, "`type` has 2147483648 at row 1; that does not fit int32"),
    ]
    for place, column, error, message in bad:
        given = [*columns]
        given[place] = column
        with pytest.raises(error, match=re.escape(f"insert_edges: {message}")):
            G.insert_edges(tuple(given))
        with pytest.raises(error):
            G.update(insert=tuple(given), delete=[(0, 1)])
        assert snapshot.weights is not None
        pd.testing.assert_frame_equal(G.to_pandas(), before)
    if backend_name == "cpu":  # the simulator warns of such sums
        with pytest.raises(InputError, match="weights of an edge in the batch sum to inf"):
            G.insert_edges(([0, 0], [1, 1], [3e38, 3e38], [1, 2], [1, 2], [1.0, 2.0]), on_duplicate="add")
    pd.testing.assert_frame_equal(G.to_pandas(), before)


def test_memory_that_runs_out_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, small_tables: None, backend_name: str
) -> None:
    for failing in (for_every_allocation, for_every_new_array):
        pair = Pair(True, weighted=True, directed=False, device=backend_name, edge_columns={"id": "int64"})
        pair.insert([0, 1, 2, 3], [1, 2, 3, 3], [1.0, 2.0, 3.0, 4.0])
        assert pair.graph.core.records is not None
        pair.graph.core.records._taken = len(pair.graph.core.records._fresh)  # the next update looks for fresh ones
        columns = [0, 7, 3], [1, 8, 2], [1.0, 2.0, 3.0]
        assert failing(monkeypatch, pair, "insert_edges", columns, on_duplicate="add") > 3
        assert pair.model.extra[7, 8] == [5]


@crossed(directed=[True, False], weighted=[True, False], followed=[True, False], strangers=[0, 1], backend_name=DEVICES)
def test_a_failed_exchange_takes_the_deletion_back(
    directed: bool,
    weighted: bool,
    followed: bool,
    strangers: int,
    monkeypatch: pytest.MonkeyPatch,
    backend_name: str,
    small_tables: None,
) -> None:
    G = DynamicGraph(directed, weighted, device=backend_name, edge_columns={"id": "int64"})
    pairs = np.arange(120) if backend_name != "cuda-sim" else np.arange(40)
    weights = [pairs / 4] if weighted else []
    G.insert_edges((pairs, pairs + 1, *weights, pairs + 10))
    G.predecessors(0)
    log = G.core.follow() if followed else None
    before, kind = rows_of(G), type(G.core.out)
    failures = [MemoryError("no memory")]

    def failing(name: str) -> Any:
        method = getattr(kind, name)

        def call(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return method(*args)

        return call

    arriving = ([4], [5], *[[4.0] for _ in weights], [13])
    leaving = [*((int(u), int(u) + 1) for u in pairs[3:-3]), *[(7, 7)] * strangers]
    with monkeypatch.context() as patch:
        patch.setattr(kind, "plan_exchange", Store.plan_exchange)
        for name in ("plan_insert", "try_insert"):
            patch.setattr(kind, name, failing(name))
        with pytest.raises(OutOfMemoryError):
            G.update(arriving, leaving)
    assert not failures
    assert (rows_of(G), G.version) == (before, 1)
    check_graph(G, transposed=True)
    arriving[0][:], arriving[1][:] = [0], [1]
    assert G.update(arriving, leaving).deleted == len(leaving) - strangers
    assert rows_of(G)[0, 1][-1] == 13
    assert log is None or log.complete


# ---------------------------------------------------------------------- what reads edges


@pytest.mark.parametrize("directed", [True, False])
def test_tracked_answers_read_the_weights(directed: bool, rng: np.random.Generator, small_tables: None) -> None:
    G = DynamicGraph(directed, weighted=True, device="cpu", edge_columns=COLUMNS)
    H = DynamicGraph(directed, weighted=True, device="cpu")
    rows = [(u, v, abs(w) + 1, *rest) for u, v, w, *rest in drawn(rng, 900, 60, True)]
    for graph in (G, H):
        graph.insert_edges(rows if graph is G else [row[:3] for row in rows])
        graph.insert_vertices([60])
    names = {"sssp": {"source": 0}, "pagerank": {}, "bfs": {"start": 0}}
    monitors = {name: G.track(name, **params) for name, params in names.items()}
    for _ in range(6):
        rows = [(u, v, abs(w) + 1, *rest) for u, v, w, *rest in drawn(rng, 20, 60, True)]
        leaving = [(u, v) for u, v, *_ in drawn(rng, 20, 60, False)]
        G.update(rows, leaving)
        H.update([row[:3] for row in rows], leaving)
        for name, params in names.items():
            found, wanted = monitors[name].result(), getattr(dynstore, name)(H, *params.values())
            column = {"sssp": "distance", "pagerank": "pagerank", "bfs": "distance"}[name]
            np.testing.assert_allclose(found[column], wanted[column], rtol=1e-4)
    np.testing.assert_array_equal(G.edge_weights(rows_pairs(rows)), H.edge_weights(rows_pairs(rows)))
    for vertex in (0, 5):
        for one, other in zip(G.neighbors(vertex, weights=True), H.neighbors(vertex, weights=True), strict=True):
            np.testing.assert_array_equal(one, other)


@every_kind
def test_logs_of_changes_have_the_weights_before(
    directed: bool, weighted: bool, rng: np.random.Generator, backend_name: str, small_tables: None
) -> None:
    G, H = (
        DynamicGraph(directed, weighted, device=backend_name, edge_columns=columns)
        for columns in ({"id": "int64", "type": "int32", "when": "float64"}, None)
    )
    logs = [graph.core.follow() for graph in (G, H)]
    most, size = (12, 40) if backend_name != "cuda-sim" else (8, 12)
    for step in range(4):
        rows = drawn(rng, size, most, weighted)
        leaving = rows_pairs(drawn(rng, size // 2, most, False)) if step % 2 else []
        if step == 2:
            for log in logs:
                log.restart()
        G.update(rows, leaving, on_duplicate="add")
        H.update([row[: 2 + weighted] for row in rows], leaving, on_duplicate="add")
    deltas = [graph.core.net_delta(log) for graph, log in zip((G, H), logs, strict=True)]
    assert deltas[0] is not None
    for name in ("src", "dst", "before", "weights"):
        mine, theirs = (getattr(delta, name) for delta in deltas)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_array_equal(*map(G.core.backend.to_host, (mine, theirs)), strict=True)


def rows_pairs(rows: list[Row]) -> list[tuple[int, int]]:
    return [(u, v) for u, v, *_ in rows]


def frame_of(weighted: bool) -> pd.DataFrame:
    frame = pd.DataFrame({"type": [3, 4, 5], "source": [0, 1, 1], "destination": [1, 2, 0], "id": [7, 8, 9]})
    return frame.assign(weight=[0.5, 1.0, 2.0]) if weighted else frame


@pytest.mark.parametrize("library", FRAMES)
@every_kind
def test_frames_come_and_go(library: str, directed: bool, weighted: bool, backend_name: str) -> None:
    frame: Any = frame_of(weighted)
    frame = from_pandas(library, frame)
    options: dict[str, Any] = {"device": backend_name, "frames": library}
    G = DynamicGraph.from_edges(frame, directed=directed, edge_columns={"id": "int64", "type": "int16"}, **options)
    assert G.is_weighted() == weighted
    weights = {(0, 1): 0.5, (1, 2): 1.0, (1, 0): 2.0} if directed else {(0, 1): 2.0, (1, 2): 1.0}
    extra = {(0, 1): (7, 3), (1, 2): (8, 4), (1, 0): (9, 5)} if directed else {(0, 1): (9, 5), (1, 2): (8, 4)}
    wanted = {edge: (*([weights[edge]] if weighted else []), *extra[edge]) for edge in extra}
    assert rows_of(G) == wanted
    G.delete_edges(frame[:1])
    wanted.pop((0, 1))
    assert rows_of(G) == wanted
    tables = {"arrow": G.to_arrow(), "packed": G.to_arrow(compact=True), "pandas": G.to_pandas()}
    for name, table in tables.items():
        H = DynamicGraph.from_edges(table, **options)
        assert (rows_of(H), H.edge_dtypes, H.is_directed()) == (wanted, G.edge_dtypes, directed), name
        names = list(getattr(table, "column_names", table.columns))
        assert names == ["source", "destination", *(["weight"] if weighted else []), "id", "type"]
    theirs = G.to_networkx()
    values = {edge: tuple(theirs.edges[edge].values()) for edge in wanted}
    assert (values, theirs.number_of_edges()) == (wanted, len(wanted))
    pieces = list(G.iterate_edges(1))
    assert sum(len(piece["id"]) for piece in pieces) == len(wanted)
    H = DynamicGraph.from_edges(G, weighted=False, edge_columns={"type": "int64"})
    assert rows_of(H) == {edge: row[-1:] for edge, row in wanted.items()}


@every_kind
def test_saved_graphs(directed: bool, weighted: bool, backend_name: str, tmp_path: Path) -> None:
    names = {"id": "int64", "a/b": "uint8", "": "float32"}
    names.pop("")
    G = DynamicGraph(directed, weighted, device=backend_name, edge_columns=names)
    weights = [[0.5, -1.0, 2.0]] if weighted else []
    G.insert_edges(([3, 1, 2], [1, 0, 2], *weights, [7, 8, 2**60], [1, 2, 255]))
    G.delete_edges([(1, 0)])
    G.save(tmp_path / "graph")
    H = dynstore.load(tmp_path / "graph", device="cpu")
    assert (rows_of(H), H.edge_dtypes, H.version) == (rows_of(G), G.edge_dtypes, G.version)
    H.insert_edges(([3], [1], *[[4.0] for _ in weights], [1], [2]))
    check_graph(H)
    G.save(tmp_path / "graph", overwrite=True)
    assert rows_of(dynstore.load(tmp_path / "graph", device="cpu")) == rows_of(G)


# ---------------------------------------------------------------------- errors


def test_what_is_no_edge_column_is_refused() -> None:
    bad: list[tuple[Any, type[Exception], str]] = [
        (["id"], InputTypeError, "DynamicGraph: edge_columns is a list; wanted a dict of names and dtypes"),
        ({"weight": "int32"}, InputError, "edge_columns has the name 'weight'; wanted strings other than"),
        ({1: "int32"}, InputError, "edge_columns has the name 1"),
        ({"": "int32"}, InputError, "edge_columns has the name ''"),
        ({"id": "str"}, InputError, "unknown edge_columns\\['id'\\] 'str'"),
        ({"id": "datetime64[ns]"}, InputError, "unknown edge_columns"),
    ]
    for columns, error, message in bad:
        with pytest.raises(error, match=message):
            DynamicGraph(edge_columns=columns, device="cpu")
    for store in sorted(set(STORES) - {"gpma+"}):
        with pytest.raises(InputError, match=f"edge_columns needs store='gpma\\+'; got store='{store}'"):
            DynamicGraph(store=store, edge_columns={"id": "int64"}, device="cpu")
    assert DynamicGraph(edge_columns={}, device="cpu").edge_dtypes == {}


def test_edges_without_the_columns_are_refused() -> None:
    G = DynamicGraph(device="cpu", edge_columns={"id": "int64", "type": "int32"})
    with pytest.raises(
        InputError, match=r"wanted \(src, dst\[, weights\], id, type\), as the graph has the edge colum"
    ):
        G.insert_edges(([0], [1]))
    with pytest.raises(InputError, match="insert_edges: weights were given"):
        G.insert_edges(([0], [1], [1.0], [2], [3]))
    with pytest.raises(InputError, match=r"columns not found: type; the frame has .*edge columns 'id', 'type'"):
        G.insert_edges(frame_of(False).drop(columns="type"))
    with pytest.raises(
        InputError, match=r"update: edges has 2 items at row 0; wanted rows \(src, dst\[, weight\], id, type\)"
    ):
        G.update(insert=[(0, 1)])
    with pytest.raises(InputTypeError, match="edges is a dict"):
        G.insert_edges({"source": [0]})
    assert G.version == 0
    assert G.insert_edges(([], [])).inserted == 0
    assert G.update(delete=[(0, 1)]).absent == 1
    one = DynamicGraph(device="cpu", edge_columns={"id": "int64"})
    with pytest.raises(InputError, match="edge column 'id'"):
        one.insert_edges(([0], [1]))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_graph_remade_with_columns_that_it_lacks_is_refused(weighted: bool) -> None:
    G = DynamicGraph(weighted=weighted, device="cpu", edge_columns={"x": "float32"})
    G.insert_edges(([0, 1], [1, 2], *([[0.5, 0.25]] if weighted else []), [100, 200]))
    before = G.to_pandas()
    for columns in ({"x": "float32", "z": "float32"}, {"z": "float32"}):
        with pytest.raises(InputError, match="from_edges: wanted the edge columns z; the given graph has x"):
            DynamicGraph.from_edges(G, edge_columns=columns, weighted=True, default_weight=9.0, device="cpu")
    pd.testing.assert_frame_equal(G.to_pandas(), before)
    plain = DynamicGraph.from_edges(G, edge_columns=None, device="cpu")
    assert list(plain.to_pandas().columns) == [name for name in before.columns if name != "x"]


def test_a_part_of_a_graphs_table_brings_the_columns_that_it_has() -> None:
    G = DynamicGraph(weighted=True, device="cpu", edge_columns={"x": "int64", "y": "int32"})
    G.insert_edges(([0, 1], [1, 2], [0.5, 0.25], [7, 8], [1, 2]))
    frame = G.to_pandas()
    for part in (frame[["source", "destination", "weight", "y"]], G.to_arrow().drop_columns(["x"])):
        assert dict(DynamicGraph.from_edges(part, device="cpu").edge_dtypes) == {"y": np.dtype("int32")}
    bare = DynamicGraph.from_edges(frame[["source", "destination", "weight"]], device="cpu")
    assert (dict(bare.edge_dtypes), bare.is_weighted()) == ({}, True)
    with pytest.raises(InputError, match="x"):
        DynamicGraph.from_edges(frame[["source", "destination", "weight"]], device="cpu", edge_columns={"x": "int64"})
