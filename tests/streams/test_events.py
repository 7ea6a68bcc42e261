"""Streams into multigraphs: rows come and are taken back by id, the same in any batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import InputError
from tests.conftest import DEVICES

FAST = [device for device in DEVICES if device != "cuda-sim"]
COLUMNS = ["source", "destination", "weight", "time", "kind", "edge_id"]


def make(device: str = "cpu", **more: Any) -> dynstore.DynamicGraph:
    options = {"weighted": True, "timestamps": "int64", "edge_columns": {"kind": "int8"}, "renumber": True, **more}
    return dynstore.DynamicGraph(multigraph=True, device=device, **options)


def held(G: dynstore.DynamicGraph) -> list[tuple[Any, ...]]:
    frame = G.edge_table().to_pandas() if hasattr(G.edge_table(), "to_pandas") else G.edge_table()
    return sorted(map(tuple, frame[COLUMNS].to_numpy().tolist()), key=lambda row: row[-1])


def random_rows(rng: np.random.Generator, count: int, again: bool = True) -> pandas.DataFrame:
    """Insertions and reversals; some reversals are of what is gone or never came; some ids come again."""
    there: list[int] = []
    gone: list[int] = []
    rows: list[dict[str, Any]] = []
    for number in range(count):
        time = int(number + rng.integers(-6, 3))
        draw = rng.random()
        if draw < 0.3 and there:
            chosen = there.pop(int(rng.integers(len(there))))
            gone.append(chosen)
            rows.append({"op": "-", "time": time, "edge_id": chosen})
        elif draw < 0.35:
            rows.append({"op": "delete", "time": time, "edge_id": int(rng.integers(10_000, 20_000))})
        else:
            chosen = gone.pop() if again and draw > 0.9 and gone else number
            there.append(chosen)
            ends = {"source": f"v{rng.integers(6)}", "destination": f"v{rng.integers(6)}"}
            values = {"weight": float(rng.integers(1, 999)) / 4, "kind": int(rng.integers(3))}
            rows.append({"op": "+", "time": time, "edge_id": chosen, **ends, **values})
    return pandas.DataFrame(rows).astype({"kind": "Int8"})


def one_by_one(rows: pandas.DataFrame, lateness: float | None, length: float | None) -> list[tuple[Any, ...]]:
    """What is there after all rows, in a dict."""
    found: dict[int, tuple[Any, ...]] = {}
    newest = None
    for row in rows.to_dict("records"):
        time = row["time"]
        newest = time if newest is None else max(newest, time)
        is_late = lateness is not None and newest - time > lateness
        if row["op"] in ("-", "delete"):
            if not is_late:
                found.pop(row["edge_id"], None)
        elif not is_late and (length is None or newest - time < length):
            assert row["edge_id"] not in found
            found[row["edge_id"]] = tuple(row[name] for name in COLUMNS)
        if length is not None:
            found = {key: each for key, each in found.items() if newest - each[3] < length}
    return [found[key] for key in sorted(found)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("limits", [{}, {"lateness": 3}, {"window": 40}, {"window": 40, "lateness": 4}], ids=str)
def test_any_batches_are_the_rows_one_by_one(limits: dict[str, int], device: str, rng: np.random.Generator) -> None:
    rows = random_rows(rng, 120 if device == "cuda-sim" else 500, again="lateness" not in limits)
    wanted = one_by_one(rows, limits.get("lateness"), limits.get("window"))
    for size in (17, 1000) if device == "cuda-sim" else (1, 7, 64, 1000):
        G = make(device)
        Stream(G, rows, batch_edges=size, **limits).run()
        assert held(G) == wanted, size


@pytest.mark.parametrize("form", ["messages", "csv", "frames"])
def test_rows_in_any_form(form: str, tmp_path: Path, rng: np.random.Generator) -> None:
    rows = random_rows(rng, 60)
    G, source = make(), Any
    if form == "csv":
        rows.to_csv(tmp_path / "rows.csv", index=False)
        source = dynstore.streams.FileSource(tmp_path / "rows.csv", follow=False)
    elif form == "messages":
        records = [
            {key: value for key, value in row.items() if not pandas.isna(value)} for row in rows.to_dict("records")
        ]
        source = [dynstore.streams.decode(json.dumps(row).encode()) for row in records]
    else:
        source = [rows[:20], rows[20:21], rows[21:]]
    Stream(G, source).run()
    assert held(G) == one_by_one(rows, None, None)


@pytest.mark.parametrize("size", [3, 1000])
def test_a_stream_goes_on_in_a_database(tmp_path: Path, size: int, rng: np.random.Generator) -> None:
    rows = random_rows(rng, 90)
    pieces = [rows[:50], rows[50:]]
    options: dict[str, Any] = {"multigraph": True, "weighted": True, "timestamps": "int64", "renumber": True}
    for _ in range(2):
        with dynstore.open(tmp_path / "db", device="cpu", edge_columns={"kind": "int8"}, **options) as db:
            rows.to_csv(tmp_path / "rows.csv", index=False)
            source = dynstore.streams.FileSource(tmp_path / "rows.csv", follow=False)
            Stream(db.graph, source, batch_edges=size).run(until=lambda progress: progress.applied >= len(pieces[0]))
    with dynstore.open(tmp_path / "db", device="cpu", edge_columns={"kind": "int8"}, **options) as db:
        Stream(db.graph, dynstore.streams.FileSource(tmp_path / "rows.csv", follow=False), batch_edges=size).run()
        assert held(db.graph) == one_by_one(rows, None, None)


def test_whole_amounts_stay_exact() -> None:
    G = make(weight_dtype="int64", edge_columns=None)
    cents = (1 << 60) + 1
    Stream(G, [{"source": ["a"], "destination": ["b"], "weight": [cents], "time": [1]}]).run()
    assert G.edge_table()["weight"].tolist() == [cents]
    with pytest.raises(InputError, match="Stream: `weight` is float64; wanted integers"):
        Stream(G, [{"source": ["a"], "destination": ["b"], "weight": [0.5], "time": [1]}]).run()


def test_ids_are_counted_where_none_come() -> None:
    G = make(edge_columns=None)
    rows = [{"source": ["a", "a"], "destination": ["b", "b"], "weight": [1, 2], "time": [1, 2]}]
    Stream(G, rows, batch_edges=1).run()
    assert G.edge_table()["edge_id"].tolist() == [0, 1]


ROW = {"source": ["a"], "destination": ["b"], "weight": [1.0], "time": [1]}


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([{**ROW, "op": ["-"]}], r"row 0 deletes, and the batch has no column `edge_id`; .* columns=\{'edge_id'"),
        ([{**ROW, "edge_id": [1]}, ROW], "the column `edge_id` is missing, and the batches before have it"),
        ([ROW, {**ROW, "edge_id": [1]}], "the column `edge_id` is there, and the batches before lack it"),
        ([{**ROW, "edge_id": [None]}], "`edge_id` has a null at row 0"),
        ([{**ROW, "edge_id": [1.5]}], "`edge_id`"),
        ([{**ROW, "edge_id": [1]}, {**ROW, "edge_id": [1]}], "edge_id has 1 "),
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_what_does_not_fit_is_refused(batches: list[Any], message: str, size: int) -> None:
    G = make(edge_columns=None)
    with pytest.raises(InputError, match=message):
        Stream(G, batches, batch_edges=size).run()


def test_an_event_that_comes_and_goes_must_be_new() -> None:
    """One by one it could not come; so it cannot in one batch."""
    both = {name: column * 2 for name, column in ROW.items()} | {"op": ["+", "-"], "edge_id": [1, 1]}
    for size in (1, 100):
        G = make(edge_columns=None)
        with pytest.raises(InputError, match=r"edge_id has 1.* already"):
            Stream(G, [{**ROW, "op": ["+"], "edge_id": [1]}, both], batch_edges=size, max_delay=0.0).run()


def test_ids_of_edges_need_a_multigraph() -> None:
    G = dynstore.DynamicGraph(device="cpu")
    with pytest.raises(InputError, match=r"columns names .edge_id., but edges have no ids; .* multigraph=True"):
        Stream(G, [], columns={"edge_id": "payment"})
