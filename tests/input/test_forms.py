"""The forms of a batch: pairs, triples, columns, and frames whose columns have to be found."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dynstore
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.input.forms import FRAMES, find_weight, open_edges


def graph(**options: Any) -> dynstore.DynamicGraph:
    return dynstore.DynamicGraph(device="cpu", **options)


def edges_of(G: dynstore.DynamicGraph) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.tolist() for column in G.edge_columns().values()), strict=True))


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 5), (1, 6), (2, 7)],
        ((0, 5), (1, 6), (2, 7)),
        ([0, 1, 2], [5, 6, 7]),
        (np.array([0, 1, 2]), [5, 6, 7]),
        (pd.Series([0, 1, 2]), pa.array([5, 6, 7])),
    ],
)
def test_rows_and_columns_of_pairs_are_the_same_edges(edges: Any) -> None:
    G = graph()
    assert G.insert_edges(edges).inserted == 3
    assert edges_of(G) == [(0, 5), (1, 6), (2, 7)]
    assert G.has_edges(edges).all()
    assert G.delete_edges(edges).deleted == 3


@pytest.mark.parametrize("edges", [[(0, 5, 0.5), (1, 6, 2)], ((0, 5, 0.5), (1, 6, 2)), ([0, 1], [5, 6], [0.5, 2])])
def test_triples_have_weights(edges: Any) -> None:
    G = graph(weighted=True)
    G.insert_edges(edges)
    assert edges_of(G) == [(0, 5, 0.5), (1, 6, 2.0)]
    assert G.delete_edges(edges).deleted == 2
    assert dynstore.DynamicGraph.from_edges(edges, device="cpu").is_weighted()


def test_pairs_of_names_and_an_empty_list() -> None:
    G = graph(renumber=True)
    G.insert_edges([("ann", "bob"), ("bob", "cid")])
    assert edges_of(G) == [("ann", "bob"), ("bob", "cid")]
    assert G.insert_edges([]).inserted == 0
    assert graph(weighted=True).insert_edges([]).inserted == 0


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        (((0, 5), (1, 6)), InputError, r"2 tuples of 2 items could be rows or columns; write a list for rows"),
        (((0, 5, 1), (1, 6, 1), (2, 2, 2)), InputError, r"3 tuples of 3 items could be rows or columns"),
        ([[0, 5], [1, 6]], InputTypeError, r"list of lists; write \[\(0, 1\), \(2, 3\)\] for pairs, \(\[0, 2\]"),
        ([(0, 5), (1, 6, 2)], InputTypeError, "edges has 3 items at row 1; wanted all pairs"),
        ([(0, 5), 7], InputTypeError, "edges has a int at row 1"),
        ([(0, 1, 2, 3)], InputTypeError, "edges has 4 items at row 0"),
        (((0, 1, 2, 3), (4, 5, 6, 7)), InputTypeError, r"4 items at row 0.*Columns are arrays or lists"),
        ([0, 1], InputTypeError, r"edges is a list; wanted a pandas.*or a list of tuples.*\(\[0, 1\], \[1, 2\]\)"),
        (np.zeros((2, 2), int), InputTypeError, r"Columns of an array are \(a\[:, 0\], a\[:, 1\]\)"),
        ((0, 1), InputError, r"`src` has 0 dimensions; wanted one. One edge is a list of one pair"),
    ],
)
def test_rows_that_can_be_misread_are_refused(edges: Any, error: type, message: str) -> None:
    for weighted in (False, True):
        G = graph(weighted=weighted)
        with pytest.raises(error, match=message):
            G.insert_edges(edges)
        with pytest.raises(error, match=message):
            G.has_edges(edges)
        assert G.version == 0


def test_a_second_batch_is_not_taken_for_a_name() -> None:
    G = graph()
    for call in (G.insert_edges, G.delete_edges, G.has_edges):
        with pytest.raises(InputTypeError, match=r"source is \[\(1, 2\)\]; wanted the name of a column"):
            call([(0, 1)], [(1, 2)])  # type: ignore[operator]
    assert G.version == 0


def test_a_stream_that_can_be_read_once_is_opened_once() -> None:
    table = pa.table({"source": [0, 1], "destination": [1, 2]})
    opened = open_edges("test", table.to_reader())
    assert opened.num_rows == 2
    assert open_edges("test", opened) is opened


def test_the_column_of_weights() -> None:
    frame = pd.DataFrame({"source": [0], "destination": [1], "weight": [2.0], "w": [3.0]})
    assert find_weight(frame, ("source", "destination", None)) == "weight"
    assert find_weight(frame, ("source", "destination", "w")) == "w"
    assert find_weight(frame, ("weight", "destination", None)) is None
    assert find_weight(frame[["source", "destination"]], ("source", "destination", None)) is None
    assert find_weight(pa.Table.from_pandas(frame), ("source", "destination", None)) == "weight"
    assert find_weight(([0], [1]), ("source", "destination", None)) is None


def test_columns_with_other_names_are_guessed_in_the_message() -> None:
    frame = pd.DataFrame({"src": [0], "dst": [1]})
    with pytest.raises(InputError, match=r"the frame has src, dst\. Say source='src', destination='dst'$"):
        graph().insert_edges(frame)
    with pytest.raises(InputError, match=r"has payer, payee\. Name the columns: source=\.\.\., destination=\.\.\."):
        graph().insert_edges(frame.set_axis(["payer", "payee"], axis=1))
    with pytest.raises(InputError, match=r"the frame has 0, 1\. 0 is no string: name columns by strings"):
        graph().insert_edges(pd.DataFrame([[1, 2]]), source="0", destination="1")


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        ((["a"], ["b"]), InputTypeError, r"`src` has 'a' \(str\) at row 0.*renumber=True takes strings"),
        ((pd.Series(["a"]), [1]), InputTypeError, "renumber=True takes strings"),
        ((np.array(["a"]), [1]), InputTypeError, "renumber=True takes strings"),
        (([10**10], [1]), LimitError, "int32 ids go to 2147483646. A graph made with renumber=True takes any integers"),
        (([10**9], [1]), LimitError, "max_vertices is 16777216. Set it higher, or make the graph with renumber=True"),
        ((pd.Series([1, None]), [1, 2]), InputTypeError, "`src` is float64, and NaN at row 1, which is a null"),
        (([1.5], [1]), InputTypeError, r"`src` has 1.5 \(float\) at row 0; vertex ids must be integers"),
        ((np.array([1.5]), [1]), InputTypeError, "`src` is float64; vertex ids must be integers"),
        ((np.ma.array([1, 2], mask=[0, 1]), [3, 4]), InputError, "column `src` has a null at row 1"),
        (([1, 2], [3, 4], np.ma.array([1.0, 2.0], mask=[1, 0])), InputError, "column `weights` has a null at row 0"),
        ((pa.array([True]), pa.array([1])), InputTypeError, "`src` is bool"),
        (
            (pd.MultiIndex.from_tuples([(1, 2)]), [1]),
            InputTypeError,
            r"`src` has \(1, 2\) \(tuple\) at row 0; vertex ids must be integers",
        ),
        (([1, None], [1, 2]), InputError, "`src` has a null at row 1"),
        (([1], [2], ["3"]), InputTypeError, r"`weights` has '3' \(str\) at row 0; a weight must be a number$"),
    ],
)
def test_columns_that_cannot_be_read_say_why(edges: Any, error: type, message: str) -> None:
    G = graph(weighted=len(edges) == 3)
    with pytest.raises(error, match=message):
        G.insert_edges(edges)
    assert G.number_of_vertices() == 0


def test_series_of_polars() -> None:
    pl = _polars()
    G = graph()
    assert G.insert_edges((pl.Series([0, 1, 2]), [5, 6, 7])).inserted == 3
    if hasattr(pl, "Int128"):  # polars 1.18 and later
        with pytest.raises(InputTypeError, match="`src` cannot be read as an array"):
            G.insert_edges((pl.Series([1], dtype=pl.Int128), [2]))
    frame = pl.DataFrame({"source": [0], "destination": [1], "weight": [2.0]})
    assert find_weight(frame, ("source", "destination", None)) == "weight"


def test_vertices_are_one_column() -> None:
    with pytest.raises(InputTypeError, match=r"insert_vertices: `ids` is a pandas.*DataFrame; wanted one column"):
        graph().insert_vertices(pd.DataFrame({"a": [1]}))


def test_objects_that_are_numbers_are_read() -> None:
    G = graph(weighted=True)
    G.insert_edges(
        (pd.Series([1, 2], dtype=object), np.array([3, np.int64(4)], object), pd.Series([1, 0.5], dtype=object))
    )
    G.insert_edges((np.ma.array([5]), [6], [1]))
    assert edges_of(G) == [(1, 3, 1.0), (2, 4, 0.5), (5, 6, 1.0)]


def _polars() -> Any:
    return pytest.importorskip("polars")


STRINGS = {
    "string_view": lambda: pd.Series(["a"], dtype=pd.ArrowDtype(pa.string_view())),
    "large_string": lambda: pd.Series(["a"], dtype=pd.ArrowDtype(pa.large_string())),
    "dictionary": lambda: pd.Series(["a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    "unsigned dictionary": lambda: pa.array(["a"]).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string())),
    "arrow view": lambda: pa.array(["a"], pa.string_view()),
    "categorical": lambda: _polars().Series(["a"], dtype=_polars().Categorical).to_arrow(),
}


@pytest.mark.parametrize("make", STRINGS.values(), ids=STRINGS)
def test_strings_of_every_library_are_ids(make: Any) -> None:
    G = graph(renumber=True)
    G.insert_edges((make(), ["b"]))
    assert edges_of(G) == [("a", "b")]


def test_a_null_in_an_unsigned_dictionary_is_refused() -> None:
    column = pa.array(["a", None]).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string()))
    with pytest.raises(InputError, match="`src` has a null at row 1"):
        graph(renumber=True).insert_edges((column, ["b", "c"]))


def test_a_string_without_bytes_is_no_id() -> None:
    G = graph(renumber=True)
    with pytest.raises(InputError, match=r"insert_edges: 'caf\\udce9' cannot be an id: UTF-8"):
        G.insert_edges((["caf\udce9"], ["b"]))
    with pytest.raises(InputError, match="UTF-8"):
        G.vertex_numbers(["caf\udce9"])


def test_a_library_that_is_being_imported_has_no_frames_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be about it: then its module is there, and empty."""
    for module, _ in FRAMES:
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
    G = dynstore.DynamicGraph(device="cpu")
    assert G.insert_edges(([0, 1], [1, 2])).inserted == 2
