"""Columns of ids of every kind: what is read as strings, what as integers, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.graph import DynamicGraph
from dynstore.ids.columns import StringKeys, read_keys
from dynstore.testing.pair import ID_KINDS

TEXTS = ["ab", "c", "ab", "", "ä"]


def _string_columns() -> dict[str, Callable[[], Any]]:
    def arrow(make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: make(pytest.importorskip("pyarrow"))

    def polars(make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: make(pytest.importorskip("polars"))

    return {
        "list": lambda: TEXTS,
        "tuple": lambda: tuple(TEXTS),
        "numpy-fixed": lambda: np.array(TEXTS),
        "numpy-object": lambda: np.array(TEXTS, dtype=object),
        "numpy-variable": lambda: np.array(TEXTS, dtype=np.dtypes.StringDType()),
        "pandas": lambda: pd.Series(TEXTS),
        "pandas-object": lambda: pd.Series(TEXTS, dtype=object),
        "pandas-nullable": lambda: pd.Series(TEXTS, dtype="string"),
        "pandas-index": lambda: pd.Index(TEXTS),
        "pandas-category": lambda: pd.Series(TEXTS, dtype="category"),
        "pandas-category-reversed": lambda: pd.Series(TEXTS[::-1], dtype="category")[::-1],
        "pandas-categorical": lambda: pd.Categorical(TEXTS, categories=["z", "ä", "c", "", "ab", "y"]),
        "arrow": arrow(lambda pa: pa.array(TEXTS)),
        "arrow-large": arrow(lambda pa: pa.array(TEXTS, pa.large_string())),
        "arrow-chunks": arrow(lambda pa: pa.chunked_array([TEXTS[:1], [], TEXTS[1:]])),
        "arrow-dictionary": arrow(lambda pa: pa.array(TEXTS).dictionary_encode()),
        "arrow-dictionary-chunks": arrow(
            lambda pa: pa.chunked_array([pa.array(part).dictionary_encode() for part in (TEXTS[:2], TEXTS[2:])])
        ),
        "polars": polars(lambda pl: pl.Series(TEXTS)),
        "polars-categorical": polars(lambda pl: pl.Series(TEXTS, dtype=pl.Categorical)),
        "polars-enum": polars(lambda pl: pl.Series(TEXTS, dtype=pl.Enum(["ab", "c", "", "ä", "unused"]))),
    }  # fmt: skip


@pytest.mark.parametrize("make", _string_columns().values(), ids=_string_columns().keys())
def test_columns_of_strings(make: Callable[[], Any]) -> None:
    keys = read_keys("test", get_backend("cpu"), "ids", make())
    assert isinstance(keys, StringKeys)
    assert keys.shape == (5,)
    assert keys.all().tolist() == TEXTS
    assert set(keys.values) == set(TEXTS), "a category that no row has is no vertex"


NUMBERS = [7, 2**62, 7, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: NUMBERS,
        lambda: np.array(NUMBERS),
        lambda: np.array(NUMBERS, dtype=np.uint64),
        lambda: np.array(NUMBERS, dtype=object),
        lambda: pd.Series(NUMBERS, dtype="category"),
        lambda: pd.Series(NUMBERS, dtype="Int64"),
        lambda: pytest.importorskip("pyarrow").array(NUMBERS).dictionary_encode(),
    ],
    ids=["list", "array", "unsigned", "objects", "category", "nullable", "dictionary"],
)
def test_columns_of_integers(make: Callable[[], Any], backend: Backend) -> None:
    keys = read_keys("test", backend, "ids", make())
    assert keys.dtype.kind in "iu"
    assert backend.to_host(keys).tolist() == NUMBERS


@pytest.mark.parametrize(
    ("column", "error", "match"),
    [
        (["a", None], InputError, "null at row 1"),
        (["a", float("nan")], InputError, "null at row 1"),
        (["a", 1], InputTypeError, "1 .int. at row 1"),
        ([1, "a"], InputTypeError, "'a' .str. at row 1 among integers"),
        (np.array(["a", 1], dtype=object), InputTypeError, "1 .int. at row 1"),
        (pd.Series(["a", None]), InputError, "null at row 1"),
        (pd.Series(["a", None, "b"], dtype="category"), InputError, "null at row 1"),
        (pd.Series([5, None, 6], dtype="Int64").astype("category"), InputError, "null at row 1"),
        (pd.Series([0.5], dtype="category"), InputTypeError, "float64"),
        (np.array([b"a"]), InputTypeError, "ids"),
        ([["a"]], InputError, "ids"),
        (np.array([["a"]]), InputError, "ids"),
        (0.5, InputTypeError, "0.5"),
        (True, InputTypeError, "True"),
        (-1, InputError, "-1"),
        ([2**63 - 1], LimitError, str(2**63 - 1)),
        (pd.Series(["2020-01-01"], dtype="datetime64[ns]"), InputTypeError, "datetime64"),
    ],
)
def test_columns_that_are_refused(column: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        DynamicGraph(renumber=True, device="cpu").insert_vertices(column)


def test_arrow_strings_with_nulls_are_refused() -> None:
    import pyarrow as pa

    for column in (pa.array(["a", None]), pa.array(["a", None]).dictionary_encode(), pa.chunked_array([["a"], [None]])):
        with pytest.raises(InputError, match="null at row 1"):
            read_keys("test", get_backend("cpu"), "ids", column)


def test_empty_columns_of_any_kind_suit_any_graph() -> None:
    for kind in ("sparse", "strings"):
        graph = DynamicGraph(renumber=True, device="cpu")
        graph.insert_edges(([], []))
        graph.insert_edges(([ID_KINDS[kind](1)], [ID_KINDS[kind](2)]))
        for nothing in ([], np.empty(0, np.int64), pd.Series([], dtype="str"), pd.Series([], dtype="category")):
            assert graph.insert_edges((nothing, nothing)).inserted == 0
            assert graph.has_edges((nothing, nothing)).shape == (0,)
            graph.insert_vertices(nothing)
        assert graph.number_of_vertices() == 2
