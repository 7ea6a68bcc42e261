"""Random calls on a graph of events and on a model of it, with random questions to both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, StaleSnapshotError
from tests.conftest import DEVICES as ALL_DEVICES
from tests.graph.events.model import COUNTS, Batch, Model, Pair, RefusedError

DEVICES = list(ALL_DEVICES)
AGGREGATES = ("sum", "count", "mean", "first", "last", "min", "max")
NAMES: dict[str | None, Callable[[int], Any]] = {
    None: int,
    "strings": lambda number: f"v{number * 7 % 10}{number}",
    "integers": lambda number: number * 0x9E3779B97F4A7C15 % (2**63 - 1),
}
FEW = 3000  # rows that a question may go through each time


@dataclass
class Options:
    """A kind of graph, and of its input.

    Attributes
    ----------
    renumber : {None, "strings", "integers"}
    ids : {"counted", "ascending", "random", "mixed"}
    weights : {"cents", "signed", "whole"}
    vertices : int
    most : int
        Rows from which on calls delete more than they insert.
    """

    directed: bool = True
    weight_dtype: str | None = None
    timestamps: str | None = None
    renumber: str | None = None
    reuse_ids: bool = False
    edge_columns: dict[str, str] | None = None
    ids: str = "counted"
    weights: str = "cents"
    vertices: int = 9
    most: int = 400

    def graph(self, device: str) -> DynamicGraph:
        """Make an empty graph."""
        return DynamicGraph(
            directed=self.directed,
            weighted=self.weight_dtype is not None,
            weight_dtype=self.weight_dtype,
            timestamps=self.timestamps,
            renumber=self.renumber is not None,
            reuse_ids=self.reuse_ids,
            edge_columns=self.edge_columns,
            multigraph=True,
            device=device,
        )

    def model(self) -> Model:
        """Make an empty model."""
        return Model(self.directed, self.weight_dtype, self.timestamps is not None, self.edge_columns or ())


def run(device: str, seed: int, calls: int, rows: int, **options: Any) -> Driver:
    """Make random calls, which insert about so many rows in all, and compare graph and model all the time.

    Returns
    -------
    Driver
        With the number of ``rows`` that were inserted.
    """
    driver = Driver(device, seed, max(rows // max(calls // 2, 1), 1), Options(**options))
    for call in range(calls):
        driver.step()
        if call % 50 == 49:
            driver.compare_all()
    driver.compare_all()
    return driver


# ---------------------------------------------------------------------- what a graph answers


def host(G: Any, array: Any) -> list[Any]:
    """Return an array as a list."""
    found: list[Any] = G.core.backend.to_host(array).tolist()
    return found


def shown(frame: Any, directed: bool) -> list[tuple[Any, ...]]:
    """Return a frame as :meth:`Model.shown` does."""
    frame = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
    rows = list(zip(*(frame[name].tolist() for name in frame.columns), strict=True))
    return rows if directed else [(*sorted(row[:2]), *row[2:]) for row in rows]


def compare(G: Any, model: Model) -> None:
    """Compare all rows, degrees and pairs of a graph, or of a view, with those of a model."""
    assert G.number_of_edges() == len(model.rows)
    order = {vertex: place for place, vertex in enumerate(G)}
    rows = shown(G.edge_table(), model.directed)
    assert_same(sorted(rows), sorted(model.shown(model.rows)))
    assert model.vertices <= order.keys()

    def place_of(key: int) -> Any:
        u, v = (order[end] for end in model.pair(model.rows[key].source, model.rows[key].destination))
        u, v = (u, v) if model.directed else (min(u, v), max(u, v))
        return u, v, model.rows[key].time or 0, model.rows[key].number

    assert_same(rows, model.shown(sorted(model.rows, key=place_of)))
    assert [key for piece in G.iterate_edges(7) for key in host(G, piece["edge_id"])] == [row[-1] for row in rows]
    for direction, ask in (("out", G.out_degree), ("in", G.in_degree), ("both", G.degree)):
        assert shown(ask(), True) == [(u, model.degree(u, direction)) for u in order]
    ends = list(model.vertices)
    pairs = [(u, v) for u in ends for v in ends] if len(ends) < 40 else list(model.pairs)
    if pairs:
        assert host(G, G.has_edges(pairs)) == [model.has_edge(u, v) for u, v in pairs]
    for u in ends[:60]:
        assert host(G, G.successors(u)) == model.neighbors(u)
        assert host(G, G.predecessors(u)) == model.neighbors(u, "in")


def compare_simple(S: Any, model: Model, name: str) -> None:
    """Compare a graph of pairs with the aggregates of a model."""
    assert S.number_of_edges() == len(model.pairs)
    found = {row[:2]: row[2] for row in shown(S.edge_table(), model.directed)}
    assert found.keys() == model.pairs.keys()
    dtype = np.dtype("float32" if model.weight_dtype == "float32" else "float64")
    for pair, weight in found.items():
        wanted, units = model.aggregate(pair, name)
        off = abs(weight - float(dtype.type(wanted)))
        unit = math.ulp(wanted) if dtype.itemsize == 8 else float(np.spacing(np.abs(dtype.type(wanted))))
        assert off <= units * unit, f"{name} of {pair}: {weight!r} for {wanted!r}, {off / unit} units off, not {units}"
        if name in ("sum", "mean") and all(model.rows[key].weight >= 0 for key in model.pairs[pair]):  # type: ignore[operator]
            assert weight >= 0


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    """Compare lists; say where they differ."""
    assert len(found) == len(wanted), f"{len(found)} rows, wanted {len(wanted)}"
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one == other, f"row {place} of {len(found)}"


# ---------------------------------------------------------------------- random calls


class Driver:
    """A graph, its model, and what is held over updates: pins with views of them, and graphs of pairs."""

    def __init__(self, device: str, seed: int, most_rows: int, options: Options) -> None:
        self.rng, self.options, self.most_rows = np.random.default_rng(seed), options, most_rows
        self.G, self.model = options.graph(device), options.model()
        self.name = NAMES[options.renumber]
        self.now, self.rows = 0, 0
        self.gone: list[int] = []  # ids of deleted rows
        self.pins: list[tuple[Any, Model, Any, Model]] = []
        self.simple: dict[str, Any] = {}

    def chance(self, share: float) -> bool:
        """Return True for a share of the calls."""
        return bool(self.rng.random() < share)

    def step(self) -> None:
        """Make one call, and ask some questions."""
        version, view = self.G.version, self.G.where(edge_id=0) if self.chance(0.1) else None
        before = set(self.model.rows) if len(self.model.rows) < FEW else set()
        if self.chance(0.12):
            self.refuse()
        else:
            self.change()
        self.gone = (self.gone + sorted(before - self.model.rows.keys()))[-50:]
        if view is not None and self.G.version != version:
            with pytest.raises(StaleSnapshotError):
                view.edge_table()
        assert self.G.number_of_edges() == len(self.model.rows)
        self.hold()
        for _ in range(2):
            self.ask(self.G, self.model)
        for pin, model, view, part in self.pins:
            if self.chance(0.3):
                self.ask(*((view, part) if self.chance(0.5) else (pin, model)))

    def compare_all(self) -> None:
        """Compare all that there is."""
        compare(self.G, self.model)
        for name, S in self.simple.items():
            compare_simple(S, self.model, name)
        for pin, model, view, part in self.pins:
            compare(pin, model)
            compare(view, part)
        twin, model = self.G.copy(), self.model.copy()
        pairs = self.some_pairs(3)
        same(twin.delete_edges(pairs), model.delete(pairs))
        compare(twin, model)
        assert self.G.number_of_edges() == len(self.model.rows)

    # ------------------------------------------------------------------ drawing

    def vertex(self) -> Any:
        """Draw a vertex; the first ones are hot."""
        n = self.options.vertices
        return self.name(int(self.rng.integers(0, n if self.chance(0.7) else max(n // 8, 2))))

    def some_pairs(self, count: int) -> list[Pair]:
        """Draw pairs: hot ones, self-loops, those that are there, any."""
        ends = self.rng.integers(0, self.options.vertices, (2, count))
        hot = self.rng.random(count) < 0.3
        ends[:, hot] = self.rng.integers(0, 2, (2, int(hot.sum())))
        loops = self.rng.random(count) < 0.05
        ends[1, loops] = ends[0, loops]
        return [(self.name(u), self.name(v)) for u, v in ends.T.tolist()]

    def some_ids(self, count: int) -> list[int]:
        """Draw ids of rows that are there, and some that are not, or are twice."""
        keys = list(self.model.rows)
        found = [keys[place] for place in self.rng.integers(0, len(keys), count)] if keys else []
        return [*found, *self.gone[:2], self.model.highest + 5] if self.chance(0.5) else found

    def bound(self) -> int:
        """Draw a time."""
        return self.now + int(self.rng.integers(-60, 8))

    def bounds(self) -> tuple[int | None, int | None]:
        """Draw the bounds of a window; None for no bound, and without timestamps."""
        if self.options.timestamps is None:
            return None, None
        low, high = sorted((self.bound(), self.bound()))
        return None if self.chance(0.15) else low, None if self.chance(0.15) else high

    def size(self) -> int:
        """Draw the size of a batch."""
        if self.chance(0.05):
            return 0
        return 1 if self.chance(0.1) else int(self.rng.integers(1, 2 * self.most_rows + 1))

    def batch(self, count: int) -> Batch:
        """Draw rows to insert."""
        rng, options = self.rng, self.options
        batch = Batch(self.some_pairs(count))
        if options.weight_dtype is not None:
            batch.weights = self.some_weights(count)
        if options.timestamps is not None:
            spread = 500 if self.chance(0.05) else 30
            times = self.now + np.maximum(rng.integers(-spread, 4, count), rng.integers(-spread, 4, count))
            batch.times = (np.sort(times) if self.chance(0.4) else times).tolist()
            self.now += int(rng.integers(0, 4))
        for name in options.edge_columns or ():
            batch.columns[name] = rng.integers(0, 4, count).tolist()
        batch.ids = self.fresh_ids(count)
        return batch

    def some_weights(self, count: int) -> list[Any]:
        rng, kind = self.rng, self.options.weights
        if kind == "whole" or self.options.weight_dtype == "int64":
            found: list[Any] = rng.integers(-(2**30), 2**30, count).tolist()
        elif kind == "cents":
            found = (rng.integers(0, 10 ** rng.integers(1, 9, count)) / 100).tolist()
        else:
            found = (rng.normal(size=count) * 10.0 ** rng.integers(-6, 9, count)).tolist()
        if self.options.weight_dtype == "float32":
            return np.asarray(found, np.float32).tolist() if kind != "whole" else [weight % 1000 for weight in found]
        return found

    def fresh_ids(self, count: int) -> list[int] | None:
        """Draw ids of one's own, that are not in the graph; None where they are counted."""
        kind = self.options.ids
        if kind == "mixed":
            kind = ("counted", "ascending", "random", "again")[self.rng.integers(0, 4)]
        if kind == "counted":
            return None
        if kind == "ascending":
            return [self.model.highest + int(more) for more in np.cumsum(self.rng.integers(1, 4, count))]
        drawn = self.rng.integers(-(2**40), 2**40, count).tolist() if self.chance(0.9) else []
        if kind == "again" or len(drawn) < count:
            drawn = [*self.gone, *self.rng.integers(0, 9 * self.options.most, 3 * count).tolist(), *drawn]
        found = [key for key in dict.fromkeys(drawn) if key not in self.model.rows]
        found += [key for key in range(-2 * count - 5, 0) if key not in self.model.rows and key not in found]
        return self.rng.permutation(found[:count]).tolist() if self.chance(0.5) else found[:count]

    # ------------------------------------------------------------------ calls

    def given(self, batch: Batch) -> tuple[Any, dict[str, Any]]:
        """Return rows as arguments: a tuple of columns or a frame."""
        src, dst = [u for u, _ in batch.pairs], [v for _, v in batch.pairs]
        if self.options.renumber == "strings":
            ends: list[Any] = [np.array(end, object) if end else np.empty(0, "U1") for end in (src, dst)]
        else:
            ends = [np.array(end, np.int64) for end in (src, dst)]
        weights, times = ([] if column is None else [column] for column in (batch.weights, batch.times))
        dtypes = self.options.edge_columns or {}
        values = [np.array(column, dtypes[name]) for name, column in batch.columns.items()]
        numbers = [np.array(column, self.options.weight_dtype) for column in weights]
        stamps = [np.array(column, np.int64) for column in times]
        ids = None if batch.ids is None else np.array(batch.ids, np.int64)
        if self.chance(0.5):
            return (*ends, *numbers, *values, *stamps), {} if ids is None else {"edge_id": ids}
        names = ["u", "v", *(["amount"] if weights else []), *batch.columns, *(["at"] if times else [])]
        columns = dict(zip(names, (*ends, *numbers, *values, *stamps), strict=True))
        how: dict[str, Any] = {"source": "u", "destination": "v"}
        how |= ({"weight": "amount"} if weights else {}) | ({"time": "at"} if times else {})
        if ids is not None:
            columns["key"], how["edge_id"] = ids, "key"
        return pd.DataFrame(columns), how

    def insert(self, batch: Batch) -> Any:
        """Insert rows into the graph."""
        rows, how = self.given(batch)
        return self.G.insert_edges(rows, **how)

    def update(self, batch: Batch | None, **leaving: Any) -> Any:
        """Update the graph; ``leaving``: as :meth:`Model.update` has it."""
        rows, how = (None, {}) if batch is None else self.given(batch)
        pairs, ids = leaving.pop("pairs", None), leaving.pop("ids", None)
        return self.G.update(rows, self.columns(pairs, how), edge_ids=ids, **how, **leaving)

    def columns(self, pairs: list[Pair] | None, how: dict[str, Any] | None = None) -> Any:
        """Return pairs to delete, as a frame where names of columns are given."""
        if pairs is None:
            return None
        if how is None or "source" not in how:
            return pairs
        return pd.DataFrame(pairs, columns=["u", "v"]) if pairs else pairs

    def change(self) -> None:
        """Make a call that works."""
        G, model, crowded = self.G, self.model, len(self.model.rows) > self.options.most
        kinds = ["insert"] * (2 if crowded else 12) + ["delete", "pairs", "update", "update", "vertices"]
        kinds += ["expire"] * (self.options.timestamps is not None) + ["empty", "less"] * crowded * 2
        kinds += ["clear"] * (self.chance(0.05)) + ["reorder"] * (self.options.renumber is not None)
        kind = str(self.rng.choice(kinds))
        few = max(self.most_rows // 3, 1)
        if kind == "insert":
            batch = self.batch(self.size())
            self.rows += len(batch)
            same(self.insert(batch), model.insert(batch))
        elif kind == "delete":
            ids = self.some_ids(int(self.rng.integers(0, 2 * few + 1)))
            same(G.delete_edges(edge_ids=ids), model.delete(ids=ids))
        elif kind == "pairs":
            which = str(self.rng.choice(["all", "oldest", "newest"]))
            pairs = self.some_pairs(int(self.rng.integers(0, (2 if which == "all" else few) + 1)))
            same(G.delete_edges(pairs, which=which), model.delete(pairs, which=which))
        elif kind == "update":
            leaving = self.leaving(few)
            batch = self.batch(self.size())
            self.rows += len(batch)
            same(self.update(batch, **leaving), model.update(batch, **leaving))
        elif kind == "vertices":
            if self.chance(0.3) and model.vertices:
                ids = [u for u in {self.vertex(), self.vertex()} if u in model.vertices][:1]
                same(G.delete_vertices(ids), model.delete_vertices(ids))
                model.vertices -= set(ids) if self.options.reuse_ids else set()
        elif kind == "expire":
            bound = self.bound()
            same(G.expire(bound), model.expire(bound))
        elif kind == "less":
            keys = self.rng.permutation(list(model.rows))[: len(model.rows) // 2].tolist()
            same(G.delete_edges(edge_ids=keys), model.delete(ids=keys))
        elif kind == "reorder":
            G.reorder()
        elif kind == "clear":
            G.clear()
            model.clear()

    def leaving(self, few: int) -> dict[str, Any]:
        """Draw what leaves in an update."""
        leaving: dict[str, Any] = {}
        if self.chance(0.5):
            leaving["ids"] = self.some_ids(int(self.rng.integers(0, few + 1)))
        elif self.chance(0.7):
            leaving["which"] = str(self.rng.choice(["all", "oldest", "newest"]))
            leaving["pairs"] = self.some_pairs(int(self.rng.integers(0, 4)))
        if self.options.timestamps is not None and self.chance(0.7):
            leaving |= {"expire_before": self.bound(), "expire_last": self.chance(0.3)}
        return leaving

    def refuse(self) -> None:
        """Make a call that has to be refused, and see that nothing has changed."""
        version, batch = self.G.version, self.batch(int(self.rng.integers(2, 9)))
        leaving = self.leaving(3) if self.chance(0.5) else None
        if leaving is not None:
            leaving.pop("expire_before", None)  # late rows need not be right
        self.spoil(batch)
        try:
            if all(u != -1 and v != -1 for u, v in batch.pairs):
                self.model.copy().update(batch, **leaving or {})
                return  # not spoiled, or by an id of a row that leaves
        except RefusedError:
            pass
        call = partial(self.insert, batch) if leaving is None else partial(self.update, batch, **leaving)
        with pytest.raises(InputError):
            call()
        assert self.G.version == version
        if len(self.model.rows) < FEW:
            compare(self.G, self.model)

    def spoil(self, batch: Batch) -> None:
        """Put something wrong into a batch, if it has what can be wrong."""
        place, known = int(self.rng.integers(0, len(batch))), self.some_ids(1)
        kind = str(self.rng.choice(["again", "known", "weight", "vertex"]))
        if kind == "again" and batch.ids is not None:
            batch.ids[place] = batch.ids[place - 1]
        elif kind == "known" and batch.ids is not None and known:
            batch.ids[place] = known[0]
        elif kind == "weight" and batch.weights is not None and self.options.weight_dtype != "int64":
            batch.weights[place] = (math.nan, math.inf, -math.inf)[self.rng.integers(0, 3)]
        elif self.options.renumber != "strings":
            batch.pairs[place] = (batch.pairs[place][0], -1)

    # ------------------------------------------------------------------ questions

    def hold(self) -> None:
        """Take and release pins and graphs of pairs."""
        if self.chance(0.08) and len(self.pins) < 3 and (len(self.model.rows) < FEW or self.chance(0.1)):
            pin, model, (low, high) = self.G.pin(), self.model.copy(), self.bounds()
            if self.chance(0.3):
                compare(pin, model)
            if self.options.timestamps is None:
                keys = set(list(model.rows)[::2])
                view, part = pin.where(edge_id=keys), model.where(edge_id=keys)
            else:
                view, part = pin.window(low, high), model.window(low, high)
            self.pins.append((pin, model, view, part))
        if self.pins and self.chance(0.06):
            pin, model, view, part = self.pins.pop(int(self.rng.integers(0, len(self.pins))))
            compare(pin, model)
            compare(view, part)
            pin.release()
            for released in (pin, view):
                with pytest.raises(StaleSnapshotError):
                    released.edge_table()
        if self.chance(0.1):
            name = self.aggregate()
            if self.simple.pop(name, None) is None:
                self.simple[name] = self.G.simple(name)
        if self.simple and self.affordable(self.model):
            name = str(self.rng.choice(list(self.simple)))
            compare_simple(self.simple[name], self.model, name)

    def aggregate(self) -> str:
        """Draw an aggregate that the graph has."""
        return "count" if self.options.weight_dtype is None else str(self.rng.choice(AGGREGATES))

    def affordable(self, model: Model) -> bool:
        """Return whether to go through all rows now."""
        return self.chance(FEW / (len(model.rows) + 1))

    def ask(self, G: Any, model: Model, nested: int = 2) -> None:
        """Ask a graph, or a view, a random question, and views of it others."""
        rng, directed = self.rng, model.directed
        inside = sorted(model.vertices)
        if not inside:
            assert G.number_of_edges() == 0
            return
        u, v = (inside[rng.integers(0, len(inside))] for _ in range(2))
        if self.chance(0.4):
            u, v = self.some_pairs(1)[0]
            u, v = (end if end in model.vertices else inside[0] for end in (u, v))
        bounds, kind = self.bounds(), int(rng.integers(0, 9))
        if kind == 0:
            assert_same(shown(G.events(u, v, *bounds), directed), model.shown(model.events(u, v, *bounds)))
        elif kind == 1:
            direction = str(rng.choice(["out", "in", "both"]))
            found = shown(G.events_of(u, *bounds, direction=direction), directed)
            assert_same(found, model.shown(model.events_of(u, *bounds, direction)))
        elif kind == 2:
            keys = [key for key in self.some_ids(5) if key in model.rows]
            assert_same(shown(G.edges_by_id(np.array(keys, np.int64)), directed), model.shown(keys))
            with pytest.raises(InputError, match="no edge has the id"):
                G.edges_by_id([*keys, model.highest + 1 if model.highest < 2**62 else -(2**50)])
        elif kind == 3:
            for direction, ask in (("out", G.out_degree), ("in", G.in_degree), ("both", G.degree)):
                assert ask(u) == model.degree(u, direction)
        elif kind == 4:
            assert host(G, G.neighbors(u)) == model.neighbors(u)
            assert host(G, G.predecessors(v)) == model.neighbors(v, "in")
        elif kind == 5:
            pairs = [(u, v), *self.some_pairs(4)]
            assert host(G, G.has_edges(pairs)) == [model.has_edge(*pair) for pair in pairs]
        elif not self.affordable(model):
            return
        elif kind == 6:
            name = self.aggregate()
            compare_simple(G.simple(name), model, name)
        elif kind == 7 and nested and bounds != (None, None):
            self.ask_view(G.window(*bounds), model.window(*bounds), nested)
        elif nested:
            names = [
                *model.names,
                "edge_id",
                *(["time"] if model.timed else []),
                *(["weight"] if model.weight_dtype else []),
            ]
            name = str(rng.choice(names))
            keys = [key for key in self.some_ids(20) if key in model.rows]
            some = {model.value(key, name) for key in keys} or {0}
            value: Any = some if self.chance(0.5) else list(some)
            self.ask_view(G.where(**{name: value}), model.where(**{name: some}), nested)

    def ask_view(self, view: Any, model: Model, nested: int) -> None:
        """Ask a view some questions."""
        assert view.number_of_edges() == len(model.rows)
        for _ in range(2):
            self.ask(view, model, nested - 1)
        if self.chance(0.3) and len(model.rows) < FEW:
            compare(view, model)


def same(report: Any, wanted: Any) -> None:
    """Compare what reports count."""
    assert {name: getattr(report, name) for name in COUNTS} == {name: getattr(wanted, name) for name in COUNTS}
