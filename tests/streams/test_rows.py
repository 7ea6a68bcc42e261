"""Rows of a stream: every form, null and type that a source may bring, and those that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import InputError
from dynstore.streams.rows import as_array
from tests.libraries import FRAMES, frame
from tests.streams.scripted import Scripted, graph, pairs_of


@pytest.mark.parametrize(
    "source",
    [
        [(0, 1), (1, 2), (2, 3)],
        [(np.int64(0), np.int64(1)), (1, 2), (2, 3)],
        ([0, 1, 2], [1, 2, 3]),
        {"source": [0, 1, 2], "destination": np.array([1, 2, 3]), "time": None},
        pd.DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3]}),
        "polars",
        "pyarrow",
        [([0, 1], [1, 2]), {"source": [2], "destination": [3]}],
        iter([[(0, 1)], pd.DataFrame({"source": [1, 2], "destination": [2, 3]})]),
    ],
    ids=["rows", "NumPy's rows", "columns", "dict", "pandas", "polars", "pyarrow", "batches", "iterator"],
)
def test_edges_come_in_any_form(source: Any) -> None:
    if isinstance(source, str):
        source = frame(source, {"source": [0, 1, 2], "destination": [1, 2, 3]})
    G = graph()
    progress = Stream(G, source, batch_edges=2).run()
    assert pairs_of(G) == {(0, 1), (1, 2), (2, 3)}
    assert (progress.applied, progress.pending, progress.state) == (3, 0, "ended")


def test_an_event_table_is_a_source_with_times_and_operations() -> None:
    events = dynstore.datasets.load("collegemsg")
    G = graph()
    progress = Stream(G, events, batch_edges=7000).run()
    again = graph()
    again.insert_edges((events.src, events.dst))
    assert pairs_of(G) == pairs_of(again)
    assert progress.applied == progress.arrived == len(events)
    assert progress.event_time == events.time[-1]
    assert progress.batches == -(-len(events) // 7000) == G.version


def test_weights_ids_and_extra_columns(backend_name: str) -> None:
    G = graph(device=backend_name, weighted=True, renumber=True, edge_columns={"id": "int64"})
    frame = pd.DataFrame({"from": ["ann", "bob"], "to": ["bob", "cid"], "amount": [2.0, 3.0], "id": [7, 8]})
    Stream(G, frame, columns={"source": "from", "destination": "to", "weight": "amount"}).run()
    assert G.edge_weights([("ann", "bob"), ("bob", "cid")]).tolist() == [2.0, 3.0]
    assert sorted(G.to_pandas()["id"]) == [7, 8]


def test_one_by_one_or_in_batches_operations_have_the_same_effect(rng: np.random.Generator) -> None:
    for directed in (True, False):
        count = 400
        src, dst, deletes = rng.integers(0, 6, count), rng.integers(0, 6, count), rng.random(count) < 0.4
        weights = rng.integers(1, 99, count).astype(float)
        model: dict[tuple[int, int], float] = {}
        for row in range(count):
            a, b = int(src[row]), int(dst[row])
            key = (a, b) if directed else (min(a, b), max(a, b))
            if deletes[row]:
                model.pop(key, None)
            else:
                model[key] = weights[row]
        frame = pd.DataFrame({"source": src, "destination": dst, "weight": weights, "op": np.where(deletes, "-", "+")})
        for batch in (1, 7, 1000):
            G = graph(directed=directed, weighted=True)
            Stream(G, frame.assign(weight=frame["weight"].where(~deletes)), batch_edges=batch).run()
            table = G.to_pandas()
            ends = [
                sorted(pair) if not directed else pair
                for pair in zip(table["source"], table["destination"], strict=True)
            ]
            assert dict(zip(map(tuple, ends), table["weight"], strict=True)) == model


def test_columns_of_several_types_of_integers_are_exact() -> None:
    """As floats, these numbers would be equal."""
    big = 2**60
    batches = [
        {"source": np.array([0, 0]), "destination": np.array([big, big + 1], np.uint64), "id": [big + 1, big + 2]},
        {"source": np.array([0, 0], np.uint64), "destination": [big, big + 1], "id": np.array([1, 2], np.uint64)},
    ]
    for ops, left in ((["+", "-"], {big: 1}), (["-", "+"], {big + 1: 2}), (["+", "+"], {big: 1, big + 1: 2})):
        G = graph(renumber=True, edge_columns={"id": "int64"})
        Stream(G, [batches[0], {**batches[1], "op": ops}]).run()
        table = G.to_pandas()
        assert dict(zip(table["destination"].tolist(), table["id"].tolist(), strict=True)) == left
    H = graph(renumber=True, edge_columns={"id": "int64"})
    Stream(H, batches[:1]).run()
    assert H.to_pandas()["id"].tolist() == [big + 1, big + 2]


@pytest.mark.parametrize("form", ["dict", *FRAMES])
def test_rows_that_delete_need_no_weights_and_no_extra_columns(form: str) -> None:
    big = 2**60 + 1  # not a float
    batch = {"source": [0, 1], "destination": [1, 2], "weight": [None, 2.0], "id": [None, big], "op": ["-", None]}
    G = graph(weighted=True, edge_columns={"id": "int64"})
    options = {"dtype": object} if form == "pandas" else {}  # else pandas makes floats of the id
    Stream(G, [batch if form == "dict" else frame(form, batch, **options)]).run()
    assert G.to_pandas().to_dict("list") == {"source": [1], "destination": [2], "weight": [2.0], "id": [big]}


def test_a_column_of_cudf_may_have_nulls() -> None:
    class Series:
        """As of cuDF, whose ``to_numpy`` refuses nulls."""

        __module__ = "cudf.core.series"

        def to_numpy(self) -> Any:
            raise ValueError("Column must have no nulls.")

        def to_arrow(self) -> Any:
            return pa.array(["-", None, "+"])

    assert as_array(Series()).tolist() == ["-", None, "+"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"source": [0]},
            r"columns not found: destination; the batch has source\. Name it: columns=\{'destination': \.\.\.\}",
        ),
        ({"source": [0, 1], "destination": [1]}, "they must be equal"),
        (
            {"source": [0, 1], "destination": [1, 2], "time": ["2026-01-01", "soon"]},
            "Stream: `time` has 'soon' at row 1; wanted ISO dates and times, such as '2026-01-31T10:00:00'$",
        ),
        ({"source": [0], "destination": [1], "op": ["?"]}, "`op` is '\\?' at row 0"),
        ([[0, 1]], "edges is a list"),
        ({"source": [-1], "destination": [1]}, "must not be negative"),
        (
            {"source": ["0", 1], "destination": ["1", "2"]},
            "`source` has 1 .int. at row 1 among strings; .* all integers or all strings",
        ),
        ({"source": np.array([2**63], np.uint64), "destination": [1]}, "`source` has 9223372036854775808 at row 0"),
        (
            {"source": pa.array([0, None]), "destination": [1, 2]},
            "`source` has 1 nulls, the first at row 1",
        ),
        ({"source": ["a"], "destination": ["b"]}, "Stream: `source` has strings; wanted integers, as the ids before"),
    ],
)
def test_bad_rows_end_the_stream_with_one_error(given: Any, message: str) -> None:
    G = graph()
    stream = Stream(G, Scripted([(0, 1)], given), batch_edges=1)
    with pytest.raises(InputError, match=message):
        stream.run()
    assert stream.progress().state == "failed"
    assert len(stream.progress().errors) == 1
    assert pairs_of(G) == {(0, 1)}
    stream.stop()  # the error came once


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("first", [["a"], [0]])
def test_strings_and_integers_do_not_meet_in_a_batch(first: list[Any], deletes: bool) -> None:
    other = [0] if first == ["a"] else ["a"]
    more = {"op": ["-"]} if deletes else {}
    batches = [{"source": ids, "destination": ids, **more} for ids in (first, other)]
    G = graph(renumber=True)
    with pytest.raises(
        InputError, match=r"^Stream: `source` has (strings; wanted integers|integers; wanted strings), "
    ):
        Stream(G, Scripted(*batches, ends=True), batch_edges=10, max_delay=60.0).run()
    assert G.number_of_edges() == (not deletes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": [0, 1], "destination": [1, 2, 3]}, "`destination` has 3 items, `source` has 2; they must be equal"),
        (([0, 1], [1, 2, 3]), "`column 1` has 3 items, `column 0` has 2; they must be equal"),
        ({"source": [0], "destination": [1], "op": ["+", "-"]}, "`op` has 2 items, `source` has 1; they must be equal"),
        ({"source": 3, "destination": [1]}, "`source` is a int; wanted a column, such as an array or a list"),
        ({}, "source has no columns; wanted source and destination"),
        ((), "source has no columns; wanted source and destination"),
    ],
)
def test_a_table_of_columns_of_different_lengths_is_no_source(given: Any, message: str) -> None:
    """Its slices would be of equal lengths."""
    with pytest.raises(InputError, match=f"^Stream: {message}$"):
        Stream(graph(), given)


def test_an_edge_column_is_not_read_as_operations() -> None:
    batch = {"source": [0, 1], "destination": [1, 2], "op": [0, 1]}
    with pytest.raises(InputError, match="the graph has the edge column 'op', which rows would have as operations"):
        Stream(graph(edge_columns={"op": "int8"}), batch)
    G = graph(edge_columns={"op": "int8"})
    Stream(G, {**batch, "does": ["+", "insert"]}, columns={"op": "does"}).run()
    assert G.edge_table()["op"].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["to", "weight", "time", "op", "id"])
@pytest.mark.parametrize("length", [2, 4])
def test_columns_of_different_lengths_end_the_stream(name: str, length: int) -> None:
    G = graph(weighted=True, edge_columns={"id": "int64"})
    batch: dict[str, Any] = {"source": [0, 1, 2], "to": [1, 2, 3], "weight": [1.0] * 3, "time": [1, 2, 3]}
    batch |= {"op": ["+", "+", "-"], "id": [7, 8, 9]}
    batch[name] = (batch[name] * 2)[:length]
    with pytest.raises(InputError, match=f"^Stream: `{name}` has {length} items, .* 3; they must be equal$"):
        Stream(G, [batch], batch_edges=2, columns={"destination": "to"}).run()
    assert G.version == 0
