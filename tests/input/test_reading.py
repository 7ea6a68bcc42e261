"""The table of types: each kind of column, of each library, in each role, through each door, is taken or refused."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dynstore import DynamicGraph, Stream
from dynstore.errors import InputError
from dynstore.input.kinds import READING, ROLES, Role, is_taken, kind_of
from tests.conftest import DEVICES

NS = 1_000_000_000
DAY = 86_400 * NS
UUIDS = [uuid.UUID(int=7), uuid.UUID(int=2**100), uuid.UUID(int=7)]
DATES = [datetime.date(1970, 1, 3), datetime.date(1970, 1, 2), datetime.date(1970, 1, 3)]
TIMES = [datetime.datetime(1970, 1, 1, 0, 0, 2), datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 0, 0, 2)]
MONEY = [decimal.Decimal("1.25"), decimal.Decimal("3.00"), decimal.Decimal("1.25")]
WHOLE = [decimal.Decimal(4), decimal.Decimal(2), decimal.Decimal(4)]


class Case(NamedTuple):
    """A column of three rows, the first and the last equal.

    Attributes
    ----------
    kind : str
        A key of READING.
    make : callable
        Returns the column.
    values : dict
        Role -> the values that are read, where the role takes the kind.
    """

    kind: str
    make: Callable[[], Any]
    values: dict[Role, list[Any]]


def same(*values: Any) -> dict[Role, list[Any]]:
    return {role: list(values) for role in ROLES}


def polars() -> Any:
    return pytest.importorskip("polars")


def cudf() -> Any:
    """The library, where there is a GPU for it."""
    if "cuda" not in DEVICES:
        pytest.skip("cuDF needs a GPU: DYNSTORE_TEST_DEVICES=cuda")
    return pytest.importorskip("cudf")


def pandas_of(kind: Any) -> Callable[[list[Any]], Any]:
    return lambda values: pd.Series(values, dtype=pd.ArrowDtype(kind))


NUMBERS = same(4, 2, 4)
FLOATS: dict[Role, list[Any]] = {"weight": [1.5, 0.5, 1.5], "column": [1.5, 0.5, 1.5]}
DECIMALS: dict[Role, list[Any]] = {"weight": [1.25, 3.0, 1.25], "column": [1.25, 3.0, 1.25]}
BITS: dict[Role, list[Any]] = {"column": [1, 0, 1]}
TEXTS: dict[Role, list[Any]] = {"id": ["b", "a", "b"]}
ISO: dict[Role, list[Any]] = {"id": ["1970-01-03", "1970-01-02", "1970-01-03"], "time": [2 * DAY, DAY, 2 * DAY]}
DAYS: dict[Role, list[Any]] = {"time": [2 * DAY, DAY, 2 * DAY]}
MOMENTS: dict[Role, list[Any]] = {"time": [2 * NS, 0, 2 * NS]}
NAMES: dict[Role, list[Any]] = {"id": [str(each) for each in UUIDS]}
NONE: dict[Role, list[Any]] = {}
STRINGS = ["b", "a", "b"]
UNUSED = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int32()), pa.array(["a", None, "b", "unused"]))
CASES: dict[str, Case] = {
    # NumPy and Python
    "array of int16": Case("integers", lambda: np.array([4, 2, 4], np.int16), NUMBERS),
    "array of uint64": Case("integers", lambda: np.array([4, 2, 4], np.uint64), NUMBERS),
    "list": Case("integers", lambda: [4, 2, 4], NUMBERS),
    "list of NumPy's": Case("integers", lambda: list(np.array([4, 2, 4], np.int8)), NUMBERS),
    "array of float32": Case("floats", lambda: np.array([1.5, 0.5, 1.5], np.float32), FLOATS),
    "array of float16": Case("floats", lambda: np.array([1.5, 0.5, 1.5], np.float16), FLOATS),
    "list of floats": Case("floats", lambda: [1.5, 0.5, 1.5], FLOATS),
    "list of both": Case("floats", lambda: [1, 0.5, 1], {"weight": [1, 0.5, 1], "column": [1, 0.5, 1]}),
    "list of decimals": Case("decimals", lambda: MONEY, DECIMALS),
    "list of whole decimals": Case("decimals", lambda: WHOLE, NUMBERS),
    "array of bool": Case("booleans", lambda: np.array([True, False, True]), BITS),
    "list of bools": Case("booleans", lambda: [True, False, True], BITS),
    "array of U": Case("strings", lambda: np.array(STRINGS), TEXTS),
    "array of objects": Case("strings", lambda: np.array(STRINGS, object), TEXTS),
    "list of strings": Case("strings", lambda: STRINGS, TEXTS),
    "list of ISO dates": Case("strings", lambda: ISO["id"], ISO),
    "list of UUIDs": Case("UUIDs", lambda: UUIDS, NAMES),
    "list of dates": Case("dates", lambda: DATES, DAYS),
    "list of datetimes": Case("date-times", lambda: TIMES, MOMENTS),
    "array of datetime64[s]": Case("date-times", lambda: np.array([2, 0, 2], "M8[s]"), MOMENTS),
    "array of timedelta64": Case("lengths of time", lambda: np.array([2, 0, 2], "m8[s]"), NONE),
    "list of times of day": Case("times of day", lambda: [datetime.time(1), datetime.time(2), datetime.time(1)], NONE),
    "array of bytes": Case("bytes", lambda: np.array([b"b", b"a", b"b"]), NONE),
    "list of bytes": Case("bytes", lambda: [b"b", b"a", b"b"], NONE),
    "array of complex": Case("complex numbers", lambda: np.array([1j, 0, 1j]), NONE),
    "list of lists": Case("nested values", lambda: [[1], [2], [1]], NONE),
    "list of nulls": Case("nulls", lambda: [None, None, None], NONE),
    "list of others": Case("other objects", lambda: [slice(1), slice(2), slice(1)], NONE),
    # pandas
    "pandas int64": Case("integers", lambda: pd.Series([4, 2, 4]), NUMBERS),
    "pandas Int32": Case("integers", lambda: pd.Series([4, 2, 4], dtype="Int32"), NUMBERS),
    "pandas sparse": Case("integers", lambda: pd.Series(pd.arrays.SparseArray([4, 2, 4])), NUMBERS),
    "pandas index": Case("integers", lambda: pd.Index([4, 2, 4]), NUMBERS),
    "pandas Float64": Case("floats", lambda: pd.Series([1.5, 0.5, 1.5], dtype="Float64"), FLOATS),
    "pandas objects that are decimals": Case("decimals", lambda: pd.Series(MONEY, dtype=object), DECIMALS),
    "pandas decimals": Case("decimals", lambda: pandas_of(pa.decimal128(9, 2))(MONEY), DECIMALS),
    "pandas boolean": Case("booleans", lambda: pd.Series([True, False, True], dtype="boolean"), BITS),
    "pandas str": Case("strings", lambda: pd.Series(STRINGS), TEXTS),
    "pandas objects that are strings": Case("strings", lambda: pd.Series(STRINGS, dtype=object), TEXTS),
    "pandas string[pyarrow]": Case("strings", lambda: pandas_of(pa.string_view())(STRINGS), TEXTS),
    "pandas category": Case("categories", lambda: pd.Series(STRINGS, dtype="category"), TEXTS),
    "pandas category with more": Case(
        "categories", lambda: pd.Series(pd.Categorical(STRINGS, ["unused", "a", "b", "none"])), TEXTS
    ),
    "pandas category of integers": Case("categories", lambda: pd.Series([4, 2, 4], dtype="category"), NUMBERS),
    "pandas category of floats": Case("categories", lambda: pd.Series([1.5, 0.5, 1.5], dtype="category"), FLOATS),
    "pandas category of dates": Case("categories", lambda: pd.Series(TIMES, dtype="category"), MOMENTS),
    "pandas datetime64": Case("date-times", lambda: pd.Series(TIMES), MOMENTS),
    "pandas datetime64 with a zone": Case(
        "date-times", lambda: pd.Series(TIMES).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"), MOMENTS
    ),
    "pandas timedelta": Case("lengths of time", lambda: pd.Series(pd.to_timedelta([2, 0, 2], "s")), NONE),
    "pandas period": Case("other objects", lambda: pd.Series(pd.period_range("2026", periods=3, freq="D")), NONE),
    "pandas interval": Case("other objects", lambda: pd.Series(pd.interval_range(0, 3)), NONE),
    # Arrow
    "arrow uint8": Case("integers", lambda: pa.array([4, 2, 4], pa.uint8()), NUMBERS),
    "arrow chunks": Case("integers", lambda: pa.chunked_array([[4], [2, 4]]), NUMBERS),
    "arrow double": Case("floats", lambda: pa.array([1.5, 0.5, 1.5]), FLOATS),
    "arrow decimal128": Case("decimals", lambda: pa.array(MONEY, pa.decimal128(38, 4)), DECIMALS),
    "arrow decimal256": Case("decimals", lambda: pa.array(MONEY, pa.decimal256(50, 2)), DECIMALS),
    "arrow whole decimals": Case("decimals", lambda: pa.array(WHOLE, pa.decimal128(38, 2)), NUMBERS),
    "arrow bool": Case("booleans", lambda: pa.array([True, False, True]), BITS),
    "arrow string": Case("strings", lambda: pa.array(STRINGS), TEXTS),
    "arrow large_string": Case("strings", lambda: pa.array(STRINGS, pa.large_string()), TEXTS),
    "arrow string_view": Case("strings", lambda: pa.array(STRINGS, pa.string_view()), TEXTS),
    "arrow ISO dates": Case("strings", lambda: pa.array(ISO["id"]), ISO),
    "arrow dictionary": Case("categories", lambda: pa.array(STRINGS).dictionary_encode(), TEXTS),
    "arrow dictionary with unused nulls": Case("categories", lambda: UNUSED, TEXTS),
    "arrow dictionary of unsigned codes": Case(
        "categories", lambda: pa.array(STRINGS).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string())), TEXTS
    ),
    "arrow dictionary of integers": Case("categories", lambda: pa.array([4, 2, 4]).dictionary_encode(), NUMBERS),
    "arrow dictionaries that differ": Case(
        "categories",
        lambda: pa.chunked_array([pa.array(["b"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()]),
        TEXTS,
    ),
    "arrow dictionaries that differ, with unused nulls": Case(
        "categories", lambda: pa.chunked_array([UNUSED[:2], pa.array(["b"]).dictionary_encode()]), TEXTS
    ),
    "arrow run ends": Case("run ends", lambda: pc.run_end_encode(pa.array([4, 2, 4])), NUMBERS),
    "arrow run ends of strings": Case("run ends", lambda: pc.run_end_encode(pa.array(STRINGS)), TEXTS),
    **(
        {"arrow UUID": Case("UUIDs", lambda: pa.array([each.bytes for each in UUIDS], pa.uuid()), NAMES)}
        if hasattr(pa, "uuid")  # from pyarrow 18 on
        else {}
    ),
    "arrow date32": Case("dates", lambda: pa.array(DATES), DAYS),
    "arrow date64": Case("dates", lambda: pa.array(DATES, pa.date64()), DAYS),
    "arrow timestamp[s]": Case("date-times", lambda: pa.array(TIMES, pa.timestamp("s")), MOMENTS),
    "arrow timestamp with a zone": Case(
        "date-times", lambda: pa.array(TIMES, pa.timestamp("us", "Europe/Rome")), MOMENTS
    ),
    "arrow time": Case("times of day", lambda: pa.array([1, 2, 1], pa.time32("s")), NONE),
    "arrow duration": Case("lengths of time", lambda: pa.array([1, 2, 1], pa.duration("s")), NONE),
    "arrow binary": Case("bytes", lambda: pa.array([b"b", b"a", b"b"]), NONE),
    "arrow list": Case("nested values", lambda: pa.array([[1], [2], [1]]), NONE),
    "arrow struct": Case("nested values", lambda: pa.array([{"x": 1}, {"x": 2}, {"x": 1}]), NONE),
    "arrow null": Case("nulls", lambda: pa.nulls(3), NONE),
    # polars
    "polars Int8": Case("integers", lambda: polars().Series([4, 2, 4], dtype=polars().Int8), NUMBERS),
    "polars UInt64": Case("integers", lambda: polars().Series([4, 2, 4], dtype=polars().UInt64), NUMBERS),
    "polars Float32": Case("floats", lambda: polars().Series([1.5, 0.5, 1.5], dtype=polars().Float32), FLOATS),
    "polars Decimal": Case("decimals", lambda: polars().Series(MONEY, dtype=polars().Decimal(20, 2)), DECIMALS),
    "polars Boolean": Case("booleans", lambda: polars().Series([True, False, True]), BITS),
    "polars String": Case("strings", lambda: polars().Series(STRINGS), TEXTS),
    "polars Categorical": Case("categories", lambda: polars().Series(STRINGS, dtype=polars().Categorical), TEXTS),
    "polars Enum": Case("categories", lambda: polars().Series(STRINGS, dtype=polars().Enum(["c", "a", "b"])), TEXTS),
    "polars Date": Case("dates", lambda: polars().Series(DATES), DAYS),
    "polars Datetime": Case("date-times", lambda: polars().Series(TIMES, dtype=polars().Datetime("ms")), MOMENTS),
    "polars Time": Case("times of day", lambda: polars().Series([datetime.time(1)] * 3), NONE),
    "polars Duration": Case("lengths of time", lambda: polars().Series([datetime.timedelta(1)] * 3), NONE),
    "polars Binary": Case("bytes", lambda: polars().Series([b"b", b"a", b"b"]), NONE),
    "polars List": Case("nested values", lambda: polars().Series([[1], [2], [1]]), NONE),
    "polars Struct": Case("nested values", lambda: polars().Series([{"x": 1}, {"x": 2}, {"x": 1}]), NONE),
    "polars Null": Case("nulls", lambda: polars().Series([None, None, None]), NONE),
    # cuDF
    "cuDF int8": Case("integers", lambda: cudf().Series([4, 2, 4], dtype="int8"), NUMBERS),
    "cuDF uint64": Case("integers", lambda: cudf().Series([4, 2, 4], dtype="uint64"), NUMBERS),
    "cuDF float32": Case("floats", lambda: cudf().Series([1.5, 0.5, 1.5], dtype="float32"), FLOATS),
    "cuDF Decimal64": Case("decimals", lambda: cudf().Series(MONEY), DECIMALS),
    "cuDF bool": Case("booleans", lambda: cudf().Series([True, False, True]), BITS),
    "cuDF str": Case("strings", lambda: cudf().Series(STRINGS), TEXTS),
    "cuDF category": Case("categories", lambda: cudf().Series(STRINGS, dtype="category"), TEXTS),
    "cuDF category of integers": Case("categories", lambda: cudf().Series([4, 2, 4], dtype="category"), NUMBERS),
    "cuDF datetime64": Case("date-times", lambda: cudf().Series(np.array([2, 0, 2], "M8[s]")), MOMENTS),
    "cuDF timedelta64": Case("lengths of time", lambda: cudf().Series(np.array([2, 0, 2], "m8[s]")), NONE),
    "cuDF list": Case("nested values", lambda: cudf().Series([[1], [2], [1]]), NONE),
    "cuDF interval": Case("nested values", lambda: cudf().Series(cudf().interval_range(0, 3, periods=3)), NONE),
    "cuDF struct": Case("nested values", lambda: cudf().Series([{"x": 1}, {"x": 2}, {"x": 1}]), NONE),
}
OTHERS = np.arange(10, 13)  # the other end of each edge
OPTIONS: dict[Role, dict[str, Any]] = {
    "id": {"renumber": True},
    "weight": {"weighted": True, "weight_dtype": "float64"},
    "time": {"timestamps": "int64"},
    "column": {"edge_columns": {"x": "float64"}},
}
NAMED: dict[Role, str] = {"id": "source", "weight": "weight", "time": "time", "column": "x"}


def read_through(door: str, column: Any, role: Role, device: str, texts: bool) -> list[Any]:
    """Insert three edges, and return what the graph has of the column."""
    G = DynamicGraph(device=device, frames="pandas", **OPTIONS[role])
    others = np.array(["x", "y", "z"], object) if texts else OTHERS
    columns = {"source": others, "destination": others, NAMED[role]: column}
    if door == "tuple":
        G.insert_edges(tuple(columns.values()))
    else:
        Stream(G, [columns]).run()
    table = G.to_pandas().sort_values("destination")
    found: list[Any] = table[NAMED[role]].tolist()
    return found


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "cuda-sim"])
@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_column_in_each_role(name: str, device: str) -> None:
    case = CASES[name]
    for role in ROLES:
        wanted, words = case.values.get(role), READING[case.kind][ROLES.index(role)].words
        for door in ("tuple", "stream"):
            if wanted is not None:
                texts = role == "id" and isinstance(wanted[0], str)
                assert read_through(door, case.make(), role, device, texts) == wanted, (role, door)
                continue
            with pytest.raises(InputError) as caught:
                read_through(door, case.make(), role, device, False)
            said = str(caught.value)
            # What is taken in general is refused for the values of this column, in the words for those.
            assert words in said or is_taken(case.kind, role), said
            assert f"`{NAMED[role]}`" in said or "`src`" in said or "`weights`" in said, said


def test_every_kind_has_a_case_that_is_what_it_says() -> None:
    assert {case.kind for case in CASES.values()} == set(READING)
    for name, case in CASES.items():
        if not name.startswith(("polars", "cuDF")):
            assert kind_of(case.make()) in (case.kind, "objects"), name
