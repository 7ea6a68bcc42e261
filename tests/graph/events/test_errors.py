"""Calls on graphs of events that cannot work: one clear error each, and the graph stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph
from dynstore.errors import DynstoreError, InputError, InputTypeError, LimitError, OutOfMemoryError
from tests.graph.events.driver import DEVICES, shown

Call = Callable[[Any], Any]
ROW = ([0], [1], [1.0], [2], [5])  # source, destination, weight, kind, time
FRAME = pd.DataFrame({"source": [0, 1], "destination": [1, 1], "weight": [1.0, 2.0], "kind": [1, 2], "time": [5, 6]})


def framed(name: str, values: Any) -> pd.DataFrame:
    """Return the frame with another column, and with ids of its own."""
    return FRAME.assign(**{"key": [50, 60], name: pd.array(values, dtype="Int64") if None in values else values})


# fmt: off
CALLS: list[tuple[Call, type[DynstoreError], str]] = [
    # ids
    (lambda G: G.insert_edges(FRAME, edge_id=[8, 8]), InputError, "insert_edges: edge_id has 8 twice; wanted an id"),
    (lambda G: G.insert_edges(FRAME, edge_id=[8, 1]), InputError,
     "insert_edges: edge_id has 1 at row 1, which is there already; wanted a new id"),
    (lambda G: G.update(FRAME, edge_id=[8, 1]), InputError, "update: edge_id has 1 at row 1, which is there already"),
    (lambda G: G.update(FRAME, edge_ids=[0], edge_id=[8, 1]), InputError, "update: edge_id has 1 at row 1, which is"),
    (lambda G: G.insert_edges(FRAME, edge_id=[8]), InputError,
     "insert_edges: `edge_id` has 1 items, the edges have 2; they must be equal"),
    (lambda G: G.insert_edges(FRAME, edge_id=[8, 9, 10]), InputError, "`edge_id` has 3 items, the edges have 2"),
    (lambda G: G.insert_edges(FRAME, edge_id="nope"), InputError, "insert_edges: .*nope"),
    (lambda G: G.insert_edges(ROW, edge_id="key"), InputError,
     r"insert_edges: edge_id='key' names a column, but edges is no frame; wanted edge_id=<array>"),
    (lambda G: G.insert_edges(framed("key", [50, None]), edge_id="key"), InputError,
     "insert_edges: column `key` has a null at row 1; wanted none"),
    (lambda G: G.insert_edges(FRAME, edge_id=[1.5, 2.5]), InputTypeError, "`edge_id` is float64; wanted integers"),
    (lambda G: G.insert_edges(FRAME, edge_id=["a", "b"]), InputTypeError, "insert_edges: `edge_id` has 'a'"),
    (lambda G: G.insert_edges(FRAME, edge_id=[2**63, 0]), LimitError, "`edge_id` has 9223372036854775808 at row 0"),
    (lambda G: G.insert_edges(FRAME, edge_id=7), InputError, "insert_edges: `edge_id` has 0 dimensions; wanted one"),
    # weights, times, columns, vertices
    (lambda G: G.insert_edges(framed("weight", [1.0, np.nan])), InputError, "insert_edges: `weight` is NaN at row 1"),
    (lambda G: G.insert_edges(framed("weight", [1.0, -np.inf])), InputError,
     "insert_edges: `weight` is -inf at row 1; wanted .*finite"),
    (lambda G: G.update(framed("weight", [np.inf, 1.0])), InputError, "update: `weight` is inf at row 0; wanted"),
    (lambda G: G.insert_edges(framed("weight", [1, None])), InputError, "column `weight` has a null at row 1; wanted"),
    (lambda G: G.insert_edges(framed("time", [1, None])), InputError, "column `time` has a null at row 1; wanted none"),
    (lambda G: G.insert_edges(framed("time", [1, np.nan])), InputError, "insert_edges: `time` has a null at row 1"),
    (lambda G: G.insert_edges(framed("kind", [1, None])), InputError, "column `kind` has a null at row 1; wanted none"),
    (lambda G: G.insert_edges(framed("kind", [1, 300])), LimitError, "insert_edges: `kind` has 300 at row 1"),
    (lambda G: G.insert_edges(framed("source", [1, -2])), InputError, "has -2 at row 1; vertex ids must not be"),
    (lambda G: G.insert_edges(framed("source", [1, None])), InputError, "column `source` has a null at row 1"),
    (lambda G: G.insert_edges(([0, 1], [1, 1], [1.0, 1.0], [2, 2], [5])), InputError,
     "insert_edges: `time` has 1 items, the edges have 2; they must be equal"),
    (lambda G: G.insert_edges(([0], [1], [1.0], [2])), InputTypeError, "insert_edges: "),
    (lambda G: G.insert_edges(FRAME.drop(columns="weight")), InputError, "insert_edges: .*weight"),
    (lambda G: G.insert_edges(FRAME.drop(columns="time")), InputError, "insert_edges: .*time"),
    # deletions
    (lambda G: G.delete_edges(), InputTypeError, "delete_edges: neither edges nor edge_ids were given; wanted one"),
    (lambda G: G.delete_edges([(0, 1)], edge_ids=[0]), InputError,
     "delete_edges: edges and edge_ids were given; wanted one of them"),
    (lambda G: G.delete_edges([(0, 1)], which="first"), InputError, "delete_edges: .*which.*'first'.*'oldest'"),
    (lambda G: G.delete_edges([(0, 1)], which=None), InputError, "delete_edges: .*which.*None.*'oldest'"),
    (lambda G: G.delete_edges([(0, 1)], which=np.arange(2)), InputError, "delete_edges: .*which.*'oldest'"),
    (lambda G: G.delete_edges(edge_ids=[0], which="oldest"), InputError, "delete_edges: .*which.*edge_ids"),
    (lambda G: G.delete_edges(edge_ids=[0.5]), InputTypeError, "delete_edges: `edge_ids` is float64; wanted integers"),
    (lambda G: G.delete_edges(edge_ids=[None]), InputError, "delete_edges: `edge_ids` has a null at row 0"),
    (lambda G: G.delete_edges(edge_ids=0), InputError, "delete_edges: `edge_ids` has 0 dimensions; wanted one"),
    (lambda G: G.update(delete=[(0, 1)], edge_ids=[0]), InputError,
     "update: (delete|edges) and edge_ids were given; wanted one of them"),
    (lambda G: G.expire(1.5), InputTypeError, "expire: before is 1.5; wanted an integer or a date-time"),
    # what a multigraph has not
    (lambda G: G.insert_edges(FRAME, on_duplicate="add"), InputError,
     "insert_edges: on_duplicate is 'add', but in a multigraph each row is an edge"),
    (lambda G: G.update(FRAME, on_duplicate="add"), InputError, "update: on_duplicate is 'add', but in a multigraph"),
    (lambda G: G.edge_weights([(0, 1)]), InputError, r"edge_weights: .*simple\(.*events"),
    # questions
    (lambda G: G.events(0, 99), InputError, "events: vertex 99 is not in the graph"),
    (lambda G: G.events(0, 1, 5, 2), InputError, "events: start is 5, end is 2; wanted an end from 5 on"),
    (lambda G: G.events(0, 1, "a"), InputTypeError, "events: start is 'a'; wanted"),
    (lambda G: G.events_of(99), InputError, "events_of: vertex 99 is not in the graph"),
    (lambda G: G.events_of(0, direction="up"), InputError, "events_of: unknown direction 'up'; known: 'both'"),
    (lambda G: G.edges_by_id([0, 77]), InputError, "edges_by_id: no edge has the id 77"),
    (lambda G: G.edges_by_id([0.5]), InputTypeError, "edges_by_id: `ids`"),
    (lambda G: G.edges_by_id(None), InputTypeError, "edges_by_id: .*ids.*edge"),
    (lambda G: G.where(), InputError, "where: no column was given; wanted one or more of .*kind"),
    (lambda G: G.where(color=3), InputError, "where: the graph has no column 'color'; wanted one of"),
    (lambda G: G.where(kind="a"), InputTypeError, "where: `kind` has 'a'"),
    (lambda G: G.where(kind=None), InputError, "where: `kind` has a null at row 0; wanted none"),
    (lambda G: G.simple("median"), InputError, "simple: unknown aggregate 'median'; known: 'count'"),
    (lambda G: G.window(5, 2), InputError, "window: start is 5, end is 2; wanted an end from 5 on"),
    # views
    (lambda G: G.where(kind=2).insert_edges(ROW), InputTypeError, "insert_edges"),
    (lambda G: G.pin().delete_edges(edge_ids=[0]), InputTypeError, "delete_edges"),
    (lambda G: G.simple("sum").insert_edges(ROW), InputTypeError, "insert_edges"),
    (lambda G: G.simple("sum").events(0, 1), InputError, "events: the graph has one edge a pair"),
    (lambda G: G.window(0, 9).track("bfs", start=0), InputTypeError, "track"),
]
# fmt: on
PLAIN: list[tuple[Call, str]] = [
    (lambda G: G.insert_edges([(0, 1)], edge_id=[5]), "insert_edges: edge_id was given, but edges have no ids"),
    (lambda G: G.update([(0, 1)], edge_id=[5]), "update: edge_id was given, but edges have no ids"),
    (lambda G: G.delete_edges(edge_ids=[5]), "delete_edges: edge_ids was given, but the graph has one edge a pair"),
    (lambda G: G.delete_edges([(0, 1)], which="oldest"), "delete_edges: which was given, but the graph has one edge"),
    (lambda G: G.update(edge_ids=[5]), "update: edge_ids was given, but the graph has one edge a pair"),
    (lambda G: G.events(0, 1), "events: the graph has one edge a pair; make it with multigraph=True"),
    (lambda G: G.events_of(0), "events_of: the graph has one edge a pair; make it with multigraph=True"),
    (lambda G: G.edges_by_id([0]), "edges_by_id: the graph has one edge a pair; make it with multigraph=True"),
    (lambda G: G.where(kind=2), "where: the graph has one edge a pair; make it with multigraph=True"),
    (lambda G: G.simple(), "simple: the graph has one edge a pair; make it with multigraph=True"),
]
OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"store": "merge"}, r"multigraph=True needs store='gpma\+'; got store='merge'"),
    ({"vertex_dtype": "int64"}, "multigraph=True needs vertex_dtype='int32'; got 'int64'"),
    ({"edge_columns": {"edge_id": "int64"}}, "edge_columns has the name 'edge_id', which a multigraph uses; wanted"),
    ({"event_memory": 0}, "event_memory is 0; wanted 1 or more"),
    ({"event_memory": 1000, "multigraph": False}, "event_memory needs multigraph=True; got multigraph=False"),
    ({"multigraph": 1}, "multigraph is 1; wanted True or False"),
    ({"weight_dtype": "int32"}, "unknown weight_dtype 'int32'; known: 'float32', 'float64', 'int64'"),
    ({"weight_dtype": "int64", "multigraph": False}, "unknown weight_dtype 'int64'; known: 'float32', 'float64'"),
]


def make(device: str) -> DynamicGraph:
    """Make a graph of a few events, with all that they may have."""
    columns, weighted = {"kind": "int8"}, True
    G = DynamicGraph(True, weighted, multigraph=True, edge_columns=columns, timestamps="int64", device=device)
    G.insert_edges(([0, 0, 1], [1, 1, 2], [1.0, 2.0, 3.0], [1, 2, 3], [1, 2, 3]))
    return G


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_wrong_call_is_one_clear_error(number: int, device: str) -> None:
    """The error has the right type, names the call, and leaves the graph as it was."""
    call, kind, message = CALLS[number]
    G = make(device)
    rows = shown(G.edge_table(), True)
    with pytest.raises(kind, match=message) as caught:
        call(G)
    assert type(caught.value) is kind
    assert (G.version, shown(G.edge_table(), True)) == (1, rows)
    assert G.insert_edges(ROW).first_id == 3


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_a_graph_of_pairs_refuses_what_is_for_events(number: int) -> None:
    """The error says how to make a graph of events."""
    call, message = PLAIN[number]
    G = DynamicGraph.from_edges([(0, 1)], device="cpu")
    with pytest.raises(InputError, match=message):
        call(G)
    assert G.version == 1


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_options_that_a_multigraph_has_not(number: int) -> None:
    """The error names the option, what was got and what was wanted."""
    options, message = OPTIONS[number]
    with pytest.raises(InputError, match=f"DynamicGraph: {message}"):
        DynamicGraph(**{"multigraph": True, "device": "cpu", **options})


@pytest.mark.parametrize("device", DEVICES)
def test_a_graph_without_times_or_weights(device: str) -> None:
    """What needs them is refused, and the error says how to have them."""
    G = DynamicGraph(multigraph=True, device=device)
    G.insert_edges([(0, 1), (0, 1)])
    for call, message in (
        (lambda: G.insert_edges([(0, 1)], time=[5]), "insert_edges: time was given, but the graph keeps no times"),
        (lambda: G.expire(5), "expire: the graph keeps no times; make it with timestamps='int64'"),
        (lambda: G.update(expire_before=5), "update: the graph keeps no times; make it with timestamps='int64'"),
        (lambda: G.window(0, 5), "window: the graph keeps no times; make it with timestamps='int64'"),
        (lambda: G.events(0, 1, 0, 5), "events: the graph keeps no times; make it with timestamps='int64'"),
        (lambda: G.events_of(0, 0), "events_of: the graph keeps no times; make it with timestamps='int64'"),
        (lambda: G.simple("sum"), "simple: aggregate='sum' needs weights; make the graph with weighted=True"),
        (lambda: G.where(weight=5), "where: the graph has no column 'weight'; wanted one of edge_id"),
        (lambda: G.insert_edges(([0], [1], [1.0])), "insert_edges: "),
    ):
        with pytest.raises(InputError, match=message):
            call()
    assert (G.version, G.number_of_edges()) == (1, 2)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_that_int64_does_not_hold(device: str) -> None:
    """They are refused, as the exact sum would be lost."""
    G = DynamicGraph(weighted=True, weight_dtype="int64", multigraph=True, device=device)
    G.insert_edges(([0], [1], [2**62]))
    for weights in ([2**62, 1], [2**62 - 1, 2**62]):
        with pytest.raises(InputError, match="insert_edges: the weights of a pair sum to more than int64 holds"):
            G.insert_edges(([0, 0], [1, 1], weights))
    with pytest.raises(InputError, match=r"insert_edges: default_weight is 0\.5; wanted a whole number"):
        G.insert_edges([(0, 1)], default_weight=0.5)
    with pytest.raises(InputTypeError, match=r"insert_edges: `weight.* is float64; wanted integers"):
        G.insert_edges(([0], [1], [0.5]))
    assert (G.version, G.simple("sum").edge_weights([(0, 1)]).tolist()) == (1, [2.0**62])


@pytest.mark.parametrize("device", DEVICES)
def test_ids_that_int64_does_not_hold(device: str) -> None:
    """They cannot be counted on; one's own still can come."""
    G = DynamicGraph(multigraph=True, device=device)
    G.insert_edges([(0, 1)], edge_id=[2**63 - 1])
    with pytest.raises(LimitError, match="insert_edges: ids after 9223372036854775807 do not fit int64; give them"):
        G.insert_edges([(0, 1)])
    assert G.insert_edges([(0, 1)], edge_id=[-(2**63)]).inserted == 1
    assert shown(G.events(0, 1), True) == [(0, 1, 2**63 - 1), (0, 1, -(2**63))]


@pytest.mark.parametrize("device", DEVICES)
def test_memory_of_events_has_a_limit(device: str) -> None:
    """An insertion that needs more is refused; after a deletion there is room."""
    G = DynamicGraph(multigraph=True, device=device, event_memory=5000 * 17)
    batch = np.zeros(2000, int), np.ones(2000, int)
    G.insert_edges(batch)
    G.insert_edges(batch)
    with pytest.raises(OutOfMemoryError, match=r"insert_edges: .*6000 events take .*event_memory=85000"):
        G.insert_edges(batch)
    assert (G.version, G.number_of_edges()) == (2, 4000)
    G.delete_edges(edge_ids=np.arange(1500))
    assert G.insert_edges(batch).first_id == 4000
    assert G.number_of_edges() == 4500
