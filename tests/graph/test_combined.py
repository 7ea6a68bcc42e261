"""Features meet: random operations on graphs whose options are drawn together, compared with a dict of edges.

A failure names the number of its graph, which with the suite's seed replays it.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph, Window
from dynstore.errors import DynstoreError
from dynstore.testing.invariants import check_graph
from dynstore.testing.model import COUNTS, ModelGraph
from dynstore.testing.pair import ID_KINDS
from tests.conftest import DEVICES, SEED
from tests.windows.slides import Row, Slides

ANSWERS: dict[str, dict[str, Any]] = {"weakly_connected_components": {}, "bfs": {}, "triangle_count": {}}
# How often each operation comes.
SHARES = {
    "insert": 6, "update": 4, "slide": 10, "delete": 3, "expire": 2, "insert_vertices": 1, "delete_vertices": 2,
    "refused": 2, "reorder": 1, "clear": 0.3, "pin": 2, "read_a_pin": 3, "track": 1, "answer": 2,
    "copy": 1, "reopen": 2, "time_window": 1,
}  # fmt: skip


class Run:
    """A graph, its model and all that follows it."""

    def __init__(self, seed: int, device: str, folder: Path) -> None:
        self.rng, self.folder, self.clock = np.random.default_rng(seed), folder, 0
        pick = self.pick
        self.ids = pick(*ID_KINDS)
        options: dict[str, Any] = {"directed": pick(True, False), "weighted": pick(True, False)}
        options |= {"vertex_dtype": pick("int32", "int64"), "weight_dtype": pick("float32", "float64")}
        options |= {} if self.ids == "dense" else {"renumber": True, "reuse_ids": pick(True, False)}
        options |= pick({}, {"edge_columns": {"id": "int64", "kind": "uint8"}}, {"edge_columns": {"f": "float32"}})
        options |= pick({}, {"timestamps": "int64"}, {"timestamps": "int32"})
        self.model, self.options = ModelGraph(**options), {"device": device, **options}
        self.weighted, self.timed = options["weighted"], "timestamps" in options
        self.extra: dict[str, str] = options.get("edge_columns", {})
        self.db = dynstore.open(folder / "db", sync="os", **self.options) if pick(True, False) else None
        self.G: DynamicGraph = DynamicGraph(**self.options) if self.db is None else self.db.graph
        self.window = self.slides = None
        if pick(True, False, False):
            keep = pick("latest", "count", "sum") if self.weighted else "latest"
            length, step = int(self.rng.integers(3, 30)), pick(None, 4)
            self.window = Window(self.G, length, pick("count", "time"), keep, step)
            self.slides = Slides(self.window, self.model)
        self.pins: list[tuple[Any, ModelGraph]] = []
        self.monitors: list[tuple[Any, str, dict[str, Any]]] = []

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def pairs(self, most: int = 12) -> tuple[list[Any], list[Any]]:
        """Draw edges: some of those that are there, or any."""
        edges = sorted(self.model.arcs())
        if edges and self.pick(True, False, False):
            chosen = [edges[k] for k in self.rng.integers(0, len(edges), int(self.rng.integers(0, 6)))]
        else:
            chosen = self.rng.integers(0, self.pick(4, 8, 30), (int(self.rng.integers(0, most)), 2)).tolist()
            chosen = [(self.named(u), self.named(v)) for u, v in chosen]
        return [u for u, _ in chosen], [v for _, v in chosen]

    def named(self, number: int) -> Any:
        return ID_KINDS[self.ids](int(number))

    def rows(self) -> tuple[tuple[list[Any], ...], list[int]]:
        """Draw edges with weights and extra columns, and their times."""
        src, dst = self.pairs()
        count = len(src)
        weights = [] if not self.weighted else [(self.rng.integers(-16, 17, count) / 4).tolist()]
        extra = [self.rng.integers(0, 99, count).astype(dtype).tolist() for dtype in self.extra.values()]
        self.clock += int(self.rng.integers(0, 5))
        return (src, dst, *weights, *extra), (self.clock + self.rng.integers(-8, 4, count)).tolist()

    def call(self, method: str, *args: Any, **options: Any) -> None:
        """Update both, and compare the reports."""
        report, wanted = getattr(self.G, method)(*args, **options), getattr(self.model, method)(*args, **options)
        if wanted is not None:
            assert {name: getattr(report, name) for name in COUNTS} == {name: getattr(wanted, name) for name in COUNTS}
        if self.slides is not None:
            self.slides.note_deletions()

    # ------------------------------------------------------------------ updates

    def insert(self) -> None:
        edges, times = self.rows()
        if self.window is None:
            edges = (*edges, times) if self.timed else edges
            self.call("insert_edges", edges, on_duplicate=self.pick("replace", "add"))

    def update(self) -> None:
        edges, times = self.rows()
        edges = (*edges, times) if self.timed else edges
        if self.window is not None:  # a window fills its graph alone
            edges = tuple([] for _ in edges)
        bound = self.clock - int(self.rng.integers(0, 12)) if self.timed and self.pick(True, False) else None
        self.call("update", edges, self.pairs(5), bound, on_duplicate=self.pick("replace", "add"))

    def delete(self) -> None:
        self.call("delete_edges", self.pairs())

    def expire(self) -> None:
        if self.timed:
            self.call("expire", self.pick(self.clock - 9, self.clock - 4, self.clock - 1, 2**40, -(2**63)))

    def insert_vertices(self) -> None:
        self.call("insert_vertices", [self.named(v) for v in self.rng.integers(0, 40, 2)])

    def delete_vertices(self) -> None:
        gone = [self.named(v) for v in self.rng.integers(0, 12, 2)]
        if self.slides is not None and self.options.get("reuse_ids"):
            self.slides.forget(gone)
        self.call("delete_vertices", gone)

    def reorder(self) -> None:
        if self.ids != "dense":
            self.G.reorder()
            self.model.reorder()

    def clear(self) -> None:
        self.call("clear")
        if self.window is not None:
            self.slides = Slides(self.window, self.model)

    def slide(self) -> None:
        if self.window is None or self.slides is None:
            return
        (src, dst, *values), times = self.rows()
        weights = values.pop(0) if self.weighted else [1.0] * len(src)
        given = {"time": np.array(times, np.int64)} if self.timed or self.window.by == "time" else {}
        shown = [weights] if self.weighted and self.window.keep != "count" else []
        report = self.window.slide((src, dst, *shown, *values), **given)
        rows = zip(
            src, dst, weights, map(list, zip(*values, strict=True)) if values else [[] for _ in src], times, strict=True
        )
        entered, late = self.slides.slide([Row(self.model.canonical(u, v), *rest) for u, v, *rest in rows])
        assert (report.entered, report.late, report.rows) == (entered, late, len(self.window))

    def refused(self) -> None:
        """Give a batch with a null, or with a column that is too short."""
        values: list[Any] = [[1, 1] for _ in self.extra]
        slides = self.window is not None and self.pick(True, False)
        if self.weighted and not (slides and self.window is not None and self.window.keep == "count"):
            values.insert(0, [1.0, 1.0])
        ends = self.pick(([70, 71], [71, None]), ([70, 71], [71]), ([70], [71, 72]))
        src, dst = ([None if end is None else self.named(end) for end in column] for column in ends)
        timed = self.timed or (slides and self.window is not None and self.window.by == "time")
        given = {"time": np.full(2, self.clock + 9)} if timed else {}
        method: Any = getattr(self.G, self.pick("insert_edges", "update"))
        if slides and self.window is not None:
            method = self.window.slide
        with pytest.raises(DynstoreError):
            method((src, dst, *values), **given)

    # ------------------------------------------------------------------ what follows the graph

    def pin(self) -> None:
        self.pins = [*self.pins[-2:], (self.G.pin(), self.model.copy())]

    def read_a_pin(self) -> None:
        if self.pins:
            pin, model = self.pin_of(int(self.rng.integers(len(self.pins))))
            for v in model.vertex_ids()[:5]:
                assert pin.core.backend.to_host(pin.successors(v)).tolist() == model.successors(v).tolist()
            if self.pick(True, False):
                self.same(pin, model)

    def pin_of(self, number: int) -> tuple[Any, ModelGraph]:
        return self.pins.pop(number) if self.pick(True, False, False) else self.pins[number]

    def track(self) -> None:
        name = self.pick(*ANSWERS)
        params = {"start": self.pick(*self.model.vertex_ids())} if name == "bfs" and self.model.num_vertices else {}
        if (name != "bfs" or params) and not (name == "triangle_count" and self.model.directed):
            self.monitors = [*self.monitors[-1:], (self.G.track(name, **params), name, params)]

    def answer(self) -> None:
        for monitor, name, params in self.monitors:
            try:
                wanted = getattr(dynstore, name)(self.G, **params)
            except DynstoreError as error:
                with pytest.raises(type(error)):
                    monitor.result()
            else:
                assert monitor.result().to_dict("list") == wanted.to_dict("list")

    def copy(self) -> None:
        kind = self.pick("copy", "pickle", "save", "pin")
        if kind == "save":
            self.G.save(self.folder / "saved", overwrite=True)
        made = {
            "copy": lambda: self.G.copy(),
            "pickle": lambda: pickle.loads(pickle.dumps(self.G)),
            "save": lambda: dynstore.load(self.folder / "saved", device=self.options["device"]),
            "pin": lambda: self.G.pin().copy(),
        }[kind]()
        self.same(made, self.model)
        if self.window is None and self.db is None:
            self.G, self.monitors = made, []

    def reopen(self) -> None:
        if self.db is not None:
            self.same(self.db.at(self.G.version), self.model)
            if self.window is None:
                if self.pick(True, False, False):
                    self.db.checkpoint()
                self.db.close()
                self.db = dynstore.open(self.folder / "db", sync="os", device=self.options["device"])
                self.G, self.monitors = self.db.graph, []

    def time_window(self) -> None:
        if self.timed:
            start = self.clock - int(self.rng.integers(0, 20))
            view, times = self.G.window(start, start + 8), {e: self.model.extra[e][-1] for e in self.model.edges}
            assert set(self.edges_of(view)) == {edge for edge, time in times.items() if start <= time < start + 8}

    # ------------------------------------------------------------------ checks

    def edges_of(self, G: Any) -> dict[Any, tuple[Any, ...]]:
        columns = [G.core.backend.to_host(column).tolist() for column in G.edge_columns().values()]
        return {self.model.canonical(u, v): tuple(values) for u, v, *values in zip(*columns, strict=True)}

    def same(self, G: Any, model: ModelGraph) -> None:
        extra = model.extra if model.edge_columns else {}
        wanted = {
            edge: (*((weight,) if self.weighted else ()), *extra.get(edge, ())) for edge, weight in model.edges.items()
        }
        assert self.edges_of(G) == wanted
        assert (G.number_of_edges(), G.version) == (len(wanted), model.version)
        assert G.core.backend.to_host(G.vertex_ids()).tolist() == model.vertex_ids()

    def go(self, steps: int) -> None:
        shares = np.array(list(SHARES.values()), float) / sum(SHARES.values())
        for step in range(steps):
            getattr(self, self.rng.choice(list(SHARES), p=shares))()
            self.same(self.G, self.model)
            if step % 6 == 5:
                check_graph(self.G, transposed=self.pick(True, False))


def go(number: int, device: str, steps: int, folder: Path) -> None:
    run = Run(SEED + number, device, folder)
    try:
        run.go(steps)
    finally:
        if run.db is not None:
            run.db.close()


@pytest.mark.parametrize("number", range(12))
def test_features_meet(number: int, tmp_path: Path) -> None:
    go(number, "cpu", 40, tmp_path)


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "cpu"])
@pytest.mark.parametrize("number", range(100, 104))
def test_features_meet_on_cuda(number: int, device: str, tmp_path: Path) -> None:
    go(number, device, 12, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", range(1000, 1100))
def test_more_features_meet(number: int, device: str, tmp_path: Path) -> None:
    go(number, device, 120 if device == "cpu" else 20, tmp_path)
