"""What a row does never depends on where batches end: against a model that applies rows one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph, Stream, Window
from tests.conftest import PROFILE
from tests.streams.scripted import graph

ROUNDS = 200 if PROFILE == "thorough" else 25


class OneByOne:
    """A graph with times, as a stream with a length fills it, a row at a time."""

    def __init__(self, length: int, lateness: int | None, directed: bool) -> None:
        self.length, self.lateness, self.directed = length, lateness, directed
        self.edges: dict[tuple[int, int], tuple[float, int]] = {}
        self.vertices: set[int] = set()
        self.newest, self.late = -(10**9), 0

    def take(self, src: int, dst: int, weight: float, time: int, deletes: bool) -> None:
        pair = (src, dst) if self.directed else (min(src, dst), max(src, dst))
        self.newest = max(self.newest, time)
        age = self.newest - time
        if (self.lateness is not None and age > self.lateness) or (age >= self.length and not deletes):
            self.late += 1
        elif deletes:
            self.edges.pop(pair, None)
        else:
            self.vertices |= {src, dst}
            self.edges[pair] = weight, max(time, self.edges.get(pair, (0, time))[1])
        self.edges = {pair: edge for pair, edge in self.edges.items() if edge[1] > self.newest - self.length}


class Drawn(NamedTuple):
    """Random rows, and cuts of them into batches."""

    rows: dict[str, np.ndarray]
    cuts: list[int]


def draw(rng: np.random.Generator, count: int, deletes: bool) -> Drawn:
    times = np.cumsum(rng.integers(0, 30, count)) - rng.integers(0, rng.integers(2, 200), count)
    rows = {
        "source": rng.integers(0, 6, count), "destination": rng.integers(0, 6, count),
        "weight": np.arange(count) + 1.0, "time": times,
    }  # fmt: skip
    if deletes:
        rows["op"] = np.where(rng.random(count) < 0.25, "-", "+").astype(object)
    cuts = np.sort(rng.choice(np.arange(1, count), rng.integers(0, count - 1), replace=False)).tolist()
    return Drawn(rows, [0, *cuts, count])


def batches(drawn: Drawn) -> list[dict[str, np.ndarray]]:
    pairs = zip(drawn.cuts[:-1], drawn.cuts[1:], strict=True)
    return [{name: column[low:high] for name, column in drawn.rows.items()} for low, high in pairs]


def apply_each(stream: Stream) -> None:
    """Run a stream that applies each batch of the source by itself."""
    engine = stream._engine
    take = engine.pending.take
    engine.pending.take = lambda most, *more: take(  # type: ignore[method-assign]
        min(most, len(engine.pending._chunks[0].rows) - engine.pending._chunks[0].taken) or most, *more
    )
    stream.run()


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("lateness", [None, 40])
def test_rows_do_the_same_in_any_batches(
    deletes: bool, directed: bool, lateness: int | None, rng: np.random.Generator
) -> None:
    for _ in range(ROUNDS):
        drawn, length = draw(rng, 40, deletes), int(rng.integers(5, 150))
        model = OneByOne(length, lateness, directed)
        for row in zip(*drawn.rows.values(), strict=True):
            src, dst, weight, time, *op = row
            model.take(int(src), int(dst), float(weight), int(time), op == ["-"])
        G = graph(weighted=True, timestamps="int64", directed=directed, renumber=True)
        stream = Stream(G, batches(drawn), length, lateness=lateness)
        apply_each(stream)
        assert held(G, directed) == model.edges
        assert stream.progress().late == model.late
        assert set(G.vertex_ids().tolist()) == model.vertices


def held(G: DynamicGraph, directed: bool) -> dict[tuple[int, int], tuple[float, int]]:
    table = G.to_pandas().sort_values(["source", "destination"])
    rows = zip(table["source"], table["destination"], table["weight"], table["time"], strict=True)
    return {(s, d) if directed else (min(s, d), max(s, d)): (w, t) for s, d, w, t in rows}


@pytest.mark.parametrize("keep", ["latest", "sum", "count"])
def test_a_window_is_the_same_after_any_batches(keep: Any, rng: np.random.Generator) -> None:
    for _ in range(ROUNDS):
        drawn, length = draw(rng, 40, False), int(rng.integers(5, 150))
        found = []
        for cuts in (drawn.cuts, list(range(41))):
            G = graph(weighted=True, weight_dtype="float64")
            stream = Stream(G, batches(Drawn(drawn.rows, cuts)), Window(G, length, by="time", keep=keep))
            apply_each(stream)
            table = G.to_pandas().sort_values(["source", "destination"])
            found.append(table.values.tolist())
        assert found[0] == found[1]


def test_an_update_may_expire_last(backend_name: str, tmp_path: Path) -> None:
    """Old rows give their weight to edges that stay, and make vertices; a log repeats that."""
    rows = ([0, 1, 2, 0, 5, 7], [1, 2, 3, 1, 6, 8], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [50, 20, 60, 20, 5, 50])

    def check(G: Any) -> None:
        assert held(G, True) == {(0, 1): (4.0, 50), (1, 2): (2.0, 45), (2, 3): (3.0, 60), (7, 8): (6.0, 50)}
        assert G.number_of_vertices() == 8

    options: dict[str, Any] = {"weighted": True, "timestamps": "int64", "renumber": True, "device": backend_name}
    with dynstore.open(tmp_path, **options) as db:
        for G in (DynamicGraph(**options), db.graph):
            G.insert_edges(([1, 5], [2, 6], [9.0, 9.0], [45, 30]))
            report = G.update(rows, expire_before=40, expire_last=True)
            assert (report.late, report.expired) == (0, 1)
            check(G)
    with dynstore.open(tmp_path, **options) as db:
        check(db.graph)
