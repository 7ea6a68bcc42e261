"""The same rows as frames and columns of every library, and of every type that holds them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tests.random_input.truth import ROLES, Draw, Truth, pick

try:
    import polars as pl
except ImportError:
    pl = None

__all__ = ["draw_arrow", "draw_frame"]

Maker = Callable[[Draw, list[Any]], Any]


def _unused(rng: Draw, values: list[Any]) -> list[Any]:
    """Return the values that occur, among others, in any order."""
    known = [each for each in dict.fromkeys(values) if each is not None]
    more: list[Any] = ["not used", "nor this"] if any(isinstance(each, str) for each in known) else []
    return [(*known, *more)[place] for place in rng.permutation(len(known) + len(more))]


def _dictionary(rng: Draw, values: list[Any]) -> Any:
    """Return an Arrow dictionary with values, and a null, that no row has."""
    known = [*_unused(rng, values), None]
    codes = [None if each is None else known.index(each) for each in values]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pick(rng, [pa.int8(), pa.int32(), pa.uint16()])), pa.array(known)
    )


def _in_chunks(rng: Draw, array: Any) -> Any:
    cut = int(rng.integers(len(array) + 1))
    return pa.chunked_array([array[:cut], array[cut:]], array.type)


def _part(_: Draw, array: Any) -> Any:
    """Return an array that is a part of a longer one."""
    return pa.concat_arrays([array[:1], array, array[:1]])[1 : len(array) + 1]


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _of_integers(rng: Draw, values: list[Any]) -> np.ndarray:
    kinds = [kind for kind in INTEGERS if np.iinfo(kind).min <= min(values) and max(values) <= np.iinfo(kind).max]
    array = np.array(values, pick(rng, kinds))
    if array.tolist() != values:
        raise ValueError("not whole")
    return array


def _decimals(values: list[Any]) -> list[Any]:
    return [None if each is None else Decimal(str(each)) for each in values]


NUMBERS: dict[str, Maker] = {
    "array": lambda rng, values: np.array(values),
    "narrow array": _of_integers,
    "array backwards": lambda rng, values: np.array(values[::-1])[::-1],
    "array of objects": lambda rng, values: np.array(values, object),
    "list": lambda rng, values: list(values),
    "list of NumPy's": lambda rng, values: [np.int64(each) if isinstance(each, int) else each for each in values],
    "decimals": lambda rng, values: _decimals(values),
    "pandas nullable": lambda rng, values: pd.Series(values, dtype=object).convert_dtypes(),
    "pandas Arrow": lambda rng, values: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values))),
    "pandas category": lambda rng, values: pd.Series(pd.Categorical(values)),
    "pandas objects": lambda rng, values: pd.Series(values, dtype=object),
    "pandas index": lambda rng, values: pd.Series(values, index=[7] * len(values)),
    "arrow": lambda rng, values: pa.array(values),
    "arrow part": lambda rng, values: _part(rng, pa.array(values)),
    "arrow chunks": lambda rng, values: _in_chunks(rng, pa.array(values)),
    "arrow narrow": lambda rng, values: pa.array(_of_integers(rng, values)),
    "arrow decimals": lambda rng, values: pa.array(_decimals(values), pa.decimal128(30, 6)),
    "arrow dictionary": _dictionary,
    "arrow run ends": lambda rng, values: pc.run_end_encode(pa.array(values)),
    "polars": lambda rng, values: pl.Series(values, strict=True),
    "polars decimals": lambda rng, values: pl.Series(_decimals(values), dtype=pl.Decimal(30, 6)),
}
WORDS: dict[str, Maker] = {
    "list": lambda rng, values: list(values),
    "array": lambda rng, values: np.array(values) if None not in values else np.array(values, object),
    "array of objects": lambda rng, values: np.array(values, object),
    "NumPy's strings": lambda rng, values: np.array(values, np.dtypes.StringDType(na_object=None)),
    "pandas": lambda rng, values: pd.Series(values),
    "pandas objects": lambda rng, values: pd.Series(values, dtype=object),
    "pandas string": lambda rng, values: pd.Series(values, dtype="string"),
    "pandas views": lambda rng, values: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, pa.string_view()))),
    "pandas category": lambda rng, values: pd.Series(pd.Categorical(values, _unused(rng, values))),
    "arrow": lambda rng, values: pa.array(values, pick(rng, [pa.string(), pa.large_string(), pa.string_view()])),
    "arrow part": lambda rng, values: _part(rng, pa.array(values, pa.string())),
    "arrow chunks": lambda rng, values: _in_chunks(rng, pa.array(values, pa.string())),
    "arrow dictionary": _dictionary,
    "arrow dictionaries": lambda rng, values: pa.chunked_array(
        [_dictionary(rng, values[:1]), _dictionary(rng, values[1:])]
    ),
    "arrow run ends": lambda rng, values: pc.run_end_encode(pa.array(values, pa.string())),
    "polars": lambda rng, values: pl.Series(values, dtype=pl.String),
    "polars categories": lambda rng, values: pl.Series(values, dtype=pl.Categorical),
    "polars enum": lambda rng, values: pl.Series(values, dtype=pl.Enum(_unused(rng, values))),
}


def _iso(rng: Draw, values: list[Any]) -> list[Any]:
    """Return date-times as ISO texts, in one zone or in several."""
    zones = [datetime.timezone(datetime.timedelta(hours=int(hours))) for hours in rng.integers(-11, 12, 3)]
    between = pick(rng, ["T", " "])
    return [
        each.astimezone(pick(rng, zones)).isoformat(between) if isinstance(each, datetime.datetime) else each
        for each in values
    ]


ZONES = (None, "UTC", "Asia/Tokyo")
MOMENTS: dict[str, Maker] = {
    "list": lambda rng, values: list(values),
    "ISO texts": _iso,
    "array": lambda rng, values: np.array([each and each.replace(tzinfo=None) for each in values], "M8[us]"),
    "pandas": lambda rng, values: pd.to_datetime(pd.Series(values, dtype=object), utc=True).dt.as_unit(
        pick(rng, ["us", "ns"])
    ),
    "pandas elsewhere": lambda rng, values: pd.to_datetime(pd.Series(values, dtype=object), utc=True).dt.tz_convert(
        "Asia/Tokyo"
    ),
    "arrow": lambda rng, values: pa.array(values, pa.timestamp(pick(rng, ["us", "ns"]), pick(rng, ZONES))),
    "arrow ISO texts": lambda rng, values: pa.array(_iso(rng, values), pa.string()),
    "arrow dictionary": _dictionary,
    "polars": lambda rng, values: pl.Series(values, dtype=pl.Datetime("us", "UTC")),
}


def _draw_column(rng: Draw, truth: Truth, name: str) -> tuple[str, Any]:
    """Return a column, and how it was made. What a library cannot hold, a list can."""
    values = truth.columns[name]
    makers = NUMBERS
    if truth.texts and ROLES[name] == "id":
        makers = WORDS
    elif truth.dates and name == "time":
        makers = MOMENTS
    how: str = pick(rng, [each for each in makers if pl is not None or not each.startswith("polars")])
    try:
        return how, makers[how](rng, values)
    except Exception:  # libraries refuse in many ways
        return f"list (not {how})", list(values)


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": lambda columns: pd.DataFrame({name: _for_pandas(column) for name, column in columns.items()}),
    "arrow": lambda columns: pa.table({name: _for_arrow(column) for name, column in columns.items()}),
    "polars": lambda columns: pl.DataFrame(columns),
}


def _for_arrow(column: Any) -> Any:
    """Arrow does not take NumPy's own strings."""
    return column.tolist() if isinstance(column, np.ndarray) and column.dtype.kind == "T" else column


