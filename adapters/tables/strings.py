"""Strings of cuDF as arrays of the device, and back: the one file that reads how cuDF keeps strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.errors import InputError
from dynstore.ids.columns import read_keys
from dynstore.ids.strings import CodedStrings, DeviceStrings

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.columns import Keys
    from dynstore.typing import Array

__all__ = ["make_column", "make_series", "read_strings"]

CALLER = "dynstore"
MAX_INT32 = int(np.iinfo(np.int32).max)


class _Memory:
    """Memory of the device as an array; ``owner`` keeps it."""

    def __init__(self, owner: Any, address: int, count: int, dtype: np.dtype) -> None:
        self._owner = owner
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": dtype.str, "data": (address, False), "version": 3, "strides": None,
        }  # fmt: skip


def read_strings(caller: str, backend: Backend, name: str, column: Any) -> Keys:
    """Read a cuDF column of strings, or of categories of any kind, without a copy.

    Raises
    ------
    InputError
        For a null, naming the column and the row.
    """
    cudf, kinds = require(caller, "cudf"), require(caller, "pylibcudf").TypeId
    held = (column if hasattr(column, "to_pylibcudf") else cudf.Series(column)).to_pylibcudf()[0]
    if not held.null_count() and held.type().id() == kinds.STRING:
        return _strings_of(backend, held, kinds) if held.size() else DeviceStrings.nothing(backend)
    series = cudf.Series(column)  # an index has neither of the following
    if held.null_count():
        row = int(series.isna().values.argmax())
        raise InputError(f"{caller}: `{name}` has a null at row {row}; wanted none")
    keys = read_keys(caller, backend, name, cudf.Series(series.cat.categories))
    codes = backend.asarray(series.cat.codes.values).astype(np.int64)
    return CodedStrings(keys, codes) if isinstance(keys, DeviceStrings) else keys[codes]


def _strings_of(backend: Backend, column: Any, kinds: Any) -> DeviceStrings:
    """Return a pylibcudf column of strings as arrays over its memory."""
    (offsets,) = column.children()
    dtype = np.dtype(np.int64 if offsets.type().id() == kinds.INT64 else np.int32)
    first, data = offsets.offset() + column.offset(), column.data()
    address = offsets.data().ptr + first * dtype.itemsize
    places = backend.asarray(_Memory(column, address, column.size() + 1, dtype))
    if data is None:  # all are empty
        return DeviceStrings.of_offsets(backend, places, backend.nothing(np.uint8))
    size = data.size if hasattr(data, "size") else data.nbytes  # spans have the one, gpumemoryview has the other
    return DeviceStrings.of_offsets(
        backend, places, backend.asarray(_Memory(column, data.ptr, size, np.dtype(np.uint8)))
    )


def make_column(strings: DeviceStrings) -> Any:
    """Return strings as a new pylibcudf column."""
    pylibcudf = require(CALLER, "pylibcudf")
    offsets, chars = strings.packed()
    if chars.shape[0] <= MAX_INT32:
        offsets = offsets.astype(np.int32)
    strings.backend.wait_for_stream()
    return pylibcudf.Column(
        data_type=pylibcudf.DataType(pylibcudf.TypeId.STRING),
        size=strings.shape[0],
        data=pylibcudf.gpumemoryview(chars),
        mask=None,
        null_count=0,
        offset=0,
        children=[pylibcudf.Column.from_cuda_array_interface(offsets)],
    )


def make_series(backend: Backend, column: Any, numbers: Array | None) -> Any:
    """Return a new cuDF series of a pylibcudf column, or of some of its rows; negative rows are null."""
    series = require(CALLER, "cudf").Series
    if numbers is None:
        return series.from_pylibcudf(column).copy(deep=True)
    pylibcudf = require(CALLER, "pylibcudf")
    # cuDF counts negative rows from the end, and makes nulls of rows behind the end.
    rows = backend.xp.where(numbers < 0, column.size(), numbers)
    places = pylibcudf.Column.from_cuda_array_interface(rows)
    backend.wait_for_stream()
    (found,) = pylibcudf.copying.gather(
        pylibcudf.Table([column]), places, pylibcudf.copying.OutOfBoundsPolicy.NULLIFY
    ).columns()
    return series.from_pylibcudf(found)
