"""Windows of multigraphs: the rows are the graph's edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import dynstore
from dynstore import Stream, Window
from dynstore.errors import InputError, InputTypeError
from tests.conftest import DEVICES

COLUMNS = ["source", "destination", "weight", "time", "edge_id"]
Row = tuple[Any, ...]


def make(device: str = "cpu", **more: Any) -> dynstore.DynamicGraph:
    return dynstore.DynamicGraph(multigraph=True, device=device, **{"weighted": True, "timestamps": "int64", **more})


def listed(column: Any) -> list[Any]:
    """A column of any library and device as a list."""
    return column.to_pandas().tolist() if hasattr(column, "to_pandas") else column.tolist()


def rows_of(frame: Any) -> list[Row]:
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    return sorted(map(tuple, frame[COLUMNS].to_numpy().tolist()), key=lambda row: row[-1])


def random_batch(rng: np.random.Generator, size: int, first: int) -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "source": rng.integers(0, 9, size),
            "destination": rng.integers(0, 9, size),
            "weight": rng.integers(1, 99, size) / 4,
            "time": np.arange(first, first + size) + rng.integers(-5, 2, size),
            "edge_id": np.arange(first, first + size),
        }
    )


def left_by_time(rows: list[Row], batch: list[Row], length: int, step: int | None) -> tuple[list[Row], int]:
    """Return the rows that stay, and how many of the batch are late."""
    times = [row[3] for row in [*rows, *batch]]
    bound = max(times) - length
    bound = bound if step is None else bound // step * step
    late = sum(row[3] <= bound for row in batch)
    return [row for row in [*rows, *batch] if row[3] > bound], late


def left_by_count(rows: list[Row], batch: list[Row], length: int, step: int | None) -> list[Row]:
    over = max(len(rows) + len(batch) - length, 0)
    over = over if step is None else over - over % step
    return [*rows, *batch][over:]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", [None, 7])
@pytest.mark.parametrize("by", ["time", "count"])
@pytest.mark.parametrize("directed", [True, False])
def test_rows_stay_as_the_rule_says(
    directed: bool, by: Any, step: int | None, device: str, rng: np.random.Generator
) -> None:
    G = make(device, directed=directed)
    window = Window(G, 25, by=by, step=step)
    totals, held, newest = G.simple("sum"), list[Row](), 0
    for number in range(6 if device == "cuda-sim" else 15):
        size = int(rng.choice([0, 1, 9, 40]))
        frame = random_batch(rng, size, newest)
        newest += size
        report = window.slide(frame, edge_id="edge_id")
        if not directed:
            frame[COLUMNS[:2]] = np.sort(frame[COLUMNS[:2]].to_numpy(), axis=1)
        batch = list(map(tuple, frame.to_numpy().tolist()))
        if by == "count":
            held, late = left_by_count(held, batch, 25, step), 0
        elif batch or held:
            held, late = left_by_time(held, batch, 25, step)
        assert rows_of(window.events()) == sorted(held, key=lambda row: row[-1])
        assert len(window) == report.rows == len(held)
        assert report.late == (late if size else 0)
        if number % 4 == 3 and held:  # a reversal
            row = held.pop(int(rng.integers(len(held))))
            assert G.delete_edges(edge_ids=[int(row[-1])]).deleted == 1
    pairs = totals.edge_table()
    pairs = pairs.to_pandas() if hasattr(pairs, "to_pandas") else pairs
    assert not pairs[COLUMNS[:2]].duplicated().any()
    assert (pairs["weight"] > 0).all()


@pytest.mark.parametrize("form", ["pandas", "arrow", "polars", "tuple"])
def test_a_batch_longer_than_the_window(form: str) -> None:
    frame = pandas.DataFrame({"source": range(5), "destination": range(1, 6), "weight": 2.5, "time": range(5)})
    edges: Any = frame
    if form == "arrow":
        edges = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    elif form == "polars":
        edges = pytest.importorskip("polars").from_pandas(frame)
    elif form == "tuple":
        edges = tuple(frame[name].to_numpy() for name in frame)
    window = Window(make(), 3)
    report = window.slide(edges)
    assert (report.entered, report.left, report.rows, report.update.first_id) == (3, 2, 3, 0)
    assert rows_of(window.events()) == [(2, 3, 2.5, 2, 2), (3, 4, 2.5, 3, 3), (4, 5, 2.5, 4, 4)]
    window.slide([(7, 7, 1.0, 9)])
    assert window.events()["edge_id"].tolist() == [3, 4, 5]


def test_dates_and_spans() -> None:
    G = make()
    window = Window(G, "3D", by="time")
    days = pandas.date_range("2026-03-01", periods=6, freq="D")
    frame = pandas.DataFrame({"source": range(6), "destination": range(1, 7), "weight": 1.0, "time": days})
    assert window.slide(frame).late == 3
    assert window.events()["source"].tolist() == [3, 4, 5]
    assert window.newest == days[-1].value
    with pytest.raises(InputTypeError, match="`time` has numbers; wanted date-times"):
        window.slide(([1], [2], [1.0], [7]))
    assert len(window) == 3


def test_a_saved_graph_and_a_database_have_the_window_whole(tmp_path: Path) -> None:
    rows = ([1, 2, 3], [2, 3, 4], [1.0, 2.0, 3.0], [10, 20, 30])
    G = make()
    Window(G, 15, by="time").slide(rows)
    G.save(tmp_path / "saved")
    with dynstore.open(tmp_path / "db", device="cpu", multigraph=True, weighted=True, timestamps="int64") as db:
        Window(db.graph, 15, by="time").slide(rows)
    for restored in (dynstore.load(tmp_path / "saved", "cpu"), dynstore.open(tmp_path / "db", device="cpu").graph):
        window = Window(restored, 15, by="time")
        assert len(window) == 2
        assert window.newest == 30
        assert window.slide(([4], [5], [9.0], [36])).left == 1
        assert window.events()["time"].tolist() == [30, 36]
        if hasattr(restored, "database"):
            restored.database.close()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_stream_goes_on_with_its_window(tmp_path: Path, size: int, rng: np.random.Generator) -> None:
    rows = random_batch(rng, 120, 0)
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    options: dict[str, Any] = {"multigraph": True, "weighted": True, "timestamps": "int64", "device": "cpu"}
    for _ in range(3):
        with dynstore.open(tmp_path / "db", **options) as db:
            window = Window(db.graph, 30, by="time")
            before = len(window)
            source = dynstore.streams.FileSource(path, follow=False)
            stream = Stream(db.graph, source, window, batch_edges=size)
            stream.run(until=lambda progress: progress.applied >= 40)
            assert not stream.progress().rebuilding
            assert len(window) >= min(before, 1)
    held: list[Row] = []
    for row in map(tuple, rows.to_numpy().tolist()):
        held, _ = left_by_time(held, [row], 30, None)
    with dynstore.open(tmp_path / "db", **options) as db:
        window = Window(db.graph, 30, by="time")
        Stream(db.graph, dynstore.streams.FileSource(path, follow=False), window, batch_edges=size).run()
        assert rows_of(window.events()) == sorted(held, key=lambda row: row[-1])


def test_reversals_in_a_stream_with_a_window() -> None:
    rows = pandas.DataFrame(
        {
            "op": ["+", "+", "-", "+", "+", "-"],
            "source": [1, 2, 0, 1, 3, 0],
            "destination": [2, 3, 0, 3, 4, 0],
            "weight": [1.0, 2.0, 0.0, 3.0, 4.0, 0.0],
            "time": [1, 2, 3, 4, 11, 12],
            "edge_id": [5, 6, 5, 5, 7, 7],
        }
    )
    for size in (1, 2, 100):
        G = make()
        window = Window(G, 10, by="time")
        Stream(G, rows, window, batch_edges=size).run()
        assert rows_of(window.events()) == [(1, 3, 3.0, 4, 5), (2, 3, 2.0, 2, 6)]
        H = make()
        with pytest.raises(InputError, match="by='count': which rows it has would depend on where batches end"):
            Stream(H, rows, Window(H, 3), batch_edges=size).run()


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, {"keep": "sum"}, r"keep is 'sum', but in a multigraph each row is an edge; .* G.simple\('sum'\)"),
        ({"timestamps": None}, {"by": "time"}, "by is 'time', but the graph keeps no times"),
        ({}, {"by": "rows"}, "unknown by 'rows'"),
        ({}, {"length": 0}, "length"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    G = make(**options)
    with pytest.raises((InputError, InputTypeError), match=message):
        Window(G, **{"length": 3, **arguments})


def test_a_refused_batch_leaves_all_as_it_was() -> None:
    G = make()
    window = Window(G, 2)
    window.slide(([1, 2], [2, 3], [1.0, 2.0], [10, 20]))
    before = rows_of(window.events()), G.version, window.newest
    for edges in ([(1, 2)], ([1], [2], [np.nan], [3]), ([-1], [2], [1.0], [30]), "edges", [(1, 2, 3.0, None)]):
        with pytest.raises(InputError):
            window.slide(edges)
        assert (rows_of(window.events()), G.version, window.newest) == before
    with pytest.raises(InputError, match="edge_id has 1 at row 0"):
        window.slide(([1], [2], [1.0], [30]), edge_id=[1])
    assert (rows_of(window.events()), G.version, window.newest) == before


def test_a_plain_window_keeps_no_rows() -> None:
    G = dynstore.DynamicGraph(device="cpu")
    window = Window(G, 3)
    with pytest.raises(InputError, match=r"events: the graph has one edge a pair, .* multigraph=True"):
        window.events()
    with pytest.raises(InputError, match="slide: edge_id was given, but edges have no ids"):
        window.slide([(0, 1)], edge_id=[3])


def test_one_window_a_graph() -> None:
    G = make()
    window = Window(G, 3)
    with pytest.raises(InputError, match="another window"):
        Window(G, 3)
    assert len(window) == 0
    assert window.memory_usage()["total"] == 0


NAMES: dict[str, Any] = {"renumber": True, "reuse_ids": True, "timestamps": None}


def held_vertices(G: dynstore.DynamicGraph) -> set[str]:
    """The vertices of the graph that no deletion has left: those that a row belongs to for good."""
    gone = G.core.ids._gone
    flags = np.zeros(G.number_of_vertices(), bool)
    if gone is not None:
        flags[: len(gone)] = G.core.backend.to_host(gone)
    return {str(name) for name, is_gone in zip(listed(G.vertex_ids()), flags, strict=True) if not is_gone}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("directed", [True, False])
def test_vertices_leave_with_their_last_edge(directed: bool, device: str, rng: np.random.Generator) -> None:
    """Names come again, loops, reversals, edges by hand, another order of rows, a pin in between."""
    G = make(device, directed=directed, **NAMES)
    window, twin = Window(G, 30), make(device, directed=directed, **NAMES)
    pin: Any = None
    wanted: Any = None
    for number in range(10 if device == "cuda-sim" else 30):
        low = 4 * number
        ends = (rng.integers(low, low + 12, 9).astype(str).astype(object) for _ in range(2))
        rows = (*ends, np.ones(9))
        window.slide(rows)
        frame = window.events().to_pandas() if hasattr(window.events(), "to_pandas") else window.events()
        names = set(frame["source"]) | set(frame["destination"])
        assert held_vertices(G) == names
        assert G.number_of_vertices() <= 50
        if pin is not None:
            assert sorted(map(str, listed(pin.edge_table()["source"]))) == wanted
        if number % 5 == 1:
            G.delete_edges(edge_ids=[int(frame["edge_id"].iloc[-1])])
        elif number % 5 == 2:
            G.insert_edges((["hand"], ["made"], [1.0]))
        elif number % 5 == 3:
            G.reorder(0.0)
        elif number == 4:
            pin = G.pin()
            wanted = sorted(map(str, listed(pin.edge_table()["source"])))
    events = window.events()
    twin.insert_edges((events["source"], events["destination"], events["weight"]))
    found, fresh = (dynstore.weakly_connected_components(each) for each in (G, twin))
    found = found.to_pandas() if hasattr(found, "to_pandas") else found
    alive = found["vertex"].isin(sorted(names))
    assert found["labels"][alive].nunique() == fresh["labels"].nunique()


def test_names_that_come_once_need_no_more_room() -> None:
    """../shared/repro/window_keeps_vertices.py, with a multigraph that uses rows again."""
    G = make(**NAMES)
    window = Window(G, 1000)
    for k in range(20):
        names = pandas.Series(np.arange(1000) + k * 1000).astype(str)
        window.slide((names, names.iloc[::-1].reset_index(drop=True), np.ones(1000)))
    assert G.number_of_vertices() <= 2000
    assert len(dynstore.pagerank(G)) <= 2000


def test_without_dropping_vertices_stay() -> None:
    for options in ({"drop_vertices": False}, {}):
        G = make(**{**NAMES, "reuse_ids": bool(options)})
        window = Window(G, 1, **options)
        window.slide((["a", "c"], ["b", "d"], [1.0, 1.0]))
        window.slide((["e"], ["f"], [1.0]))
        assert G.number_of_vertices() == 4


def test_dropped_vertices_in_a_database(tmp_path: Path) -> None:
    options: dict[str, Any] = {"multigraph": True, "weighted": True, "renumber": True, "reuse_ids": True}
    with dynstore.open(tmp_path / "db", device="cpu", **options) as db:
        window = Window(db.graph, 2)
        for first, second in ("ab", "cd", "ef", "ac", "gh"):
            window.slide(([first], [second], [1.0]))
        before = db.graph.vertex_ids().tolist(), rows_without_times(window)
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        window = Window(db.graph, 2)
        assert (db.graph.vertex_ids().tolist(), rows_without_times(window)) == before
        assert window.drop_vertices
        window.slide((["x"], ["y"], [1.0]))
        assert db.graph.number_of_vertices() <= 6


def rows_without_times(window: Window) -> list[Row]:
    return list(map(tuple, window.events().to_numpy().tolist()))


def test_what_dropping_needs() -> None:
    with pytest.raises(InputError, match="make it with renumber=True and reuse_ids=True"):
        Window(make(renumber=True), 3, drop_vertices=True)
    with pytest.raises(InputError, match="the graph has one edge a pair; wanted a multigraph"):
        Window(dynstore.DynamicGraph(device="cpu"), 3, drop_vertices=True)
    with pytest.raises(InputError, match="update: drop_vertices is True, and the graph has one edge a pair"):
        dynstore.DynamicGraph(device="cpu").update(insert=[(0, 1)], drop_vertices=True)
    with pytest.raises(InputError, match="update: drop_vertices is True, but rows of the graph keep their ids"):
        make().update(insert=[(0, 1, 1.0, 3)], drop_vertices=True)
    with pytest.raises(InputTypeError, match="drop_vertices is 1; wanted True or False"):
        Window(make(**NAMES), 3, drop_vertices=1)  # type: ignore[arg-type]
