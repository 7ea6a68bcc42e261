"""Columns of vertex ids of any kind: integers, strings, categories of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dynstore.errors import InputError, InputTypeError
from dynstore.ids.texts import cudf_texts
from dynstore.input.columns import read_integers, read_weights
from dynstore.input.forms import on_gpu, split_columns

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

    def all(self) -> np.ndarray:
        """Return the string of each row."""
        found: np.ndarray = self.values if self.codes is None else self.values[self.codes]
        return found

    def rows(self, chosen: np.ndarray) -> np.ndarray:
        """Return the strings of some rows, given by a mask or by numbers."""
        found: np.ndarray = self.values[chosen if self.codes is None else self.codes[chosen]]
        return found


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
    array, shape (B,), on the device; StringKeys; or, for a column of cuDF and a graph on CUDA, Texts or CodedTexts
        Integers keep their dtype, and may be negative: the look-up finds negative ones.

    Raises
    ------
    InputError
        Naming the column and the first bad row: a null, or what is neither integer nor string.
    """
    if type(column) is backend.xp.ndarray and column.ndim == 1 and column.dtype.kind in "iu":
        return column
    if isinstance(column, str):
        column = [column]
    elif isinstance(column, int | np.integer) and not isinstance(column, bool):
        column = [int(column)]
    elif np.isscalar(column):
        raise InputTypeError(f"{caller}: got {column!r}; a vertex is an integer or a string")
    column = on_gpu(backend, column)
    strings = _read_strings(caller, backend, name, column)
    return read_integers(caller, backend, name, column) if strings is None else strings


def _read_strings(caller: str, backend: Backend, name: str, column: Any) -> Any:
    """Read a column of strings, or of categories of any kind; None for all else."""
    if type(column).__module__.startswith("cudf.") and _is_cudf_text(column):
        if backend.family == "cuda":
            return cudf_texts().read_texts(caller, backend, name, column)
        column = column.to_arrow()
    if hasattr(getattr(column, "dtype", None), "pyarrow_dtype"):  # pandas over Arrow's memory
        column = getattr(column, "array", column).__arrow_array__()
    kind = str(getattr(column, "type", ""))
    if kind.startswith("dictionary"):
        return _read_arrow_categories(caller, backend, name, column)
    if kind in ("string", "large_string", "string_view"):
        return _checked(caller, name, column.to_numpy(zero_copy_only=False))
    dtype = getattr(column, "dtype", None)
    if hasattr(dtype, "categories") and hasattr(column, "isna"):  # pandas
        values = getattr(column, "cat", column)
        codes = values.codes.to_numpy() if hasattr(values.codes, "to_numpy") else values.codes
        return _categories(caller, backend, name, np.asarray(codes), values.categories)
    if type(column).__module__.startswith("polars.") and str(dtype).startswith(("String", "Categorical", "Enum")):
        return _checked(caller, name, np.array(column.to_list(), dtype=object))
    if isinstance(column, list | tuple):
        # As an array of one type, [0, "b"] would become two strings.
        strings = any(isinstance(item, str) for item in column)
        return _checked(caller, name, np.array(column, dtype=object)) if strings else None
    if dtype is None or getattr(column, "ndim", 1) != 1:
        return None
    if str(dtype).startswith(("str", "object", "<U", ">U", "StringDType")):
        values = np.asarray(column, dtype=object)
        return _checked(caller, name, values) if any(isinstance(value, str) for value in values[:1]) else None
    return None


def _is_cudf_text(column: Any) -> bool:
    return str(column.dtype) in ("object", "str", "string", "category")


def _read_arrow_categories(caller: str, backend: Backend, name: str, column: Any) -> Any:
    if hasattr(column, "unify_dictionaries"):
        column = column.unify_dictionaries().combine_chunks()
        if hasattr(column, "chunks"):  # pyarrow returns a chunked array of one chunk, or of none
            if not column.num_chunks:
                return None
            column = column.chunk(0)
    codes = column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)  # unsigned ones have no -1
    return _categories(caller, backend, name, codes, column.dictionary)


def _categories(caller: str, backend: Backend, name: str, codes: np.ndarray, categories: Any) -> Any:
    missing = codes < 0
    if missing.any():
        raise InputError(f"{caller}: `{name}` has a null at row {int(np.argmax(missing))}; wanted none")
    codes = codes.astype(np.int64)
    keys = read_keys(caller, backend, name, categories)
    if not isinstance(keys, StringKeys):
        return keys[backend.asarray(codes)]
    used = np.zeros(keys.shape[0], np.bool_)  # categories that no row has are no vertices
    used[codes] = True
    if not used.all():
        codes = (np.cumsum(used) - 1)[codes]
        return StringKeys(keys.values[used], codes)
    return StringKeys(keys.values, codes)


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
