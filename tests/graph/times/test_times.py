"""Graphs that keep the last time of each edge: updates with times, expiry, and both in one version."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputError
from dynstore.graph import records
from dynstore.testing.invariants import check_graph, check_report
from dynstore.typing import UpdateReport
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.graph.cases import KIND_NAMES, KINDS
from tests.libraries import FRAMES, from_pandas

Row = tuple[Any, ...]
every_kind = pytest.mark.parametrize(("directed", "weighted"), KINDS, ids=KIND_NAMES)
COUNTS = ("inserted", "replaced", "deleted", "absent", "duplicates", "expired", "late")


class Model:
    """A graph as a dict from edges to [weight,] id and last time; its updates are three calls, one after another."""

    def __init__(self, directed: bool, weighted: bool) -> None:
        self.directed, self.weighted = directed, weighted
        self.edges: dict[tuple[Any, Any], Row] = {}
        self.vertices: set[Any] = set()

    def edge(self, u: Any, v: Any) -> tuple[Any, Any]:
        return (u, v) if self.directed else (min(u, v), max(u, v))

    def update(self, insert: list[Row], delete: list[Row], before: int | None, add: bool) -> UpdateReport:
        old = [] if before is None else [edge for edge, row in self.edges.items() if row[-1] < before]
        for edge in old:
            del self.edges[edge]
        asked = {self.edge(u, v) for u, v in delete}
        found = asked & self.edges.keys()
        for edge in found:
            del self.edges[edge]
        kept = [row for row in insert if before is None or row[-1] >= before]
        there, came = set(self.edges), set()
        for u, v, *row in kept:
            edge = self.edge(u, v)
            if edge in self.edges:
                if self.weighted and add:
                    row[0] += self.edges[edge][0]
                row[-1] = max(row[-1], self.edges[edge][-1])
            self.edges[edge] = tuple(row)
            came.add(edge)
            self.vertices |= {u, v}
        return UpdateReport(
            inserted=len(came - there),
            replaced=len(came & there),
            deleted=len(found),
            absent=len(asked - found),
            duplicates=len(kept) - len(came) + len(delete) - len(asked),
            expired=len(old),
            late=len(insert) - len(kept),
        )


def rows_of(G: DynamicGraph) -> dict[tuple[Any, Any], Row]:
    columns = [column.tolist() for column in G.to_pandas().to_dict("series").values()]
    edges = {(u, v): tuple(row) for u, v, *row in zip(*columns, strict=True)}
    return edges if G.is_directed() else {(min(edge), max(edge)): row for edge, row in edges.items()}


class Drawing:
    """Random rows of a stream."""

    def __init__(self, rng: np.random.Generator, weighted: bool, ids: str, most: int) -> None:
        self.rng, self.weighted, self.most = rng, weighted, most
        self.name = (lambda n: f"v{n}") if ids == "strings" else (lambda n: n * 10**12) if ids == "sparse" else int
        self.now = 0

    def pairs(self, most: int) -> list[Row]:
        ends = self.rng.integers(0, self.most, (2, int(self.rng.integers(0, most)))).tolist()
        return [(self.name(u), self.name(v)) for u, v in zip(*ends, strict=True)]

    def rows(self, most: int, in_order: bool) -> list[Row]:
        pairs = self.pairs(most)
        times = self.rng.integers(self.now - 25, self.now + 10, len(pairs))
        if in_order:
            times = self.now + np.sort(self.rng.integers(0, 10, len(pairs)))
        self.now += 10
        weights = self.rng.integers(-8, 8, len(pairs)).astype(float).tolist()
        extra = zip(weights, self.rng.integers(0, 2**40, len(pairs)).tolist(), times.tolist(), strict=True)
        return [(*pair, *(row if self.weighted else row[1:])) for pair, row in zip(pairs, extra, strict=True)]


def same(report: UpdateReport, wanted: UpdateReport) -> None:
    assert {name: getattr(report, name) for name in COUNTS} == {name: getattr(wanted, name) for name in COUNTS}


@crossed(
    directed=[True, False],
    weighted=[True, False],
    kind=[("numbers", "int64"), ("strings", "int32"), ("sparse", "int64")],
    backend_name=DEVICES,
)
def test_updates_are_those_of_a_dict(
    directed: bool,
    weighted: bool,
    kind: tuple[str, Any],
    backend_name: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, dtype = kind
    monkeypatch.setattr(records, "MIN_RECORDS", 2)
    monkeypatch.setattr(records, "LEAST_SHIFT", 2)
    G = DynamicGraph(
        directed,
        weighted,
        device=backend_name,
        renumber=ids != "numbers",
        edge_columns={"id": "int64"},
        timestamps=dtype,
        vertex_dtype="int64" if ids == "sparse" else "int32",
    )
    model = Model(directed, weighted)
    steps, most, size = (40, 30, 60) if backend_name == "cpu" else (7, 10, 16)
    drawing = Drawing(rng, weighted, ids, most)
    log = G.core.follow() if weighted else None  # without one, edges on a GPU expire in one step
    for step in range(steps):
        if step == steps // 2 and directed:
            G.snapshot(transposed=True)  # in-edges from here on
        insert, delete = drawing.rows(size, in_order=bool(step % 2)), drawing.pairs(size // 2)
        bound, add = int(drawing.now - rng.integers(5, 60)), bool(rng.integers(0, 2))
        before, version = G.number_of_edges(), G.version
        way = step % 5
        if way == 0:
            report, delete, bound_used = G.insert_edges(insert, on_duplicate="add" if add else "replace"), [], None
        elif way == 1:
            report, insert, delete, bound_used = G.expire(bound), [], [], bound
        elif way == 2:
            report, insert, delete, bound_used = G.update(expire_before=bound), [], [], bound
        else:
            bound_used = bound if way == 3 else None
            report = G.update(insert, delete, bound_used, on_duplicate="add" if add else "replace")
        same(report, model.update(insert, delete, bound_used, add))
        check_report(before, report, G.number_of_edges())
        assert rows_of(G) == model.edges
        assert (G.number_of_edges(), G.version) == (len(model.edges), version + 1)
        assert set(G) == model.vertices or not G.is_renumbered()
        check_graph(G, transposed=directed and step >= steps // 2)
        check_bounds(G)
        if step % 3 == 0 and log is not None:
            check_delta(G, log)
            log.restart()
    table = G.to_arrow()
    others = [G.copy(), pickle.loads(pickle.dumps(G)), DynamicGraph.from_edges(G)]
    for other in (*others, DynamicGraph.from_edges(table, device=backend_name)):
        assert (rows_of(other), other.timestamps) == (model.edges, np.dtype(dtype))


def check_bounds(G: DynamicGraph) -> None:
    """Check that no time of an edge is below the bound of its stretch, or above the newest."""
    assert G.core.records is not None
    times, lows, shift = G.core.records.aged
    numbers = G.core.out.slots.weights[G.snapshot().mask()]
    assert (lows[numbers >> shift] <= times[numbers]).all()
    assert not len(numbers) or G.core.records.newest >= times[numbers].max()


def check_delta(G: DynamicGraph, log: Any) -> None:
    """Compare what a log has kept with the present edges."""
    delta = G.core.net_delta(log) if log.complete else None
    if delta is not None:
        there = G.core.backend.to_host(G.core.out.look_up(delta.src, delta.dst)[0])
        np.testing.assert_array_equal(G.core.backend.to_host(delta.slots) >= 0, there)


@pytest.mark.parametrize("directed", [True, False])
def test_tracked_answers_follow(directed: bool, rng: np.random.Generator) -> None:
    G = DynamicGraph(directed, device="cpu", timestamps="int64")
    G.insert_edges((*rng.integers(0, 60, (2, 600)), np.arange(600)))
    monitors = {name: G.track(name) for name in ("weakly_connected_components", "pagerank")}
    for step in range(5):
        now = 600 + 30 * step
        G.update((*rng.integers(0, 60, (2, 30)), np.arange(now, now + 30)), expire_before=now - 500)
        G.expire(now - 490)
        H = DynamicGraph.from_edges(G, timestamps=None)
        for name, column in (("weakly_connected_components", "labels"), ("pagerank", "pagerank")):
            found, wanted = monitors[name].result()[column], getattr(dynstore, name)(H)[column]
            np.testing.assert_allclose(found, wanted, rtol=1e-4, err_msg=name)


def test_a_pair_that_expires_is_deleted_and_comes_again(backend_name: str) -> None:
    G = DynamicGraph(weighted=True, device=backend_name, timestamps="int64")
    G.insert_edges([(0, 1, 1.0, 5), (1, 2, 2.0, 20), (2, 0, 3.0, 6)])
    report = G.update(
        [(0, 1, 9.0, 30), (1, 2, 9.0, 12), (7, 8, 9.0, 4)], [(0, 1), (1, 2)], expire_before=10, on_duplicate="add"
    )
    same(report, UpdateReport(inserted=2, deleted=1, absent=1, expired=2, late=1))
    assert rows_of(G) == {(0, 1): (9.0, 30), (1, 2): (9.0, 12)}
    assert (G.version, G.number_of_vertices()) == (2, 3)  # late rows make no vertices
    G.insert_edges(([0, 0, 0], [1, 1, 1], [1.0, 2.0, 3.0], [25, 40, 26]))
    assert rows_of(G)[0, 1] == (3.0, 40)
    assert G.expire(2**63 - 1).expired == 2
    assert G.expire(-(2**63)).expired == 0


@pytest.mark.parametrize("kept", [True, False], ids=["in-edges", "none"])
@pytest.mark.parametrize("directed", [True, False])
def test_edges_expire_in_one_step_where_that_only_clears_bits(
    directed: bool, kept: bool, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "LEAST_SHIFT", 2)
    G = DynamicGraph(directed, device=backend_name, timestamps="int64")
    src, dst = np.repeat(np.arange(12), 12), np.tile(np.arange(12), 12)
    times = np.where(src == 3, 7, 50)  # the edges from 3 are whole leaves
    times[(src + dst) % 5 == 0] = 2
    G.insert_edges((src, dst, times))
    if kept:
        G.snapshot(transposed=True)
    made, attempt = [], type(G.core.out).try_delete_below

    def attempted(*arguments: Any) -> Any:
        made.append(attempt(*arguments))
        return made[-1]

    monkeypatch.setattr(type(G.core.out), "try_delete_below", attempted)
    left = rows_of(G)
    for bound in (1, 3, 8, 100):
        left = {edge: row for edge, row in left.items() if row[-1] >= bound}
        before, version = G.number_of_edges(), G.version
        assert G.expire(bound).expired == before - len(left)
        assert (rows_of(G), G.version, G.number_of_edges()) == (left, version + 1, len(left))
        check_graph(G, transposed=kept and directed)
        check_bounds(G)
    if backend_name != "cpu":
        assert [plan is not None for plan in made][:2] == [True, True]
        assert made[-1] is None
        with_export = DynamicGraph(directed, device=backend_name, timestamps="int64")
        with_export.insert_edges((src, dst, times))
        shown = with_export.snapshot().export()
        to_host = with_export.core.backend.to_host
        held = {name: to_host(array).copy() for name, array in shown.items() if array is not None}
        with_export.expire(3)
        assert made[-1] is None
        for name, array in held.items():
            np.testing.assert_array_equal(to_host(shown[name]), array)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_bounds_beyond_the_dtype(dtype: Any, backend_name: str) -> None:
    limits = np.iinfo(dtype)
    G = DynamicGraph(device=backend_name, timestamps=dtype)
    G.insert_edges(([0, 1], [1, 2], [limits.min, limits.max]))
    assert G.expire(limits.min).expired == 0
    assert G.expire(limits.max).expired == 1
    assert G.expire(2**63 - 1).expired == (dtype == "int32")


@pytest.mark.parametrize("as_frame", [True, False], ids=["frame", "tuple"])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_window_by_time_keeps_what_expiry_leaves(
    as_frame: bool, weighted: bool, backend_name: str, rng: np.random.Generator
) -> None:
    G, H = (DynamicGraph(weighted=weighted, device=backend_name, timestamps="int64") for _ in range(2))
    window = dynstore.Window(G, 30, by="time")
    newest = 0
    for step in range(8):
        times = np.sort(rng.integers(10 * step, 10 * step + 10, 9))
        columns = {"source": rng.integers(0, 5, 9), "destination": rng.integers(0, 5, 9)}
        columns |= {"weight": rng.random(9)} if weighted else {}
        rows: Any = pd.DataFrame({**columns, "time": times}) if as_frame else (*columns.values(), times)
        newest = int(times[-1])
        slid, updated = window.slide(rows).update, H.update(rows, expire_before=newest - 29)
        assert slid.inserted - slid.deleted == updated.inserted - updated.expired
        assert rows_of(G) == rows_of(H)
    kept = window.slide(([0], [1], *[[0.5] for _ in range(weighted)]), time=[newest + 1])
    assert (kept.entered, rows_of(G)[0, 1][-1]) == (1, newest + 1)
    counted = DynamicGraph(device=backend_name, timestamps="int64")
    last = dynstore.Window(counted, 2)
    last.slide(pd.DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3], "at": [5, 6, 7]}), time="at")
    assert rows_of(counted) == {(1, 2): (6,), (2, 3): (7,)}
    with pytest.raises(InputError, match=r"slide: edges have 2 columns; wanted .* as the graph keeps times"):
        last.slide(([0], [1]))


@pytest.mark.parametrize("keep", ["latest", "count", "sum"])
def test_a_window_by_count_keeps_the_greatest_time(keep: Any, backend_name: str) -> None:
    G = DynamicGraph(weighted=True, device=backend_name, timestamps="int32")
    window = dynstore.Window(G, 5, keep=keep)
    weights = [] if keep == "count" else [[2.0, 2.0, 2.0]]
    window.slide(([0, 0, 1], [1, 1, 2], *weights, [10, 5, 3]))
    assert [row[-1] for row in rows_of(G).values()] == [10, 3]
    window.slide(([0, 1, 1], [1, 2, 2], *weights, [7, 9, 8]))
    assert [row[-1] for row in rows_of(G).values()] == [10, 9]


# ---------------------------------------------------------------------- where times come from


@pytest.mark.parametrize("library", FRAMES)
def test_frames_and_arrays(library: str, backend_name: str) -> None:
    frame: Any = pd.DataFrame({"source": [0, 1], "destination": [1, 2], "weight": [0.5, 1.0], "time": [7, 8]})
    frame["other"] = [70, 80]
    frame = from_pandas(library, frame)
    options: dict[str, Any] = {"device": backend_name, "frames": library}
    G = DynamicGraph.from_edges(frame, timestamps="int64", **options)
    assert rows_of(G) == {(0, 1): (0.5, 7), (1, 2): (1.0, 8)}
    G.insert_edges(frame, time="other")
    assert rows_of(G) == {(0, 1): (0.5, 70), (1, 2): (1.0, 80)}
    G.insert_edges(frame, time=[90, 3])
    assert rows_of(G) == {(0, 1): (0.5, 90), (1, 2): (1.0, 80)}
    G.insert_edges(([0], [2], [1.0]), time=np.array([5]))
    G.insert_edges(([0], [3], [1.0], [6]))
    names = ["source", "destination", "weight", "time"]
    for table in (G.to_pandas(), G.to_arrow(), G.to_arrow(compact=True)):
        assert list(getattr(table, "column_names", table.columns)) == names
        assert rows_of(DynamicGraph.from_edges(table, **options)) == rows_of(G)
    assert list(G.edge_table().columns if library != "pyarrow" else G.edge_table().column_names) == names
    assert DynamicGraph.from_edges(frame, time="other", **options).timestamps == np.int64
    assert DynamicGraph.from_edges(frame, **options).timestamps is None
    part = G.to_pandas()[names[:3]]
    assert DynamicGraph.from_edges(part, device=backend_name).timestamps is None


def test_date_times() -> None:
    days = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"])
    frame = pd.DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3], "when": days})
    moments = [
        datetime.datetime(2026, 1, 3),
        pd.Timestamp("2026-01-03 01:00", tz="Europe/Berlin"),
        np.datetime64("2026-01-03"),
        datetime.date(2026, 1, 3),
    ]
    for moment in moments:
        G = DynamicGraph.from_edges(frame, time="when", device="cpu")
        assert G.expire(moment).expired == 2
        assert G.edge_columns()["time"].tolist() == [int(days[2].value)]
    assert G.update(frame, expire_before=moments[0], time="when").late == 2


@every_kind
def test_saved_graphs(directed: bool, weighted: bool, backend_name: str, tmp_path: Path) -> None:
    G = DynamicGraph(directed, weighted, device=backend_name, edge_columns={"id": "int64"}, timestamps="int32")
    weights = [[0.5, -1.0, 2.0]] if weighted else []
    G.insert_edges(([3, 1, 2], [1, 0, 2], *weights, [7, 8, 2**60], [4, 5, 6]))
    G.save(tmp_path / "graph")
    H = dynstore.load(tmp_path / "graph", device="cpu")
    assert (rows_of(H), H.timestamps, H.edge_dtypes, H.version) == (rows_of(G), G.timestamps, G.edge_dtypes, G.version)
    assert H.expire(6).expired == 2
    H.insert_edges(([2], [2], *[[4.0] for _ in weights], [1], [2]))
    assert rows_of(H)[2, 2][-2:] == (1, 6)
    check_graph(H)


# ---------------------------------------------------------------------- what is refused
