"""Every frame type, in and out; arrays through DLPack; what the methods are called and where they live."""

from __future__ import annotations

import gc
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import lookup
from dynstore.errors import InputError, MissingDependencyError
from dynstore.graph.conversions import Tables
from tests.adapters.graphs import edges_of, every_id, every_kind, gapped_graph, named_graph, named_rows, rows_of

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None
needs_polars = pytest.mark.skipif(pl is None, reason="polars is not installed")


def _names(graph: dynstore.DynamicGraph) -> list[str]:
    return ["source", "destination", "weight"][: 3 if graph.is_weighted() else 2]


# ---------------------------------------------------------------------- out, and in again


@every_kind
def test_pandas(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    frame = graph.to_pandas()
    assert type(frame) is pd.DataFrame
    assert list(frame.columns) == _names(graph)
    assert rows_of(*(frame[name] for name in frame)) == edges_of(graph)
    assert frame["source"].dtype == frame["destination"].dtype == graph.vertex_dtype
    if graph.is_weighted():
        assert frame["weight"].dtype == graph.weight_dtype
    again = dynstore.DynamicGraph(device=device, **options)
    again.insert_edges(frame, weight="weight" if graph.is_weighted() else None)
    assert edges_of(again) == edges_of(graph)


@needs_polars
@every_kind
def test_polars(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    for frame in (graph.to_polars(), pl.DataFrame(graph)):
        assert type(frame) is pl.DataFrame
        assert frame.columns == _names(graph)
        assert rows_of(*frame.get_columns()) == edges_of(graph)
        again = dynstore.DynamicGraph(device=device, **options)
        again.insert_edges(frame, weight="weight" if graph.is_weighted() else None)
        assert edges_of(again) == edges_of(graph)


@every_id
@pytest.mark.parametrize("directed", [True, False])
def test_ids_of_the_users_own(device: str, kind: str, directed: bool) -> None:
    graph, wanted = named_graph(kind, device, directed=directed, weighted=True)
    frames = [graph.to_pandas()]
    if pl is not None and "pyarrow" in sys.modules:
        frames.append(graph.to_polars())
    for frame in frames:
        assert len(frame) == len(wanted)
        assert named_rows(*(frame[name].to_list() for name in ("source", "destination", "weight"))) == wanted
        again = dynstore.DynamicGraph(device=device, renumber=True, directed=directed, weighted=True)
        assert again.insert_edges(frame, weight="weight").inserted == len(wanted)
        assert named_rows(*(again.to_pandas()[name] for name in ("source", "destination", "weight"))) == wanted


def test_a_pandas_frame_is_a_copy() -> None:
    graph = gapped_graph(weighted=True)
    before = edges_of(graph)
    place = graph.snapshot().indices.ctypes.data
    frame = graph.to_pandas()
    frame["weight"] = -1.0
    frame.loc[0, "destination"] = 0
    assert edges_of(graph) == before
    graph.delete_edges(([7], [7]))
    assert graph.snapshot().indices.ctypes.data == place, "a copy must not pin"


def test_a_pandas_frame_cannot_pass_for_one_of_ours() -> None:
    frame = pd.DataFrame({"source": [0, None, 2], "destination": [1, None, 3]}, dtype="Int64")
    frame.attrs["dynstore.gaps"] = True
    graph = dynstore.DynamicGraph(device="cpu")
    with pytest.raises(InputError, match="column `source` has a null at row 1; wanted none"):
        graph.insert_edges(frame)
    assert graph.insert_edges(frame.dropna()).inserted == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda: pd.DataFrame({"source": pd.array([0, None], "Int32"), "destination": [1, 1]}),
            "column `source` has a null at row 1",
            id="pandas",
        ),
        pytest.param(
            lambda: pl.DataFrame({"source": [0, 2], "destination": [None, 1]}),
            "column `destination` has 1 nulls",
            id="polars",
            marks=needs_polars,
        ),
        pytest.param(
            lambda: pytest.importorskip("pyarrow").table({"source": [0, None], "destination": [None, 1]}),
            "column `source` has 1 nulls",
            id="pyarrow",
        ),
    ],
)
def test_nulls_of_others_are_refused(make: Any, message: str) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    with pytest.raises(InputError, match=message):
        graph.insert_edges(make())
    assert graph.version == 0


