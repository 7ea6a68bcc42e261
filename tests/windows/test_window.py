"""Sliding windows: the graph holds the window's pairs after every slide, whatever the stream."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph, Window
from dynstore.errors import InputError, InputTypeError, OutOfMemoryError
from dynstore.stores import STORES
from dynstore.testing.invariants import check_graph, named_edges
from tests.conftest import DEVICES
from tests.crossed import crossed, in_turn
from tests.libraries import FRAMES, from_pandas
from tests.windows.model import WindowModel

HOST_ONLY = ("adjlists", "pma")
NAMES = np.array([f"v{number:02d}" for number in range(60)], dtype=object)


def batch_of(rng: np.random.Generator, size: int, clock: int, names: bool = False, late: int = 0) -> pd.DataFrame:
    """Rows whose pairs repeat, and whose times go back by up to ``late``."""
    src, dst = rng.integers(0, 12, (2, size)) * 3
    time = clock + np.arange(size) // 2 - rng.integers(0, late + 1, size)
    frame = pd.DataFrame({"source": src, "destination": dst, "weight": rng.integers(1, 9, size), "time": time})
    return frame.assign(source=NAMES[src], destination=NAMES[dst]) if names else frame


class Pair:
    """A window and its model, slid together."""

    def __init__(self, length: Any, by: str = "count", keep: str = "latest", step: Any = None, **options: Any) -> None:
        self.G = DynamicGraph(**{"device": "cpu", **options})
        self.window = Window(self.G, length, by, keep, step)  # type: ignore[arg-type]
        self.model = WindowModel(length, by, keep, step, self.G.is_directed(), self.G.is_weighted())

    def slide(self, frame: pd.DataFrame) -> dynstore.SlideReport:
        columns = ["source", "destination", "weight", "time"]
        if not self.G.is_weighted() or self.window.keep == "count":
            frame = frame.drop(columns="weight").assign(weight=1.0)[columns]
        version = self.G.version
        given = {"time": "time"} if self.window.by == "time" else {}
        report = self.window.slide(frame if self.G.is_weighted() else frame.drop(columns="weight"), **given)
        self.model.slide(frame[columns].itertuples(index=False, name=None))
        assert named_edges(self.G) == pytest.approx(self.model.edges())
        assert len(self.window) == report.rows == len(self.model.rows)
        assert report.late == self.model.late
        assert self.G.version == version + 1
        return report


CASES = [("cpu", store) for store in sorted(STORES)] + [
    (device, store) for device in DEVICES if device != "cpu" for store in ("gpma+", "merge", "slab_hash", "lpma")
]
COLUMNED = [("count", False), ("time", False), ("time", True)]  # by what, and whether vertices have names


@in_turn(case=CASES, directed=[True, False])
def test_any_store(case: tuple[str, str], directed: bool) -> None:
    (device, store), rng, late = case, np.random.default_rng(1), 3
    pair = Pair(40, "time", "latest", directed=directed, weighted=True, store=store, device=device)
    for step in range(12 if device == "cpu" else 4):
        pair.slide(batch_of(rng, 1 + 11 * (step % 4), 12 * step, late=late))
        check_graph(pair.G, transposed=step % 2 == 1)


@crossed(
    keep=["latest", "count", "sum"],
    rule=[("count", None), ("count", 7), ("time", None), ("time", 6)],
    names=[False, True],
)
def test_any_rule(keep: str, rule: tuple[str, Any], names: bool) -> None:
    (by, step), rng = rule, np.random.default_rng(2)
    pairs = [Pair(30, by, keep, step, directed=directed, weighted=True, renumber=names) for directed in (True, False)]
    for number, size in enumerate((1, 9, 0, 20, 35, 3, 80, 5, 5, 12, 40, 2)):
        frame = batch_of(rng, size, 9 * number, names, late=6)
        for pair in pairs:
            pair.slide(frame)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", ["count", "sum"])
def test_counts_and_sums_on_every_device(device: str, keep: str) -> None:
    rng = np.random.default_rng(3)
    pair = Pair(20, "count", keep, directed=False, weighted=True, device=device)
    for size in (15, 12, 3, 30):
        pair.slide(batch_of(rng, size, 0))


@pytest.mark.parametrize("names", [False, True])
def test_an_unweighted_graph_holds_the_pairs(names: bool) -> None:
    rng = np.random.default_rng(4)
    pair = Pair(50, renumber=names)
    for step in range(30):
        report = pair.slide(batch_of(rng, 5 + step % 7, step, names))
        assert report.update.replaced == 0  # known pairs are not inserted again
    assert pair.window.memory_usage()["total"] == sum(list(pair.window.memory_usage().values())[:2])


@in_turn(store=sorted(STORES), directed=[True, False])
def test_a_real_stream_with_repeated_pairs(store: str, directed: bool) -> None:
    """Deleting the oldest rows and inserting the newest ones loses edges where pairs repeat; the window does not."""
    stream = dynstore.datasets.load("mathoverflow")
    src, dst = np.asarray(stream.src)[:9_000], np.asarray(stream.dst)[:9_000]
    length, step = 3_000, 1_000
    right, loop = (DynamicGraph(directed=directed, store=store, device="cpu") for _ in range(2))
    window = Window(right, length)
    for high in range(step, src.shape[0] + 1, step):
        window.slide((src[high - step : high], dst[high - step : high]))
        low = max(high - length, 0)
        if low:
            loop.delete_edges((src[low - step : low], dst[low - step : low]))
        loop.insert_edges((src[high - step : high], dst[high - step : high]))
        truth = set(zip(src[low:high].tolist(), dst[low:high].tolist(), strict=True))
        assert set(named_edges(right)) == (truth if directed else truth | {(v, u) for u, v in truth})
    assert set(named_edges(loop)) < set(named_edges(right))


@crossed(device=DEVICES, kind=COLUMNED, directed=[True, False], weighted=[True, False])
def test_extra_columns_are_those_of_the_latest_row(
    device: str, kind: tuple[str, bool], directed: bool, weighted: bool
) -> None:
    (by, names), rng, rows = kind, np.random.default_rng(8), 0
    options: dict[str, Any] = {"edge_columns": {"id": "int64", "place": "float32"}, "renumber": names}
    G = DynamicGraph(directed=directed, weighted=weighted, device=device, frames="pandas", **options)
    window, model = Window(G, 25, by), WindowModel(25, by, "latest", None, directed, True)  # type: ignore[arg-type]
    for step, size in enumerate((10, 0, 30, 40, 3) if device == "cpu" else (10, 0, 14)):
        frame = batch_of(rng, size, 12 * step, names, late=4)
        frame = frame.assign(id=np.arange(rows, rows + size), place=np.arange(rows, rows + size) / 2)
        rows += size
        window.slide(frame if weighted else frame.drop(columns="weight"), **({"time": "time"} if by == "time" else {}))
        model.slide(frame[["source", "destination", "id", "time"]].itertuples(index=False, name=None))
        table = G.edge_table()
        found = {(u, v): row for u, v, row in zip(table["source"], table["destination"], table["id"], strict=True)}
        wanted = {pair: row for pair, row in model.edges().items() if directed or pair[0] <= pair[1]}
        assert {pair if directed else tuple(sorted(pair)): row for pair, row in found.items()} == wanted
        assert (table["place"] == table["id"] / 2).all()
        check_graph(G, transposed=step % 2 == 1)
    if by == "count":
        window.slide([(1, 2, *([0.5] if weighted else []), 7, 8.0)])
        columns = {name: column.tolist() for name, column in G.edge_columns().items()}
        assert columns["place"][columns["id"].index(7)] == 8.0


@crossed(device=DEVICES, kind=COLUMNED, keep=["count", "sum"], directed=[True, False])
def test_counts_and_sums_come_with_the_columns_of_the_latest_row(
    device: str, kind: tuple[Any, bool], keep: Any, directed: bool
) -> None:
    (by, names), rng, rows = kind, np.random.default_rng(9), 0
    options: dict[str, Any] = {"edge_columns": {"id": "int64"}, "renumber": names, "frames": "pandas"}
    G = DynamicGraph(directed, True, device=device, **options)
    window, weights = Window(G, 25, by, keep), WindowModel(25, by, keep, None, directed, True)
    ids = WindowModel(25, by, "latest", None, directed, True)
    for step, size in enumerate((10, 0, 30, 5, 40, 3, 6) if device == "cpu" else (10, 0, 14, 4)):
        frame = batch_of(rng, size, 12 * step, names, late=14).assign(id=np.arange(rows, rows + size))
        rows += size
        window.slide(
            frame if keep == "sum" else frame.drop(columns="weight"), **({"time": "time"} if by == "time" else {})
        )
        weights.slide(frame[["source", "destination", "weight", "time"]].itertuples(index=False, name=None))
        ids.slide(frame[["source", "destination", "id", "time"]].itertuples(index=False, name=None))
        columns = {name: column.tolist() for name, column in G.edge_columns().items()}
        found = {}
        for u, v, weight, number in zip(*columns.values(), strict=True):
            found[(u, v) if directed or u <= v else (v, u)] = weight, number
        wanted = {
            pair: (weight, ids.edges()[pair])
            for pair, weight in weights.edges().items()
            if directed or pair[0] <= pair[1]
        }
        assert found == wanted
        check_graph(G, transposed=step % 2 == 1)
        if step == 2:
            pairs = sorted(found)[:3]
            G.delete_edges(pairs)
            for pair in pairs:
                ids.delete(pair)
                weights.delete(pair)


@pytest.mark.parametrize("keep", ["count", "sum"])
def test_a_slide_that_fails_leaves_columns_and_times(keep: Any, backend_name: str) -> None:
    G = DynamicGraph(weighted=True, device=backend_name, edge_columns={"id": "int64"})
    window = Window(G, 10, "time", keep)
    weights: list[Any] = [[1.0, 2.0]] if keep == "sum" else []
    window.slide(([0, 1], [1, 2], *weights, [1, 2]), time=[5, 6])
    with pytest.raises(InputError):
        window.slide(([0, 1], [1, -2], *weights, [3, 4]), time=[9, 9])
    window.slide(([0, 1], [1, 2], *weights, [5, 6]), time=[7, 4])  # the second one is late
    columns = {name: G.core.backend.to_host(column).tolist() for name, column in G.edge_columns().items()}
    assert columns["id"] == [5, 2]
    assert columns["weight"] == ([2.0, 4.0] if keep == "sum" else [2.0, 2.0])


def test_a_batch_brings_all_columns() -> None:
    G = DynamicGraph(weighted=True, device="cpu", edge_columns={"id": "int64"})
    window = Window(G, 5)
    with pytest.raises(InputError, match=r"slide: edges have 2 columns; wanted \(src, dst\[, weights\], id\)"):
        window.slide(([0], [1]))
    with pytest.raises(InputError, match=r"slide: the graph is weighted, and the edges have no weights"):
        window.slide(([0], [1], [2]))
    assert len(window) == G.version == 0


@pytest.mark.parametrize("library", FRAMES)
def test_date_times_of_every_library(library: str) -> None:
    times = pd.date_range("2026-01-01", periods=6, freq="20min")
    frame = pd.DataFrame({"source": range(6), "destination": range(1, 7), "time": times})
    forms: list[Any] = [
        from_pandas(library, frame),
        frame.assign(time=times.tz_localize("Europe/Berlin")),
        frame.convert_dtypes(dtype_backend="pyarrow"),
    ]
    for length in ("1h", datetime.timedelta(hours=1), np.timedelta64(60, "m"), pd.Timedelta("1h")):
        for form in forms:
            G = DynamicGraph(device="cpu")
            window = Window(G, length, by="time")
            assert window.slide(form).late == 3
            assert sorted(named_edges(G)) == [(3, 4), (4, 5), (5, 6)]
    G = DynamicGraph(device="cpu")
    Window(G, "1h", "time").slide(([0, 1], [1, 2]), time=[datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)])
    assert sorted(named_edges(G)) == [(1, 2)]


def test_times_may_be_an_array_or_another_column() -> None:
    G = DynamicGraph(device="cpu")
    window = Window(G, 2.5, by="time")
    assert window.slide([(0, 1), (1, 2)], time=[1, 2]).entered == 2
    assert window.slide(pd.DataFrame({"source": [2], "destination": [3], "at": [4]}), time="at").left == 1
    assert sorted(named_edges(G)) == [(1, 2), (2, 3)]


def test_steps_let_rows_leave_together() -> None:
    G = DynamicGraph(device="cpu")
    window = Window(G, 4, step=3)
    left = [window.slide([(n, n + 1)]).left for n in range(12)]
    assert left == [0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 0, 0]


def test_an_edge_deleted_by_hand_stays_out_until_it_occurs_again() -> None:
    rng = np.random.default_rng(5)
    for keep in ("latest", "count", "sum"):
        pair = Pair(30, keep=keep, weighted=True)
        for step in range(25):
            pair.slide(batch_of(rng, 6, step))
            if step % 3 == 0:
                src, dst = (column.tolist() for column in list(pair.G.edge_columns().values())[:2])
                chosen = int(rng.integers(0, len(src)))
                pair.G.delete_edges(([src[chosen]], [dst[chosen]]))
                pair.model.delete((src[chosen], dst[chosen]))
    G = DynamicGraph(device="cpu")
    window = Window(G, 3)
    window.slide([(0, 1), (1, 2)])
    G.delete_edges([(0, 1)])
    window.slide([(0, 1)])
    assert G.has_edges([(0, 1)]).all()


def test_vertices_may_be_reordered_deleted_and_cleared() -> None:
    rng = np.random.default_rng(6)
    pair = Pair(40, keep="count", weighted=True, renumber=True)
    for step in range(12):
        pair.slide(batch_of(rng, 9, step, names=True))
        if step % 3 == 1:
            pair.G.reorder()
    pair.G.clear()
    pair.model.rows.clear()
    for step in range(4):
        pair.slide(batch_of(rng, 30, step, names=True))


def test_a_number_that_gets_another_id_does_not_inherit_its_rows() -> None:
    G = DynamicGraph(renumber=True, reuse_ids=True, device="cpu")
    window = Window(G, 4)
    window.slide([("a", "b"), ("b", "c")])
    G.delete_vertices(["a"])
    window.slide([("z", "b")])  # takes the number of a
    window.slide([("x", "y"), ("x", "w")])  # (a, b) leaves
    assert G.has_edges([("z", "b")]).all()
    assert G.number_of_edges() == 4
    window.slide([("p", "q"), ("p", "r")])
    assert not G.has_edges([("z", "b"), ("b", "c")]).any()


def test_a_slide_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    for keep in ("latest", "sum"):
        pair = Pair(40, "time", keep, weighted=True, store="merge", renumber=True)
        for step in range(10):
            pair.slide(batch_of(rng, 9, 10 * step, names=True, late=4))
            state = named_edges(pair.G), pair.G.version, len(pair.window)
            with monkeypatch.context() as patch:
                kind, left = type(pair.G.core.out), [MemoryError("none left")]
                plan = kind.plan_insert

                def plan_once(*batch: Any, plan: Any = plan, left: Any = left) -> Any:
                    if left:
                        raise left.pop()
                    return plan(*batch)

                patch.setattr(kind, "plan_insert", plan_once)
                with pytest.raises(OutOfMemoryError, match="slide: memory ran out"):
                    pair.window.slide(batch_of(rng, 3, 10 * step + 30, names=True))
            with pytest.raises(InputError):
                pair.window.slide(([1.5], ["v"], [1.0]), time=[10 * step])
            assert (named_edges(pair.G), pair.G.version, len(pair.window)) == state


def test_integer_times_stay_exact() -> None:
    G = DynamicGraph(device="cpu")
    window = Window(G, 10, by="time")
    window.slide([(0, 1)], time=[2**60])
    window.slide([(1, 2)], time=[2**60 + 9])
    assert G.number_of_edges() == 2
    window.slide([(2, 3)], time=[2**60 + 10])
    assert sorted(named_edges(G)) == [(1, 2), (2, 3)]
    with pytest.raises(InputTypeError, match="`time` is float64; wanted integers, as in the batches before"):
        window.slide([(3, 4)], time=[1.5])
    H = DynamicGraph(device="cpu")
    minute = Window(H, 60 * 1e9, by="time")  # a float, as such products are
    begin = 1_700_000_000 * 10**9 + 100
    minute.slide([(0, 1), (1, 2)], time=[begin, begin + 1])
    minute.slide([(2, 3)], time=[begin + 60 * 10**9])
    assert sorted(named_edges(H)) == [(1, 2), (2, 3)]


def test_a_window_does_not_keep_its_graph_from_another() -> None:
    G = DynamicGraph(device="cpu")
    window = Window(G, 3)
    window.slide([(0, 1)])
    twin = G.copy()
    G.clear()
    del window
    assert Window(G, 3).slide([(0, 1)]).entered == 1
    assert twin.number_of_edges() == 1
    assert twin.core.attached_window() is None


def test_after_clear_times_may_start_again() -> None:
    G = DynamicGraph(device="cpu")
    window = Window(G, 5, by="time")
    window.slide([(0, 1)], time=[1000])
    G.clear()
    report = window.slide([(2, 3)], time=[10])
    assert (report.entered, report.late) == (1, 0)
    assert sorted(named_edges(G)) == [(2, 3)]


def test_a_window_is_no_copy_of_another() -> None:
    window = Window(DynamicGraph(device="cpu"), 3)
    window.slide([(0, 1)])
    for twice in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InputTypeError, match="Window: it cannot be pickled or copied, because it fills its graph"):
            twice(window)


@pytest.mark.parametrize(("by", "keep"), [("count", "count"), ("count", "sum"), ("time", "latest")])
@pytest.mark.parametrize("device", DEVICES)
def test_the_wide_dtypes(device: str, by: str, keep: str) -> None:
    rng = np.random.default_rng(9)
    wide = {"vertex_dtype": "int64", "weight_dtype": "float64", "device": device}
    pair = Pair(25, by, keep, weighted=True, directed=False, **wide)
    for step in range(8 if device == "cpu" else 4):
        frame = batch_of(rng, 9, 9 * step, late=6)
        pair.slide(frame.assign(time=frame["time"] / 2))


@pytest.mark.parametrize("device", DEVICES)
def test_an_edge_deleted_by_hand_stays_out_on_every_device(device: str) -> None:
    for keep in ("latest", "count", "sum"):
        G = DynamicGraph(weighted=keep != "latest", directed=False, device=device)
        window = Window(G, 4, keep=keep)  # type: ignore[arg-type]
        rows = [(0, 1), (1, 0), (2, 3), (2, 3)]
        window.slide([(u, v, 1.0) for u, v in rows] if keep == "sum" else rows)
        G.delete_edges([(0, 1), (2, 3)])
        window.slide([(3, 2, 1.0)] if keep == "sum" else [(3, 2)])  # and a row (0, 1) leaves
        assert sorted(named_edges(G)) == [(2, 3), (3, 2)]
        assert keep == "latest" or named_edges(G)[2, 3] == 3.0


def test_a_window_without_rows_may_be_reordered() -> None:
    G = DynamicGraph(renumber=True, device="cpu")
    window = Window(G, 5)
    window.slide(([], []))
    G.reorder()
    assert window.slide([(7, 8)]).entered == 1
