"""Columns of any type become columns that the readers of their role know; :mod:`dynstore.input.kinds` has the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError
from dynstore.input.arrow_memory import check_memory
from dynstore.input.kinds import is_of, is_taken, kind_of, named_type, on_device, refusal
from dynstore.input.objects import read_objects, texts_of, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.input.kinds import Kind, Role
    from dynstore.typing import Array

__all__ = ["Coded", "as_signed", "coded", "holds_strings", "pick_rows", "plain", "values_of"]


def plain(caller: str, name: str, column: Any, role: Role) -> Any:
    """Return a column in a form that the reader of its role takes.

    Arrays and columns of integers, floats, strings and date-times come back as they are. Categories, run ends,
    decimals, UUIDs, booleans and Python objects are converted as :data:`READING` says. Ids that are categories of
    strings become :class:`Coded`; UUIDs and lists of strings become an array of objects.

    Raises
    ------
    InputTypeError
        For a kind that the role does not take, naming the column.
    InputError
        For a null that conversion would hide, naming the row; for a damaged column of Arrow.
    """
    if getattr(column, "ndim", 1) != 1:
        return column  # the reader refuses it
    check_memory(caller, name, column)
    kind = kind_of(column)
    if not _length(column):
        return column if kind in ("integers", "floats") else np.empty(0, np.int32)
    if kind == "objects":
        kind, column = read_objects(caller, name, column, role)
    if kind == "nulls":
        raise InputError(f"{caller}: column `{name}` has {len(column)} nulls; wanted none")
    if kind == "floats" and role == "id":
        return column  # the reader refuses it, and names a row that is NaN
    if not is_taken(kind, role):
        raise refusal(caller, name, f"is {named_type(column)}", kind, role)
    convert = _CONVERTERS.get(kind)
    return column if convert is None else convert(caller, name, column, role)


def _length(column: Any) -> int:
    """Return the length of a column; 1 for what has none, which its reader refuses."""
    try:
        return len(column)
    except TypeError:
        return 1


def _arrow(column: Any) -> Any:
    """Return a column of pandas or polars over Arrow's memory as one of pyarrow; one of pyarrow as it is."""
    if hasattr(getattr(column, "dtype", None), "pyarrow_dtype"):
        return getattr(column, "array", column).__arrow_array__()
    return column.to_arrow() if is_of(column, "polars") else column


def _refuse_nulls(caller: str, name: str, column: Any) -> None:
    count = column.null_count
    if count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{caller}: column `{name}` has {count} nulls, the first at row {row}; wanted none")


def _decode_runs(caller: str, name: str, column: Any, role: Role) -> Any:
    return plain(caller, name, _without_runs(column), role)


def _without_runs(column: Any) -> Any:
    import pyarrow
    import pyarrow.compute

    column = _arrow(column)
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    decoded = [pyarrow.compute.run_end_decode(chunk) for chunk in chunks]
    return pyarrow.chunked_array(decoded, type=column.type.value_type)


def _decode_decimals(caller: str, name: str, column: Any, role: Role) -> Any:
    """Return integers if all are whole, else float64; ids have to be whole."""
    if is_of(column, "cudf"):
        column = column.to_arrow()
    import pyarrow

    column = _arrow(column)
    _refuse_nulls(caller, name, column)
    try:
        return column.cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid:  # a fraction would be cut, or it is too large
        if role != "id":
            # By texts: pyarrow's own cast multiplies by 10^-scale, and makes 15.031250000000002 of 15.03125.
            return column.cast(pyarrow.string()).cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    return whole_numbers(caller, name, column.to_pylist())


def _decode_uuids(caller: str, name: str, column: Any, role: Role) -> np.ndarray:
    column = _arrow(column)
    _refuse_nulls(caller, name, column)
    return texts_of([str(value) for value in column.to_pylist()])


def _as_bits(caller: str, name: str, column: Any, role: Role) -> Any:
    if on_device(column):
        return column.astype("int8")
    column = _arrow(column)
    if hasattr(column, "null_count") and not callable(column.null_count):
        _refuse_nulls(caller, name, column)
        return column.to_numpy(zero_copy_only=False).astype(np.int8)
    if hasattr(column, "isna"):
        missing = np.asarray(column.isna())
        if missing.any():
            raise InputError(f"{caller}: column `{name}` has a null at row {int(missing.argmax())}; wanted none")
    return np.asarray(column, dtype=np.int8)


def _decode_categories(caller: str, name: str, column: Any, role: Role) -> Any:
    """Return the values of categories; those of strings stay as they are where ids read them."""
    if is_of(column, "cudf"):
        categories = column.cat.categories
        if role == "id" and kind_of(categories) == "strings":
            return column
        return plain(caller, name, column.astype(categories.dtype), role)
    codes, categories = coded(caller, name, column)
    found = plain(caller, name, categories, role)
    if role == "id" and holds_strings(found):
        return Coded(codes, found)
    return pick_rows(found, codes)


