"""Windows and slides that are refused: the window and its graph stay as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph, Window
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.testing.invariants import named_edges

SPANS = "a length of time, such as '30min', '1h' or '7D'"
DAY = pd.Timestamp("2026-01-01")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda G: Window(None, 3), InputTypeError, "Window: G is a NoneType; wanted a dynstore.DynamicGraph"),
        (lambda G: Window(G, 3, by="rows"), InputError, "unknown by 'rows'; known: 'count', 'time'"),
        (lambda G: Window(G, 3, keep="mean"), InputError, "unknown keep 'mean'; known: 'count', 'latest', 'sum'"),
        (lambda G: Window(G, 3, keep="sum"), InputError, "keep='sum' needs a weighted graph"),
        (lambda G: Window(G, 0), InputError, "Window: length is 0; wanted 1 or more"),
        (lambda G: Window(G, None), InputTypeError, "Window: length is None; wanted a number of rows"),
        (lambda G: Window(G, 2.5), InputTypeError, "Window: length is 2.5; wanted an integer"),
        (
            lambda G: Window(G, "1M"),
            InputTypeError,
            f"length is '1M'; wanted a number of rows, or by='time' and {SPANS}",
        ),
        (lambda G: Window(G, "1M", by="time"), InputError, f"Window: length is '1M'; wanted {SPANS}$"),
        (lambda G: Window(G, "30", by="time"), InputError, f"Window: length is '30'; wanted {SPANS}$"),
        (lambda G: Window(G, "nat", by="time"), InputError, f"Window: length is 'nat'; wanted {SPANS}$"),
        (
            lambda G: Window(G, "1h", by="time", step="an hour"),
            InputError,
            f"Window: step is 'an hour'; wanted {SPANS}$",
        ),
        (lambda G: Window(G, -1, by="time"), InputError, "length is -1; wanted more than 0"),
        (lambda G: Window(G, [1], by="time"), InputTypeError, r"length is \[1\]; wanted a number, or a length of time"),
        (lambda G: Window(G, "1h", by="time", step=5), InputError, "step is 5, length is '1h'; wanted two numbers"),
        (
            lambda G: (G.insert_edges([(0, 1)]), Window(G, 3)),
            InputError,
            "the graph has 1 edges; wanted an empty graph",
        ),
        (lambda G: [Window(G, 3), Window(G, 3)], InputError, "another window fills this graph already"),
    ],
)
def test_wrong_windows_are_refused(make: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make(DynamicGraph(device="cpu"))


@pytest.mark.parametrize(
    ("options", "edges", "given", "error", "message"),
    [
        ({}, [(0, 1, 2.0)], {}, InputError, "slide: weights were given, but the graph is unweighted"),
        ({}, [(0, 1)], {"time": [3]}, InputError, "time was given, but the window is by='count'"),
        ({"by": "time"}, [(0, 1)], {}, InputError, "got edges without times, which a window by='time' needs"),
        ({"by": "time"}, [(0, 1)], {"time": [3, 4]}, InputError, "`time` has 2 items, the edges have 1"),
        ({"by": "time"}, [(0, 1)], {"time": [DAY]}, InputTypeError, "`time` has date-times; wanted numbers"),
        (
            {"by": "time", "length": "1h"},
            [(0, 1)],
            {"time": [3]},
            InputTypeError,
            "`time` has numbers; wanted date-times",
        ),
        ({"by": "time"}, [(0, 1)], {"time": [None]}, InputError, "`time` has a null at row 0"),
        ({"by": "time"}, [(0, 1)], {"time": [float("nan")]}, InputError, "`time` has a null at row 0"),
        ({"by": "time", "length": "1h"}, [(0, 1)], {"time": pd.Series([pd.NaT])}, InputError, "a null at row 0"),
        ({"by": "time"}, [(0, 1)], {"time": ["x"]}, InputError, "`time` has 'x' at row 0; wanted ISO dates and times"),
        ({}, [(0, 1)], {"source": [(1, 2)]}, InputTypeError, r"slide: source is \[\(1, 2\)\]; wanted the name"),
        (
            {"by": "time"},
            pd.DataFrame({"source": [0], "destination": [1]}),
            {},
            InputError,
            "columns not found: time; .*Name the column of times: time=",
        ),
        ({"weighted": True}, [(0, 1)], {}, InputError, r"have no weights.*default_weight=1\.0"),
        ({"weighted": True, "keep": "count"}, [(0, 1)], {"default_weight": 1}, InputError, "keep='count' counts rows"),
        ({"weighted": True, "keep": "sum"}, [(0, 1, np.inf)], {}, InputError, "the weight of row 0 is infinite"),
        ({}, [(0, 10**9)], {}, LimitError, "slide: id 1000000000 would make rows"),
        ({}, 7, {}, InputTypeError, "slide: edges is a int; wanted a pandas"),
        (
            {},
            (None, [1]),
            {},
            InputTypeError,
            "slide: `src` is a NoneType; wanted a column, such as an array",
        ),
        ({}, ([1], np.array(1)), {}, InputTypeError, "slide: `dst` is a numpy.ndarray; wanted a column"),
    ],
)
def test_wrong_slides_change_nothing(
    options: dict[str, Any], edges: Any, given: Any, error: type, message: str
) -> None:
    weighted = options.pop("weighted", False)
    G = DynamicGraph(weighted=weighted, device="cpu")
    window = Window(G, **{"length": 5, **options})
    with pytest.raises(error, match=message):
        window.slide(edges, **given)
    assert (len(window), G.version, G.number_of_vertices()) == (0, 0, 0)


@pytest.mark.parametrize("renumber", [False, True])
@pytest.mark.parametrize("by", ["count", "time"])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"payer": 1.5}, InputTypeError, "slide: `payer`"),
        ({"payee": None}, InputError, "slide: .*`payee` has a null at row 3"),
        ({"payee": 2.5}, InputTypeError, "slide: `payee`"),
        ({"amount": np.nan}, InputError, "slide: `amount` is NaN at row 3"),
        ({"amount": np.inf}, InputError, "slide: the weight of row 3 is infinite"),
    ],
)
def test_messages_name_the_columns_and_rows_of_the_batch(
    bad: dict[str, Any], error: type, message: str, by: Any, renumber: bool
) -> None:
    """The rows of the batch that enter are others, in another order."""
    G = DynamicGraph(weighted=True, device="cpu", renumber=renumber)
    window = Window(G, 3, by=by, keep="sum")
    rows = {"payer": [0, 1, 2, 3], "payee": [1, 2, 3, 4], "amount": [1.0] * 4, "when": [1, 9, 9, 8]}
    frame = pd.DataFrame(rows, dtype=object)
    frame.loc[3, next(iter(bad))] = next(iter(bad.values()))
    frame = frame.infer_objects() if bad.keys() & {"amount"} else frame
    time = "when" if by == "time" else None
    with pytest.raises(error, match=message):
        window.slide(frame, source="payer", destination="payee", weight="amount", time=time)
    assert (len(window), G.version, G.number_of_vertices()) == (0, 0, 0)


def test_a_refused_slide_that_names_new_vertices_leaves_nothing_behind() -> None:
    G = DynamicGraph(weighted=True, renumber=True, reuse_ids=True, device="cpu")
    window = Window(G, 5, keep="sum")
    many = np.arange(9)
    for _ in range(2):
        with pytest.raises(InputError, match="infinite"):
            window.slide((many, many + 1, np.full(9, np.inf)))
        window.slide(([0, 1], [1, 2], [1.0, 1.0]))
        G.reorder()
        G.delete_vertices([2])
        assert sorted(named_edges(G)) == [(0, 1)]


@pytest.mark.parametrize("by", ["count", "time"])
@pytest.mark.parametrize("by_name", ["src", "dst", "weights", "id"])
@pytest.mark.parametrize("length", [2, 4])
def test_columns_of_different_lengths_are_refused(by: Any, by_name: str, length: int) -> None:
    """Also where the row that has no partner would not have entered."""
    G = DynamicGraph(weighted=True, edge_columns={"id": "int64"}, device="cpu")
    window = Window(G, 2, by=by)
    columns = {"src": [0, 1, 2], "dst": [1, 2, 3], "weights": [1.0, 1.0, 1.0], "id": [7, 8, 9]}
    columns[by_name] = (columns[by_name] * 2)[:length]
    time = {"time": [1, 10, 11]} if by == "time" else {}
    with pytest.raises(InputError, match=r"^slide: `\w+` has \d items, .*; they must be equal$"):
        window.slide(tuple(columns.values()), **time)
    assert (len(window), G.version, G.number_of_vertices()) == (0, 0, 0)


@pytest.mark.parametrize("renumber", [False, True])
@pytest.mark.parametrize(
    ("src", "error", "message"),
    [
        ([1, -5], InputError, "slide: `src` has -5 at row 1; vertex ids must not be negative"),
        ([0.5, 1.5], InputTypeError, r"slide: `src` has 0\.5 \(float\) at row 0; vertex ids must be integers"),
        ([2, "a"], InputTypeError, "slide: `src` has"),
    ],
)
@pytest.mark.parametrize("times", [[1, 2], [102, 1], [103, 102]], ids=["late", "late-in-part", "in-time"])
def test_ids_are_right_in_late_rows_too(
    backend_name: str, renumber: bool, src: list[Any], error: type, message: str, times: list[int]
) -> None:
    G = DynamicGraph(device=backend_name, renumber=renumber)
    window = Window(G, 10, by="time")
    window.slide(([1, 2], [2, 3]), time=[100, 101])
    with pytest.raises(error, match=message):
        window.slide((src, [3, 3]), time=times)
    assert (len(window), G.version, named_edges(G).keys()) == (2, 1, {(1, 2), (2, 3)})
    assert window.slide(([7, 1], [8, 3]), time=[2, 1]).late == 2
    assert G.number_of_vertices() == (3 if renumber else 4)


def test_ids_are_right_in_rows_that_leave_at_once(backend_name: str) -> None:
    G = DynamicGraph(device=backend_name)
    window = Window(G, 2)
    with pytest.raises(InputError, match="slide: `dst` has -1 at row 0"):
        window.slide(([0, 1, 2], [-1, 2, 3]))
    assert (len(window), G.version) == (0, 0)


def test_late_rows_need_no_room_for_their_ids() -> None:
    G = DynamicGraph(device="cpu", renumber=True, max_vertices=3)
    window = Window(G, 10, by="time")
    window.slide(([1, 2], [2, 3]), time=[100, 101])
    assert window.slide(([7, 8], [9, 10]), time=[1, 2]).late == 2
    with pytest.raises(LimitError):
        window.slide(([7, 8], [9, 10]), time=[102, 102])
