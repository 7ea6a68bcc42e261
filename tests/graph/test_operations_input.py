"""Mixed batches come in many forms; what is wrong with one changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pandas
import pytest

from dynstore import DynamicGraph, Operation
from dynstore.errors import InputError, InputTypeError, LimitError, OutOfMemoryError
from dynstore.testing.faults import FailingEmpty
from dynstore.testing.invariants import named_edges
from dynstore.testing.pair import ID_KINDS
from tests.conftest import DEVICES
from tests.graph.test_operations import FRAMES, KINDS, Model, listed, random_operations

OPS = pandas.DataFrame(
    {
        "op": ["insert", "insert", "has_edge", "delete", "successors", "k_hop"],
        "time": [1, 2, 3, 4, 5, 6],
        "source": [0, 1, 0, 0, 1, 0],
        "destination": [1, 2, 1, 1, None, None],
        "k": [None, None, None, None, None, 2],
    }
)


def as_arrow(ops: pandas.DataFrame) -> Any:
    import pyarrow

    return pyarrow.Table.from_pandas(ops.astype({"destination": "Int64", "k": "Int32"}))


def as_polars(ops: pandas.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(ops.astype({"destination": "Int64", "k": "Int32"}))


def as_codes(ops: pandas.DataFrame) -> Any:
    codes = np.array([Operation[name.upper()] for name in ops["op"]], np.int8)
    return {"op": codes, **{name: ops[name].to_numpy() for name in ops.columns if name != "op"}}


FORMS: dict[str, Callable[[pandas.DataFrame], Any]] = {
    "pandas": lambda ops: ops,
    "index": lambda ops: ops.set_index(pandas.Index(list("zyxwvu"))),
    "nullable": lambda ops: ops.astype({"destination": "Int64", "k": "Int32"}),
    "category": lambda ops: ops.astype({"op": "category"}),
    "dates": lambda ops: ops.assign(time=pandas.to_datetime(ops["time"], unit="s")),
    "lists": lambda ops: (
        {name: ops[name].tolist() for name in ("op", "time", "source")}
        | {"destination": [1, 2, 1, 1, None, None], "k": [None] * 5 + [2]}
    ),
    "codes": as_codes,
    "arrow": as_arrow,
    "polars": as_polars,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_input(form: str) -> None:
    G = DynamicGraph(device="cpu", frames="pandas")
    found = listed(G.apply(FORMS[form](OPS)))
    assert found["has_edge"] == [(2, True)]
    assert found["successors"] == [(4, 2)]
    assert found["k_hop"] == [(5, 0, 0)]
    assert set(named_edges(G)) == {(1, 2)}


def test_columns_on_the_device(backend: Any, backend_name: str, rng: np.random.Generator) -> None:
    G, model = DynamicGraph(weighted=True, device=backend_name, frames="pandas"), Model(directed=True, dense=True)
    ops = random_operations(rng, 80 if backend_name == "cpu" else 20, 8)
    columns = {name: backend.asarray(column) for name, column in as_codes(ops).items()}
    assert listed(G.apply(columns)) == model.run(ops)
    assert named_edges(G) == model.edges


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
@pytest.mark.parametrize("ids", ID_KINDS)
def test_frames_of_cudf(ids: str, rng: np.random.Generator) -> None:
    cudf = pytest.importorskip("cudf")
    dense = ids == "dense"
    G, model = DynamicGraph(weighted=True, device="cuda", renumber=not dense), Model(directed=True, dense=dense)
    for batch in range(3):
        ops = random_operations(rng, 200, 12 + 3 * batch, ID_KINDS[ids])
        found, expected = G.apply(cudf.from_pandas(ops)), model.run(ops)
        for name in FRAMES:
            frame = getattr(found, name).to_pandas()
            assert list(frame.itertuples(index=False, name=None)) == expected[name]
    assert named_edges(G) == model.edges


@pytest.mark.parametrize("frames", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("renumber", [False, True])
def test_dtypes_and_columns_of_the_answers(frames: str, renumber: bool) -> None:
    pytest.importorskip(frames)
    G = DynamicGraph(weighted=True, device="cpu", frames=frames, renumber=renumber)
    ops = {"op": ["insert", *KINDS[2:]], "source": [0] * 5, "destination": [1] * 5, "k": [1] * 5, "w": [2.5] * 5}
    for ops_now in (ops, {name: column[:1] for name, column in ops.items()}):
        found = G.apply(ops_now, time=None, weight="w")
        vertex = "int64" if renumber else "int32"
        columns = {
            "has_edge": {"query": "int64", "exists": "bool"},
            "successors": {"query": "int64", "vertex": vertex, "weight": "float32"},
            "predecessors": {"query": "int64", "vertex": vertex, "weight": "float32"},
            "k_hop": {"query": "int64", "vertex": vertex, "distance": "int32"},
        }
        for name, wanted in columns.items():
            frame = getattr(found, name)
            table = frame if frames == "pandas" else frame.to_pandas()
            assert {column: str(dtype) for column, dtype in table.dtypes.items()} == wanted


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"op": ["insert", "upsert"]}, InputError, r"apply: row 1: unknown `op` 'upsert'; known: 'delete'"),
        ({"op": ["insert", None]}, InputError, r"apply: `op` has a null at row 1; wanted none"),
        ({"op": [0, 6]}, InputError, r"apply: `op` is 6 at row 1; wanted 0 to 5, see dynstore.Operation"),
        ({"op": [0.5, 1.0]}, InputError, r"apply: `op` has neither strings nor integers; wanted 'insert', 'delete'"),
        ({"time": [1.0, float("nan")]}, InputError, r"apply: `time` has a null at row 1; wanted none"),
        ({"time": [1]}, InputError, r"apply: `time` has 1 items, the column of operations has 2; they must be equal"),
        ({"source": [0, -1]}, InputError, r"apply, among the deletions and queries: `source` has -1 at row 0"),
        ({"source": [-1, 0]}, InputError, r"apply, among the insertions: `src` has -1 at row 0"),
        ({"source": [10**9, 0]}, LimitError, r"apply, among the insertions: id 1000000000 would make rows"),
        ({"destination": [1.5, 1]}, InputError, r"apply, among the insertions: `dst` has 1.5 \(float\) at row 0"),
        ({"op": ["insert", "k_hop"], "k": [0, -1]}, InputError, r"apply: `k` is -1 at row 1; wanted 0 or more"),
        ({"op": ["k_hop", "k_hop"], "k": [0, 0.5]}, InputError, r"apply: `k` has other values than integers"),
        (
            {"op": ["insert", "k_hop"], "k": np.array([0, 0.5])},
            InputError,
            r"apply: `k` is 0.5 at row 1; wanted an integer",
        ),
        ({"op": 3}, InputTypeError, r"apply: `op` is a int; wanted a column, such as an array or a list"),
        ({"source": np.array(3)}, InputTypeError, r"apply: `source` is a numpy.ndarray; wanted a column, such as"),
        ({"destination": None}, InputTypeError, r"apply: `destination` is a NoneType; wanted a column, such as"),
        (
            {"op": ["insert", "has_edge"], "destination": {0: 1, 1: 2}},
            InputTypeError,
            r"apply: rows of `destination`, a dict, cannot be read",
        ),
        (
            {"op": ["insert", "k_hop"]},
            InputError,
            r"apply: columns not found: k; the frame has op, time, .* Name it: k=\.\.\.",
        ),
    ],
)
def test_bad_input_changes_nothing(change: dict[str, Any], error: type, message: str) -> None:
    G = DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu")
    ops = {"op": ["insert", "delete"], "time": [1, 2], "source": [4, 0], "destination": [5, 1], **change}
    with pytest.raises(error, match=message):
        G.apply(ops)
    assert G.version == 1
    assert set(named_edges(G)) == {(0, 1), (1, 2)}


@pytest.mark.parametrize("k", [np.array([9, 2], np.int8), np.array([9, 2], np.float16), range(1, 3), [None, 2**62]])
def test_hops_of_any_type_of_number(k: Any) -> None:
    G = DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu")
    found = G.apply({"op": ["has_edge", "k_hop"], "source": [0, 0], "destination": [1, None], "k": k}, time=None).k_hop
    assert found["distance"].tolist() == [0, 1, 2]


def test_bad_arguments() -> None:
    G = DynamicGraph(weighted=True, device="cpu")
    ops = {"op": ["insert"], "time": [1], "source": [0], "destination": [1]}
    with pytest.raises(InputError, match="apply: on_duplicate is 'add'; wanted 'replace'"):
        G.apply(ops, on_duplicate="add")
    with pytest.raises(InputError, match=r"apply: ops is a tuple; wanted a pandas, pyarrow, polars or cuDF frame"):
        G.apply((["insert"], [1], [0], [1]))
    with pytest.raises(InputError, match="apply: op is 3; wanted the name of a column, a string"):
        G.apply(ops, op=3)
    with pytest.raises(InputError, match="apply: the graph is weighted, and the edges have no weights"):
        G.apply(ops)
    assert G.apply(ops, default_weight=2.0).report.inserted == 1
    assert named_edges(G) == {(0, 1): 2.0}
    with pytest.raises(InputError, match="the graph is unweighted"):
        DynamicGraph(device="cpu").apply({**ops, "w": [1.0]}, weight="w")
    H = DynamicGraph(device="cpu", renumber=True)
    mixed = {"op": ["insert", "has_edge"], "source": ["a", 1], "destination": ["b", 2]}
    with pytest.raises(InputError, match="has integers; this graph's vertices are strings"):
        H.apply({name: pandas.Series(column, dtype=object) for name, column in mixed.items()}, time=None)
    assert H.number_of_vertices() == 0


@pytest.mark.parametrize("renumber", [False, True])
def test_memory_that_runs_out_changes_nothing(renumber: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph(weighted=True, device="cpu", renumber=renumber)
    G.insert_edges(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0]))
    before, empty = named_edges(G), G.core.backend.empty
    ops = random_operations(np.random.default_rng(1), 60, 8)
    for failures in count():
        monkeypatch.setattr(G.core.backend, "empty", FailingEmpty(empty, failures))
        try:
            G.apply(ops)
        except OutOfMemoryError:
            monkeypatch.undo()
            assert named_edges(G) == before
            assert (G.version, len(G)) == (1, 4)
        else:
            break
    monkeypatch.undo()
    assert failures > 20
    assert G.version == 2
