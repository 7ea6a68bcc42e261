"""Columns of vertex ids of any kind: integers, strings, categories of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dynstore.errors import InputError, InputTypeError
from dynstore.ids.strings import cudf_strings
from dynstore.input.columns import read_integers, read_weights
from dynstore.input.converting import Coded, holds_strings, plain
from dynstore.input.forms import on_gpu, split_columns
from dynstore.input.kinds import kind_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["KeyColumns", "Keys", "StringKeys", "read_key_edges", "read_keys"]


@dataclass(frozen=True, slots=True)
class StringKeys:
    """Strings on the host; row ``i`` holds ``values[codes[i]]``, or ``values[i]`` if there are no codes."""

    values: np.ndarray
    codes: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int]:
        return ((self.values if self.codes is None else self.codes).shape[0],)

    def __len__(self) -> int:
        return int(self.shape[0])

    def all(self) -> np.ndarray:
        """Return the string of each row."""
        found: np.ndarray = self.values if self.codes is None else self.values[self.codes]
        return found

    def __getitem__(self, chosen: Any) -> StringKeys:
        """Return some rows, given by a slice, a mask or numbers."""
        if self.codes is None:
            return StringKeys(self.values[chosen])
        return StringKeys(self.values, self.codes[chosen])


# Integers in an array of the backend, or strings.
Keys: TypeAlias = Any


class KeyColumns(NamedTuple):
    """Checked columns of equal length."""

    names: tuple[str, str]
    src: Keys
    dst: Keys
    weights: Array | None


def read_key_edges(
    caller: str, backend: Backend, edges: Any, names: tuple[str, str, str | None], weight_dtype: np.dtype | None
) -> KeyColumns:
    """Read a batch of edges as :func:`dynstore.input.columns.read_edges` does, with ids of any kind."""
    columns = split_columns(caller, edges, names)
    src, dst = (read_keys(caller, backend, *column) for column in columns[:2])
    return KeyColumns(
        (columns[0][0], columns[1][0]), src, dst, read_weights(caller, backend, columns, src, dst, weight_dtype)
    )


def read_keys(caller: str, backend: Backend, name: str, column: Any) -> Keys:
    """Read one column of ids, or one id.

    Returns
    -------
    array, shape (B,), on the device; StringKeys; or, for a column of cuDF and a graph on CUDA,
    DeviceStrings or CodedStrings
        Integers keep their dtype, and may be negative: the look-up finds negative ones.

    Raises
    ------
    InputError
        Naming the column and the first bad row: a null, or what is neither integer nor string.
    """
    if type(column) is backend.xp.ndarray and column.ndim == 1 and column.dtype.kind in "iu":
        return column
    if isinstance(column, StringKeys):  # by another layer, such as a stream's or a log's
        return column
    if isinstance(column, str):
        column = [column]
    elif isinstance(column, int | np.integer) and not isinstance(column, bool):
        column = [int(column)]
    elif np.isscalar(column):
        raise InputTypeError(f"{caller}: got {column!r}; a vertex is an integer or a string")
    column = on_gpu(backend, column)
    if type(column).__module__.startswith("cudf.") and kind_of(column) in ("strings", "categories"):
        if backend.family == "cuda":
            return cudf_strings().read_strings(caller, backend, name, column)
        column = column.to_arrow()
    column = plain(caller, name, column, "id")
    if isinstance(column, Coded):
        return StringKeys(_checked(caller, name, _objects(column.values)).values, column.codes)
    if holds_strings(column):
        return _checked(caller, name, _objects(column))
    return read_integers(caller, backend, name, column)


def _objects(column: Any) -> np.ndarray:
    """Return a column of strings as an array of objects."""
    if type(column).__module__.startswith("polars."):
        return np.array(column.to_list(), dtype=object)
    if hasattr(getattr(column, "dtype", None), "pyarrow_dtype"):  # pandas over Arrow's memory
        column = getattr(column, "array", column).__arrow_array__()
    if hasattr(column, "type"):  # pyarrow
        found: np.ndarray = column.to_numpy(zero_copy_only=False)
        return found
    return np.asarray(column, dtype=object)


def _checked(caller: str, name: str, values: np.ndarray) -> StringKeys:
    """Refuse values that are no strings, naming the first row."""
    import pandas

    if values.shape[0] and pandas.api.types.infer_dtype(values, skipna=False) != "string":
        for row, value in enumerate(values.tolist()):
            if value is None or value is pandas.NA or value != value:
                raise InputError(f"{caller}: `{name}` has a null at row {row}; wanted none")
            if not isinstance(value, str):
                kind = type(value).__name__
                raise InputTypeError(
                    f"{caller}: `{name}` has {value!r} ({kind}) at row {row}; "
                    "vertex ids must be all integers or all strings"
                )
    return StringKeys(values)
