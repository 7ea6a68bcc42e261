"""One stream into several graphs: they hold the same rows at each version, whatever happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph, Stream, Window
from dynstore.errors import InputError, InputTypeError, OutOfMemoryError
from dynstore.graph.transaction import Transaction
from tests.conftest import DEVICES
from tests.streams.scripted import Scripted, pairs_of


def columns(rng: np.random.Generator, rows: int, **more: Any) -> dict[str, Any]:
    batch = {"source": rng.integers(0, 12, rows), "destination": rng.integers(0, 12, rows)}
    return batch | {"op": np.where(rng.random(rows) < 0.2, "-", "+"), "weight": rng.random(rows).astype("f4")} | more


def rows_of(G: DynamicGraph) -> set[tuple[float, ...]]:
    return set(G.to_pandas().itertuples(index=False, name=None))


@pytest.mark.parametrize("device", DEVICES)
def test_each_graph_gets_what_it_would_get_alone(device: str, rng: np.random.Generator) -> None:
    """A directed and an undirected graph, one with weights; also with windows that count, and those of time."""
    batches = []
    for clock in range(0, 160, 20):
        rows = int(rng.integers(1, 30))
        batches.append(columns(rng, rows, time=np.sort(rng.integers(clock, clock + 20, rows))))

    def graphs() -> list[Any]:
        G = DynamicGraph(weighted=True, device=device)
        return [
            G,
            DynamicGraph(directed=False, device=device),
            Window(DynamicGraph(directed=False, device=device), 40, by="time"),
            Window(DynamicGraph(weighted=True, device=device), 25, keep="count"),
        ]

    together, one_by_one = graphs(), graphs()
    stream = Stream(together[0], Scripted(*batches, ends=True), also=together[1:], batch_edges=16)
    stream.run()
    for G, wanted in zip(stream.graphs, one_by_one, strict=True):
        window = wanted if isinstance(wanted, Window) else None
        H = wanted.graph if isinstance(wanted, Window) else wanted
        Stream(H, Scripted(*batches, ends=True), window=window, batch_edges=16).run()
        assert rows_of(G) == rows_of(H), window


def test_answers_are_of_one_version() -> None:
    batches = [{"source": np.array([row]), "destination": np.array([row + 1])} for row in range(40)]
    G, H = DynamicGraph(device="cpu"), DynamicGraph(directed=False, device="cpu")
    ticks: list[Any] = []
    with Stream(G, Scripted(*batches, ends=True), also=[H], batch_edges=1, max_delay=0.0) as stream:
        monitor = stream.monitor("weakly_connected_components", ticks.append, graph=H)
        stream.start()
        answers = [stream.ask(lambda G, H: (pairs_of(G), pairs_of(H), G.version, H.version)) for _ in range(20)]
        for answer in answers:
            first, second, version, other = answer.result(60).result
            assert first == second
            assert version == other
        stream.run()
    assert monitor.latest is not None
    assert monitor.latest.version == H.version == G.version == 40
    with pytest.raises(InputError, match=r"monitor: graph is .*wanted one of the stream's graphs"):
        stream.monitor("pagerank", graph=DynamicGraph(device="cpu"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_fails_in_one_graph_is_done_in_none(
    place: int, deletes: bool, windowed: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs: list[Any] = [DynamicGraph(device=device, renumber=True) for _ in range(3)]
    windows = [Window(G, 100) for G in graphs] if windowed else graphs
    good = {"source": np.arange(5), "destination": np.arange(5) + 1, "op": ["+"] * 5}
    bad = {"source": np.array([7, 0]), "destination": np.array([8, 1]), "op": ["+", "-" if deletes else "+"]}
    source, failing = Scripted(good, bad, ends=True), graphs[place]
    make = Transaction.batch_of
    calls = 0

    def fails(update: Transaction, *given: Any) -> Any:  # in the middle of an update, as memory may
        nonlocal calls
        if update.core is failing.core:
            calls += 1
            if failing.version:
                raise OutOfMemoryError("none is left")
        return make(update, *given)

    monkeypatch.setattr(Transaction, "batch_of", fails)
    stream = Stream(
        graphs[0], source, windows[0] if windowed else None, also=windows[1:] if windowed else graphs[1:], batch_edges=5
    )
    with pytest.raises(OutOfMemoryError, match="none is left"):
        stream.run()
    assert calls
    assert {G.version for G in graphs} == {1}
    assert [pairs_of(G) for G in graphs] == [{(row, row + 1) for row in range(5)}] * 3
    if windowed:
        assert [len(window) for window in windows] == [5] * 3
    monkeypatch.undo()
    Stream(graphs[0], [bad], windows[0] if windowed else None, also=windows[1:] if windowed else graphs[1:]).run()
    assert [pairs_of(G) for G in graphs] == [pairs_of(graphs[0])] * 3
    assert (7, 8) in pairs_of(graphs[0])


def test_what_is_no_other_graph(tmp_path: Any) -> None:
    G = DynamicGraph(device="cpu")

    def refused(kind: type[Exception], text: str, also: Any, G: Any = G, **options: Any) -> None:
        with pytest.raises(kind, match=text):
            Stream(G, [[(0, 1)]], also=also, **options)

    refused(InputTypeError, r"also is 3; wanted a list of graphs or windows", 3)
    refused(InputTypeError, r"also\[0\] is a str; wanted a dynstore.DynamicGraph or a Window", ["G"])
    refused(InputError, r"also\[0\] is of a graph that the stream has already", [G])
    H = DynamicGraph(device="cpu")
    refused(InputError, r"also\[1\] is of a graph that the stream has already", [H, H])
    refused(
        InputError,
        r"also\[0\] has renumber=True, the graph renumber=False",
        [DynamicGraph(renumber=True, device="cpu")],
    )
    weighted = DynamicGraph(weighted=True, device="cpu")
    refused(InputError, r"also\[0\] has weights of float32, .*the graph with most columns first", [weighted])
    assert Stream(weighted, [[(0, 1, 0.5)]], also=G).run().applied == 1
    assert pairs_of(G) == pairs_of(weighted) == {(0, 1)}
    timed = DynamicGraph(timestamps="int64", device="cpu")
    refused(InputError, r"also\[0\] has the edge columns \['time'\]", [timed])
    refused(InputError, r"window is a length of time, and also\[0\] keeps no times", [H], timed, window=10)
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        refused(InputError, r"a graph is one of dynstore.open", [H], db.graph)
        refused(InputError, r"a graph is one of dynstore.open", [db.graph])
