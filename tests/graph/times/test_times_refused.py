"""Times that are refused, and updates of times that fail: the graph stays as it was."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, InputTypeError, LimitError, OutOfMemoryError
from dynstore.stores import STORES
from dynstore.stores.base import Store
from dynstore.testing.faults import FailingEmpty, FailingModule
from dynstore.testing.invariants import check_graph
from dynstore.typing import UpdateReport
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.graph.times.test_times import every_kind, rows_of, same


def test_bad_times_change_nothing(backend_name: str) -> None:
    G = DynamicGraph(weighted=True, device=backend_name, timestamps="int32")
    G.insert_edges(([0, 1], [1, 2], [1.0, 2.0], [5, 6]))
    before, frame = G.to_pandas(), pd.DataFrame({"source": [0], "destination": [1], "weight": [1.0]})
    rows = [0], [2], [1.0]
    dated = pd.to_datetime(["2026-01-01"])
    bad: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (([0], [2]), {}, InputError, r"wanted (src, dst[, weights], time), as the graph keeps times"),
        (rows, {}, InputTypeError, "`time` is float64; wanted integers or date-times"),
        ([(0, 2)], {}, InputTypeError, "edges has 2 items at row 0; wanted rows (src, dst[, weight], time)"),
        (
            frame,
            {},
            InputError,
            "columns not found: time; the frame has source, destination, weight, and the graph keeps times",
        ),
        (frame, {"time": "at"}, InputError, "columns not found: at; "),
        (rows, {"time": "at"}, InputError, "time='at' names a column, but edges is a tuple"),
        ((*rows, [None]), {}, InputError, "`time` has a null at row 0"),
        (rows, {"time": [1, 2]}, InputError, "`time` has 2 items, the edges have 1"),
        (rows, {"time": [2**31]}, LimitError, "`time` has 2147483648 at row 0; that does not fit int32"),
        (
            rows,
            {"time": dated},
            LimitError,
            '`time` has date-times, which are int64 nanoseconds; the graph has timestamps="int32"',
        ),
        (([0, -1, 1], [2, 3, 4], [1.0, 1.0, 1.0], [1, 9, 9]), {}, InputError, "`src` has -1 at row 1"),
        (([0, 1], [2, -3], [1.0, 1.0], [1, 9]), {}, InputError, "`dst` has -3 at row 1"),
    ]
    for edges, options, error, message in bad:
        with pytest.raises(error, match=re.escape(message)) as raised:
            G.insert_edges(edges, **options)
        assert str(raised.value).startswith("insert_edges: ")
        with pytest.raises(error, match=re.escape(message)) as raised:
            G.update(edges, [(0, 1)], 6, **options)
        assert str(raised.value).startswith("update: ")
        pd.testing.assert_frame_equal(G.to_pandas(), before)
    for value in ("a", None, 1.5, True, pd.NaT, 2**63, np.datetime64("NaT", "s")):
        with pytest.raises(InputError, match="expire: before is "):
            G.expire(value)
    with pytest.raises(LimitError, match=r"expire: before is .*9999.*; dates go from 1677 to 2262"):
        G.expire(np.datetime64("9999-01-01"))
    with pytest.raises(InputTypeError, match=r"update: expire_before is 'src'; .* Name columns by keyword"):
        G.update([(0, 1, 1.0, 3)], None, "src")
    assert G.version == 1


@pytest.mark.parametrize("name", ["src", "dst", "weights", "id", "time"])
@pytest.mark.parametrize("length", [2, 4])
def test_columns_of_different_lengths_are_refused_beside_late_rows(name: str, length: int) -> None:
    G = DynamicGraph(weighted=True, timestamps="int64", edge_columns={"id": "int64"}, device="cpu")
    columns = {"src": [0, 1, 2], "dst": [1, 2, 3], "weights": [1.0] * 3, "id": [7, 8, 9], "time": [1, 10, 11]}
    columns[name] = (columns[name] * 2)[:length]
    with pytest.raises(InputError, match=r"^update: `\w+` has \d items, .*; they must be equal$"):
        G.update(tuple(columns.values()), expire_before=5)
    assert (G.version, G.number_of_vertices()) == (0, 0)


def test_graphs_without_times_refuse_them() -> None:
    G = DynamicGraph(device="cpu")
    for call in (
        lambda: G.insert_edges([(0, 1)], time=[3]),
        lambda: G.update([(0, 1)], time="when"),
        lambda: G.update(time="when"),
        lambda: G.update(expire_before=3),
        lambda: G.expire(3),
    ):
        with pytest.raises(InputError, match=r"the graph keeps no times; make it with timestamps='int64'"):
            call()
    assert G.version == 0
    with pytest.raises(InputError, match="unknown timestamps 'int16'"):
        DynamicGraph(timestamps="int16", device="cpu")
    with pytest.raises(InputError, match="edge_columns has the name 'time', which timestamps='int64' uses"):
        DynamicGraph(timestamps="int64", edge_columns={"time": "int32"}, device="cpu")
    for store in sorted(set(STORES) - {"gpma+"}):
        with pytest.raises(InputError, match=f"timestamps needs store='gpma\\+'; got store='{store}'"):
            DynamicGraph(store=store, timestamps="int64", device="cpu")
    frame = pd.DataFrame({"source": [0], "destination": [1], "time": [3]})
    assert list(DynamicGraph.from_edges(frame, device="cpu").edge_columns()) == ["source", "destination"]
    named = DynamicGraph(edge_columns={"time": "int64"}, device="cpu")  # a column like any other
    named.insert_edges(frame)
    assert (named.timestamps, named.edge_columns()["time"].tolist()) == (None, [3])


@crossed(directed=[True, False], weighted=[True, False], kept=[True, False], backend_name=DEVICES)
def test_memory_that_runs_out_changes_nothing(
    directed: bool, weighted: bool, kept: bool, monkeypatch: pytest.MonkeyPatch, backend_name: str
) -> None:
    weights = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] if weighted else []

    def made() -> DynamicGraph:
        G = DynamicGraph(directed, weighted, device=backend_name, timestamps="int64")
        G.insert_edges(([0, 1, 2, 3, 4, 5], [1, 2, 3, 3, 5, 4], *weights, [1, 2, 9, 9, 9, 9]))
        if kept:
            G.snapshot(transposed=True)
        return G

    updates: list[tuple[str, tuple[Any, ...]]] = [
        ("expire", (5,)),
        ("update", (([0, 7, 3], [1, 8, 2], *[[9.0] * 3 for _ in weights], [8, 8, 3]), [(2, 3), (8, 9)], 5)),
    ]
    for name, arguments in updates:
        wanted = made()
        report = getattr(wanted, name)(*arguments)
        for owner, kind in (("empty", FailingEmpty), ("xp", FailingModule)):
            for fail_at in range(1000):
                G = made()
                before, faulty = rows_of(G), kind(getattr(G.core.backend, owner), fail_at)
                with monkeypatch.context() as patch:
                    patch.setattr(G.core.backend, owner, faulty)
                    try:
                        same(getattr(G, name)(*arguments), report)
                        done = True
                    except OutOfMemoryError:
                        done = False
                check_graph(G, transposed=kept and directed)
                assert rows_of(G) == (rows_of(wanted) if done else before)
                assert G.version == (2 if done else 1)
                if done and faulty.calls <= fail_at:
                    break
            assert fail_at > 1


@every_kind
def test_a_failed_insertion_takes_the_expiry_back(
    directed: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch, backend_name: str
) -> None:
    G = DynamicGraph(directed, weighted, device=backend_name, timestamps="int64")
    pairs = np.arange(40)
    weights = [pairs / 4] if weighted else []
    G.insert_edges((pairs, pairs + 1, *weights, pairs))
    G.predecessors(0)
    before, kind = rows_of(G), type(G.core.out)

    def failing(*_: Any) -> Any:
        raise MemoryError("no memory")

    arriving = ([4], [5], *[[4.0] for _ in weights], [13])
    with monkeypatch.context() as patch:
        patch.setattr(kind, "plan_exchange", Store.plan_exchange)
        patch.setattr(kind, "try_insert", failing)
        if backend_name == "cpu":
            failures = [MemoryError("no memory")]
            plan = kind.plan_insert
            patch.setattr(kind, "plan_insert", lambda *args: failing() if failures and failures.pop() else plan(*args))
        with pytest.raises(OutOfMemoryError):
            G.update(arriving, [(30, 31)], 11)
    assert (rows_of(G), G.version) == (before, 1)
    check_graph(G, transposed=True)
    same(G.update(arriving, [(30, 31)], 11), UpdateReport(replaced=0, inserted=1, deleted=1, expired=11))


@pytest.mark.parametrize("renumber", [False, True])
@pytest.mark.parametrize(
    ("src", "error", "message"),
    [
        ([1, -5], InputError, "update: `src` has -5 at row 1; vertex ids must not be negative"),
        ([0.5, 1.5], InputTypeError, r"update: `src` has 0\.5 \(float\) at row 0; vertex ids must be integers"),
        ([2, "a"], InputTypeError, "update: `src` has"),
    ],
)
@pytest.mark.parametrize("times", [[1, 2], [102, 1], [103, 102]], ids=["late", "late-in-part", "in-time"])
def test_ids_are_right_in_late_rows_too(
    backend_name: str, renumber: bool, src: list[Any], error: type, message: str, times: list[int]
) -> None:
    G = DynamicGraph(device=backend_name, renumber=renumber, timestamps="int64")
    G.insert_edges(([1, 2], [2, 3]), time=[50, 101])
    with pytest.raises(error, match=message):
        G.update(insert=(src, [3, 3]), time=times, expire_before=90)
    assert (G.version, G.number_of_edges()) == (1, 2)
    report = G.update(insert=([7, 1], [8, 3]), time=[2, 1], expire_before=90)
    assert (report.late, report.expired, G.number_of_vertices()) == (2, 1, 3 if renumber else 4)


def test_late_rows_need_no_room_for_their_ids() -> None:
    G = DynamicGraph(device="cpu", renumber=True, max_vertices=3, timestamps="int64")
    G.insert_edges(([1, 2], [2, 3]), time=[100, 101])
    assert G.update(insert=([7, 8], [9, 10]), time=[1, 2], expire_before=90).late == 2
    with pytest.raises(LimitError):
        G.update(insert=([7, 8], [9, 10]), time=[102, 102], expire_before=90)
