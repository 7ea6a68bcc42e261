"""Cases of the store contract: which input is accepted, and which is refused before anything changes."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from typing import Any

import numpy as np
import pytest

from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.graph import DynamicGraph
from dynstore.stores import AUTO, STORES
from dynstore.testing.pair import Contract, Pair

__all__ = ["BAD_INSERTS", "InputContract"]

NAN = float("nan")

# name -> (error, columns, text that the message must have); only the last row is bad
BAD_INSERTS: dict[str, tuple[type[Exception], tuple[Any, ...], str]] = {
    "negative-source": (InputError, ([0, 1, -1], [1, 2, 3]), "`src` has -1 at row 2"),
    "negative-destination": (InputError, ([0, 1, 2], [1, 2, -5]), "`dst` has -5 at row 2"),
    "past-int32": (LimitError, ([0, 1, 2], [1, 2, 2**31 - 1]), "`dst` has 2147483647 at row 2"),
    "past-int64": (LimitError, ([0, 1, 2], [1, 2, 2**70]), "at row 2"),
    "past-max-vertices": (LimitError, ([0, 1, 1000], [1, 2, 3]), "max_vertices is 1000"),
    "null-source": (InputError, ([0, 1, None], [1, 2, 3]), "`src` has a null at row 2"),
    "null-weight": (InputError, ([0, 1], [1, 2], [1.0, None]), "`weights` has a null at row 1"),
    "nan-weight": (InputError, ([0, 1], [1, 2], [1.0, NAN]), "`weights` is NaN at row 1"),
    "weight-past-float32": (LimitError, ([0, 1], [1, 2], [1.0, 1e300]), "`weights` has 1e.300 at row 1"),
    "string-weight": (InputTypeError, ([0, 1], [1, 2], ["1", "x"]), "`weights`"),
    "float-ids": (InputTypeError, ([0, 1], [1, 2.5]), r"`dst` has 2\.5 \(float\) at row 1"),
    "whole-float-ids": (InputTypeError, (np.array([0.0, 1.0]), [1, 2]), "`src` is float64"),
    "bool-ids": (InputTypeError, (np.array([True, False]), [1, 2]), "`src` is bool"),
    "string-ids": (InputTypeError, (["a", "b"], [1, 2]), "`src`"),
    "mixed-ids": (InputTypeError, ([0, "b"], [1, 2]), "`src`"),
    "dates": (InputTypeError, (np.array(["2020-01-01"], dtype="M8[D]"), [2]), "`src` is datetime64"),
    "shorter-destination": (InputError, ([0, 1, 2, 3], [1, 2, 3]), "`dst` has 3 items, `src` has 4"),
    "shorter-weights": (InputError, ([0, 1], [1, 2], [1.0]), "`weights` has 1 items, `src` has 2"),
    "two-dimensions": (InputError, ([[0, 1]], [[1, 2]]), r"`src` has \[0, 1\] \(list\) at row 0"),
    "one-column": (InputError, ([0, 1],), "a tuple of edges has 1 items"),
    "four-columns": (InputError, ([0], [1], [1.0], [2.0]), "a tuple of edges has 4 items"),
}

# Input that only a graph without ``renumber=True`` refuses.
ABOUT_ROWS = frozenset({"past-int32", "past-max-vertices"})


def _frames() -> dict[str, Any]:
    """Return makers of frames by name; each skips if its library is missing."""

    def pandas_frame(columns: dict[str, list[Any]]) -> Any:
        return pytest.importorskip("pandas").DataFrame(columns)

    def pandas_nullable(columns: dict[str, list[Any]]) -> Any:
        return pytest.importorskip("pandas").DataFrame(columns).convert_dtypes()

    def pandas_reversed(columns: dict[str, list[Any]]) -> Any:
        rows = {name: values[::-1] for name, values in columns.items()}
        return pytest.importorskip("pandas").DataFrame(rows).iloc[::-1]

    def arrow_table(columns: dict[str, list[Any]]) -> Any:
        return pytest.importorskip("pyarrow").table(columns)

    def arrow_chunks(columns: dict[str, list[Any]]) -> Any:
        pa = pytest.importorskip("pyarrow")
        table = pa.table(columns)
        return pa.concat_tables([table.slice(0, 1), table.slice(1)])

    def polars_frame(columns: dict[str, list[Any]]) -> Any:
        return pytest.importorskip("polars").DataFrame(columns)

    def cudf_frame(columns: dict[str, list[Any]]) -> Any:
        return pytest.importorskip("cudf").DataFrame(columns)

    makers = [pandas_frame, pandas_nullable, pandas_reversed, arrow_table, arrow_chunks, polars_frame]
    if importlib.util.find_spec("cudf") is not None:
        makers.append(cudf_frame)
    return {maker.__name__.replace("_", "-"): maker for maker in makers}


FRAMES = _frames()
every_frame = pytest.mark.parametrize("make_frame", FRAMES.values(), ids=FRAMES.keys())


class InputContract(Contract):
    """The input that every graph accepts and refuses; subclassed once a device, with any store."""

    def seeded(self, **options: Any) -> Pair:
        """Make a pair that holds a few edges."""
        pair = self.pair(**options)
        pair.insert([0, 1, 2, 2], [1, 2, 0, 2], *([[1.0, 2.0, 3.0, 4.0]] if options.get("weighted") else []))
        return pair

    @pytest.mark.parametrize("name", BAD_INSERTS)
    def test_a_bad_batch_changes_nothing(self, name: str) -> None:
        error, columns, match = BAD_INSERTS[name]
        pair = self.seeded(weighted=True, max_vertices=1000)
        if self.renumbered and name in ABOUT_ROWS:
            pair.update("insert_edges", columns)
            return
        message = pair.refuse(error, "insert_edges", columns, match=match)
        assert message.startswith("insert_edges: ")
        assert "\n" not in message
        pair.insert([0], [2], [5.0])

    @pytest.mark.parametrize("method", ["delete_edges", "has_edges", "edge_weights"])
    @pytest.mark.parametrize(
        "name", ["negative-source", "past-int32", "null-source", "float-ids", "string-ids", "shorter-destination"]
    )
    def test_bad_rows_are_refused_by_all_who_read_edges(self, method: str, name: str) -> None:
        error, columns, match = BAD_INSERTS[name]
        pair = self.seeded()
        if self.renumbered and name in ABOUT_ROWS:
            assert pair.update("delete_edges", columns).absent == 1
            return
        message = pair.refuse(error, method, columns, match=match)
        assert message.startswith(f"{method}: ")

    @pytest.mark.parametrize("method", ["insert_vertices", "delete_vertices"])
    def test_bad_vertex_ids_are_refused(self, method: str) -> None:
        pair = self.seeded(max_vertices=100)
        pair.refuse(InputError, method, [0, 1, -1], match="-1 at row 2")
        pair.refuse(InputTypeError, method, [0.5], match=r"has 0\.5 \(float\) at row 0")
        highest = 2**63 - 1 if self.renumbered else 2**31 - 1
        pair.refuse(LimitError, method, [highest], match=str(highest))
        if method == "insert_vertices" and not self.renumbered:
            pair.refuse(LimitError, method, [3, 100], match="max_vertices is 100")

    def test_weights_for_an_unweighted_graph_are_refused(self) -> None:
        pair = self.seeded()
        pair.refuse(InputError, "insert_edges", ([0], [1], [1.0]), match="weighted=True")
        frame = FRAMES["pandas-frame"]({"source": [0], "destination": [1], "w": [1.0]})
        pair.refuse(InputError, "insert_edges", frame, weight="w", match="weighted=True")

    def test_what_is_no_batch_is_refused(self) -> None:
        pair = self.seeded()
        for edges in ([0, 1], {"source": [0], "destination": [1]}, np.zeros((2, 2), dtype=int), None, "0 1"):
            pair.refuse(InputTypeError, "insert_edges", edges, match="wanted a pandas")
        pair.refuse(
            InputError, "insert_edges", ([0], [1]), on_duplicate="sum", match="known: 'add', 'append', 'replace'"
        )
        pair.refuse(InputError, "insert_edges", ([0], [1]), weight="w")

    @pytest.mark.parametrize("method", ["successors", "neighbors", "predecessors"])
    def test_one_vertex_of_the_graph_is_asked_for(self, method: str) -> None:
        pair = self.seeded()
        pair.refuse(InputError, method, 3, match="vertex 3")
        pair.refuse(InputError, method, -1, match="-1")
        pair.refuse(InputTypeError, method, 0.5)

    @every_frame
    def test_frames(self, make_frame: Any) -> None:
        pair = self.pair(weighted=True, directed=False)
        columns = {"w": [0.5, 2.0, 4.0], "to": [1, 2, 0], "from": [0, 1, 2]}
        rows = tuple(columns[name] for name in ("from", "to", "w"))
        names = ("from", "to")
        pair.graph.insert_edges(make_frame(columns), *names, weight="w")
        pair.model.insert_edges(rows)
        pair.check()
        held = pair.graph.core.backend.to_host(pair.graph.has_edges(make_frame(columns), *names))
        assert held.tolist() == [True, True, True]
        report = pair.graph.delete_edges(make_frame({"from": [1, 5], "to": [0, 5]}), *names)
        assert (report.deleted, report.absent) == (1, 1)
        pair.model.delete_edges(([1, 5], [0, 5]))
        pair.check()

    @every_frame
    def test_frames_with_nulls_or_without_the_column_are_refused(self, make_frame: Any) -> None:
        if make_frame is FRAMES["pandas-frame"] or make_frame is FRAMES["pandas-reversed"]:
            nulls: tuple[type[Exception], str] = (InputTypeError, "float64")  # pandas makes floats of ints with a null
        else:
            nulls = (InputError, "null")
        pair = self.seeded(weighted=True)
        columns: dict[str, list[Any]] = {"source": [0, 1, None], "destination": [1, 2, 3]}
        pair.refuse(nulls[0], "insert_edges", make_frame(columns), match=nulls[1])
        pair.refuse(
            InputError,
            "insert_edges",
            make_frame({"sources": [0], "dst": [1]}),
            match="columns not found: source, destination; the frame has sources, dst. Did you mean 'sources'",
        )

    @pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "uint64"])
    def test_integer_arrays_of_any_width_and_layout(self, dtype: str) -> None:
        pair = self.pair()
        table = np.array([[0, 5], [9, 9], [3, 250], [9, 9], [5, 1]], dtype=dtype)[::2]
        table.setflags(write=False)
        pair.insert(table[:, 0], table[:, 1])
        pair.insert(table[::-1, 1], table[:, 0])
        pair.check_queries()

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    def test_the_callers_arrays_stay_the_callers(self, dtype: str) -> None:
        pair = self.pair(weighted=True, vertex_dtype=dtype)
        src, dst = np.array([5, 3, 3], dtype=dtype), np.array([1, 2, 0], dtype=dtype)
        weights = np.array([1, 2, 3], dtype=np.float32)
        pair.insert(src, dst, weights)
        assert (src.tolist(), dst.tolist(), weights.tolist()) == ([5, 3, 3], [1, 2, 0], [1, 2, 3])
        src[:], dst[:], weights[:] = 0, 0, 9
        pair.check()

    def test_ids_to_the_very_limit_are_taken_where_they_only_are_asked_for(self) -> None:
        pair = self.seeded()
        table = [2**31 - 2, 0], [0, 2**31 - 2]
        assert pair.graph.core.backend.to_host(pair.graph.has_edges(table)).tolist() == [False, False]
        assert np.isnan(pair.graph.core.backend.to_host(pair.graph.edge_weights(table))).all()
        assert pair.delete(*table).absent == 2
        assert pair.graph.number_of_vertices() == 3

    def test_the_default_limit_of_vertices(self) -> None:
        pair = self.seeded()
        if self.renumbered:
            pair.insert([0, 1 << 24], [1, 1])
            return
        pair.refuse(LimitError, "insert_edges", ([0, 1 << 24], [1, 1]), match="max_vertices is 16777216")

    def test_a_capacity_past_the_limit_is_refused_before_memory_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = self.pair().graph.core.backend
        empty, asked = backend.empty, []

        def watched(shape: Any, dtype: Any) -> Any:
            asked.append(int(np.prod(shape)))
            return empty(0 if asked[-1] > 1 << 24 else shape, dtype)

        monkeypatch.setattr(backend, "empty", watched)
        with contextlib.suppress(LimitError):  # a store without reserved memory may accept any number
            DynamicGraph(store=self.store, device=self.device, capacity=1 << 31, **self.options)
        assert max(asked, default=0) < 1 << 24

    def test_unknown_names_are_refused_with_the_known_ones(self) -> None:
        for options, match in (
            ({"bogus": 1}, "bogus"),
            ({"device": "gpu"}, "unknown device 'gpu'; known: 'auto', 'cpu', 'cuda'. Did you mean 'cuda'?"),
            ({"vertex_dtype": "uint32"}, "int32"),
            ({"weight_dtype": "float16"}, "float32"),
            ({"max_vertices": -1}, "max_vertices"),
            ({"capacity": 1.5}, "capacity"),
            ({"directed": "yes"}, "directed"),
        ):
            with pytest.raises(InputError, match=match):
                self.pair(**options) if "device" not in options else DynamicGraph(store=self.store, **options)
        known = re.escape(", ".join(map(repr, sorted([*STORES, AUTO]))))
        with pytest.raises(InputError, match=f"unknown store 'nobody'; known: {known}"):
            DynamicGraph(store="nobody", device=self.device)