def test_without_polars_the_line_to_type_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match=r"^to_polars: polars cannot be imported .*: pip install polars$"):
        gapped_graph().to_polars()


# ---------------------------------------------------------------------- arrays through DLPack


class _OnlyDLPack:
    """What speaks DLPack and nothing else, as an array of another library may."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack_arrays_come_in(device: str) -> None:
    graph = dynstore.DynamicGraph(weighted=True, device=device)
    xp = graph.core.backend.xp
    columns = (xp.array([0, 1, 1]), xp.array([1, 2, 3], dtype=np.int32), xp.array([0.5, 1.5, 2.5]))
    graph.insert_edges(tuple(_OnlyDLPack(column) for column in columns))
    assert edges_of(graph) == {(0, 1): 0.5, (1, 2): 1.5, (1, 3): 2.5}
    assert graph.delete_edges((_OnlyDLPack(xp.array([1])), _OnlyDLPack(xp.array([2])))).deleted == 1
    with pytest.raises(InputError, match="`src` has -1 at row 0"):
        graph.insert_edges((_OnlyDLPack(xp.array([-1])), [0]))


def test_exported_arrays_speak_dlpack_and_keep_their_pin(device: str) -> None:
    """No copy, and what the other side holds stays as it is through updates."""
    graph = gapped_graph(device, weighted=True)
    xp, to_host = graph.core.backend.xp, graph.core.backend.to_host
    for name in ("offsets", "sources", "indices", "weights", "valid"):
        arrays = graph.snapshot().export()
        place = _address(arrays[name])
        taken = xp.from_dlpack(arrays[name])
        del arrays
        gc.collect()
        assert _address(taken) == place
        if device == "cpu":
            assert not taken.flags.writeable
        before = np.array(to_host(taken))
        graph.insert_edges(([3, 7], [4, 7], [50.0, 60.0]))
        graph.delete_edges(([39], [0]))
        np.testing.assert_array_equal(to_host(taken), before, strict=True)
        assert _address(getattr(graph.snapshot(), name)) != place, name
        place = _address(graph.snapshot().indices)
        del taken
        gc.collect()
        graph.insert_edges(([39], [0], [1.0]))
        assert _address(graph.snapshot().indices) == place, "an update copied for an array that is gone"


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr


# ---------------------------------------------------------------------- the methods


def test_every_conversion_is_a_function_of_an_adapter_and_takes_what_it_takes() -> None:
    found = 0
    for name, method in {**vars(Tables), "from_scipy": vars(dynstore.DynamicGraph)["from_scipy"]}.items():
        function = method.__func__ if isinstance(method, classmethod) else method
        if not inspect.isfunction(function) or name == "__arrow_c_stream__":
            continue
        (short,) = [text for text in function.__code__.co_consts if text in lookup.MODULES]
        adapter, home = lookup.provided(short), lookup.MODULES[short]
        assert name in adapter.__all__
        shown = list(inspect.signature(function).parameters.values())[1:]
        real = list(inspect.signature(getattr(adapter, name)).parameters.values())[1:]
        assert [(p.name, p.kind, p.default) for p in shown] == [(p.name, p.kind, p.default) for p in real], name
        assert f":func:`{home}.{name}`" in (function.__doc__ or ""), name
        found += 1
    assert found == 8
    assert issubclass(dynstore.DynamicGraph, Tables)


def test_the_lines_of_the_document_run() -> None:
    for library in ("polars", "pyarrow", "scipy.sparse"):
        pytest.importorskip(library)
    text = (Path(__file__).resolve().parents[3] / "docs" / "frames.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 5
    namespace: dict[str, Any] = {}
    for block in blocks:
        if "share_pool" not in block:  # that one wants a GPU, and would change the allocator of all other tests
            exec(block, namespace)
    assert namespace["G"].number_of_edges() == 3
    assert namespace["H"].number_of_edges() == 0
    for name in re.findall(r"^\| `(\w+)\(", text, flags=re.MULTILINE):
        assert hasattr(dynstore.DynamicGraph, name), name
    out = text.partition("## Out")[2].partition("## How long")[0]
    for name in vars(Tables):
        if name.startswith(("to_", "__arrow")):
            assert f"`{name}(" in out, f"docs/frames.md leaves {name} out"
