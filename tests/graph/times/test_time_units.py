"""The times of one graph are in one unit: date-times (nanoseconds) or numbers, such as seconds, but not both."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import DynstoreError, InputTypeError

DAY = pd.to_datetime(["2026-01-01"])
SECONDS = 1767225600  # the same day
EPOCH = pd.to_datetime(["1970-01-02"])


def made(times: Any, device: str = "cpu") -> DynamicGraph:
    graph = DynamicGraph(device=device, timestamps="int64", frames="pandas")
    graph.insert_edges(([0], [1]), time=times)
    return graph


def in_other_units(graph: DynamicGraph, value: Any) -> list[Any]:
    """Return calls that pass one time, or a batch of it."""
    return [
        lambda: graph.insert_edges(([1], [2]), time=[value]),
        lambda: graph.insert_edges(pd.DataFrame({"source": [1], "destination": [2], "time": [value]})),
        lambda: graph.insert_edges([(1, 2, value)]),
        lambda: graph.update(insert=([1], [2]), time=[value]),
        lambda: graph.update(insert=([1], [2]), time=graph.edge_columns()["time"][:1], expire_before=value),
        lambda: graph.expire(value),
        lambda: graph.window(value),
        lambda: graph.window(None, value),
    ]


def refused(graph: DynamicGraph, value: Any, message: str) -> None:
    before = graph.edge_table(), graph.version
    for call in in_other_units(graph, value):
        with pytest.raises(InputTypeError, match=message):
            call()
    pd.testing.assert_frame_equal(graph.edge_table(), before[0])
    assert graph.version == before[1]


def test_numbers_after_date_times(backend_name: str) -> None:
    for seconds in (SECONDS, SECONDS * 1000, SECONDS * 10**6):
        refused(made(DAY, backend_name), seconds, "wanted date-times, as the times in the graph")


def test_date_times_after_numbers(backend_name: str) -> None:
    refused(made([SECONDS], backend_name), DAY[0], "has date-times; wanted numbers, as the times in the graph")


def test_numbers_of_nanoseconds_go_with_date_times() -> None:
    """Tables of a graph show date-times as nanoseconds; these may come back."""
    graph = made(DAY)
    nanoseconds = graph.edge_columns()["time"] + 1
    graph.insert_edges(([1], [2]), time=nanoseconds)
    assert graph.expire(int(nanoseconds[0])).expired == 1
    assert graph.window(float("-inf"), float("inf")).number_of_edges() == 1
    back = DynamicGraph.from_edges(graph.edge_table(), time="time", device="cpu")
    back.insert_edges(([1], [2]), time=DAY)
    with pytest.raises(InputTypeError, match="wanted date-times"):
        back.expire(SECONDS)


def test_a_refused_batch_does_not_choose_the_unit() -> None:
    graph = DynamicGraph(device="cpu", timestamps="int64")
    with pytest.raises(DynstoreError):
        graph.insert_edges(([-1], [2]), time=DAY)
    graph.insert_edges(([1], [2]), time=[SECONDS])
    assert graph.expire(SECONDS + 1).expired == 1


def test_an_emptied_graph_takes_another_unit() -> None:
    graph = made(DAY)
    graph.clear()
    graph.insert_edges(([1], [2]), time=[SECONDS])
    refused(graph, DAY[0], "wanted numbers")


def test_copies_and_saved_graphs_know_the_unit(tmp_path: Path) -> None:
    graph = made(DAY)
    graph.save(tmp_path / "graph")
    twins = [graph.copy(), pickle.loads(pickle.dumps(graph)), graph.subgraph([0, 1])]
    for twin in (*twins, dynstore.load(tmp_path / "graph", device="cpu")):
        refused(twin, SECONDS, "wanted date-times")
    with graph.pin() as pin, pytest.raises(InputTypeError, match="wanted date-times"):
        pin.window(SECONDS)


def test_databases_know_the_unit_and_repeat_any_date(tmp_path: Path) -> None:
    """The log has numbers; early dates are small ones, which were date-times when they came."""
    options = {"device": "cpu", "timestamps": "int64"}
    with dynstore.open(tmp_path / "db", **options) as db:
        db.graph.insert_edges(([0], [1]), time=DAY)
        db.graph.insert_edges(([1, 2], [2, 3]), time=EPOCH.append(DAY))
        db.graph.expire(EPOCH[0])
        wanted = db.graph.edge_table()
        refused(db.graph, SECONDS, "wanted date-times")
    for _ in range(2):
        with dynstore.open(tmp_path / "db", **options) as db:
            pd.testing.assert_frame_equal(db.graph.edge_table(), wanted)
            refused(db.graph, SECONDS, "wanted date-times")
            db.checkpoint()
            db.graph.insert_edges(([1], [2]), time=EPOCH)


def test_early_dates_are_not_taken_for_numbers() -> None:
    graph = made(EPOCH)
    graph.insert_edges(([1], [2]), time=DAY)
    assert graph.expire(np.datetime64("1970-01-03")).expired == 1