def _for_pandas(column: Any) -> Any:
    if isinstance(column, pd.Series):
        return column.array
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return pd.arrays.ArrowExtensionArray(column)
    if type(column).__module__.startswith("polars"):
        return column.to_pandas()
    return column


def draw_frame(rng: Draw, truth: Truth) -> tuple[str, Callable[[Any], None]]:
    """Return how rows are held, and a function that inserts them into a graph."""
    made = {name: _draw_column(rng, truth, name) for name in truth.columns}
    said = ", ".join(f"{name} {how}" for name, (how, _) in made.items())
    columns = {name: column for name, (_, column) in made.items()}
    weights = {"weight": "weight"} if "weight" in columns else {}
    times = {"time": "time"} if "time" in columns else {}
    way = pick(rng, ["tuple", *(each for each in FRAMES if pl is not None or each != "polars")])
    if way != "tuple":
        try:
            table = FRAMES[way](columns)
        except Exception:  # libraries refuse in many ways
            way = "tuple"
        else:
            return f"{way} with {said}", lambda G: G.insert_edges(table, **weights, **times)
    held = tuple(columns[name] for name in columns if name != "time")
    times = {"time": columns["time"]} if times else {}
    return f"tuple with {said}", lambda G: G.insert_edges(held, **times)


def draw_arrow(rng: Draw, truth: Truth) -> tuple[str, pa.Table]:
    """Return rows as an Arrow table, and how it was made."""
    made = {name: _draw_column(rng, truth, name) for name in truth.columns}
    said = ", ".join(f"{name} {how}" for name, (how, _) in made.items())
    return said, FRAMES["arrow"]({name: column for name, (_, column) in made.items()})