def holds_strings(column: Any) -> bool:
    """Whether a column that :func:`plain` has returned for ids holds strings, and not integers."""
    if isinstance(column, Coded):
        return True
    return getattr(column, "ndim", 1) == 1 and kind_of(column) in ("strings", "objects")


class Coded(NamedTuple):
    """Categories: row ``i`` holds ``values[codes[i]]``; each value occurs.

    Attributes
    ----------
    codes : numpy.ndarray, shape (B,), int64
    values : column
    """

    codes: np.ndarray
    values: Any


def coded(caller: str, name: str, column: Any) -> Coded:
    """Return the codes of a column of categories, of pandas, polars or pyarrow, and the categories that occur.

    Others are not looked at: a part of a column may have many.

    Raises
    ------
    InputError
        For a null, naming the row.
    """
    codes, categories = _all_codes(_arrow(column))
    missing = codes < 0
    if missing.any():
        raise InputError(f"{caller}: `{name}` has a null at row {int(np.argmax(missing))}; wanted none")
    codes = codes.astype(np.int64)
    if len(codes) and codes.max() >= len(categories):
        row = int(codes.argmax())
        raise InputError(f"{caller}: `{name}` has the category {codes[row]} at row {row}; there are {len(categories)}")
    if len(codes) < len(categories) // 8:
        used, codes = np.unique(codes, return_inverse=True)
    else:
        held = np.zeros(len(categories), np.bool_)
        held[codes] = True
        if held.all():
            return Coded(codes, categories)
        used, codes = np.flatnonzero(held), (np.cumsum(held) - 1)[codes]
    return Coded(codes, categories.take(used))


def _all_codes(column: Any) -> tuple[np.ndarray, Any]:
    """Return the codes, -1 for nulls, and all categories."""
    if hasattr(column, "isna"):  # pandas
        values = getattr(column, "cat", column)
        codes = values.codes
        return np.asarray(codes.to_numpy() if hasattr(codes, "to_numpy") else codes), values.categories
    if hasattr(column, "unify_dictionaries"):
        if any(chunk.dictionary.null_count for chunk in column.chunks):  # pyarrow unifies none that has a null
            column = column.cast(column.type.value_type).dictionary_encode()
        column = column.unify_dictionaries().combine_chunks()
        if hasattr(column, "chunks"):  # pyarrow returns a chunked array of one chunk, or of none
            if not column.num_chunks:
                return np.empty(0, np.int64), column.cast(column.type.value_type)
            column = column.chunk(0)
    # Unsigned ones have no -1.
    return column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False), column.dictionary


def pick_rows(column: Any, rows: Any) -> Any:
    """Return some rows of a column of any kind; ``rows`` is an array of NumPy, or of CuPy for columns of the GPU."""
    if isinstance(column, list | tuple | range):
        return [column[row] for row in rows.tolist()]
    if kind_of(column) == "run ends":  # pyarrow takes none of their rows
        column = _without_runs(column)
    if hasattr(column, "iloc"):  # pandas, cuDF
        return column.iloc[rows]
    if hasattr(column, "null_count") and hasattr(column, "take"):  # pyarrow
        return column.take(rows)
    if hasattr(column, "__getitem__"):  # NumPy, CuPy, polars
        return column[rows]
    return np.from_dlpack(column)[rows]


_CONVERTERS: dict[Kind, Callable[[str, str, Any, Role], Any]] = {
    "run ends": _decode_runs,
    "decimals": _decode_decimals,
    "UUIDs": _decode_uuids,
    "booleans": _as_bits,
    "categories": _decode_categories,
}


def values_of(column: Any) -> np.ndarray:
    """Return a column of any library as an array on the host, of integers or of objects; None for nulls."""
    if is_of(column, "cupy"):
        column = column.get()
    if is_of(column, "cudf"):
        column = column.to_arrow()
    if is_of(column, "polars") or kind_of(column) in ("categories", "run ends"):
        column = np.array(
            _arrow(column).to_pylist() if hasattr(_arrow(column), "to_pylist") else list(column), dtype=object
        )
    if hasattr(column, "to_numpy"):
        column = column.to_numpy(**({"zero_copy_only": False} if hasattr(column, "type") else {}))
    array = np.asarray(column)
    return array if array.dtype.kind in "iu" else array.astype(object)


def as_signed(backend: Backend, column: Array) -> Array:
    """Return an array of integers that fit int64; larger ones become its largest."""
    if column.dtype != np.uint64:
        return column
    return backend.xp.minimum(column, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
