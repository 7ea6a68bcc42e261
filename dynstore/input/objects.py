"""Columns of Python objects: which kind they are, and the array that this kind has."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError, shown
from dynstore.input.kinds import NUMPY_KINDS, is_taken, refusal

if TYPE_CHECKING:
    from dynstore.input.kinds import Kind, Role

__all__ = ["read_objects", "texts_of", "whole_numbers"]

MAX_INT64, MAX_UINT64 = 2**63 - 1, 2**64 - 1
_OBJECTS: tuple[tuple[type | tuple[type, ...], Kind], ...] = (
    (bool, "booleans"),
    (np.bool_, "booleans"),
    (int, "integers"),
    (np.integer, "integers"),
    (float, "floats"),
    (np.floating, "floats"),
    (decimal.Decimal, "decimals"),
    (str, "strings"),
    (uuid.UUID, "UUIDs"),
    (datetime.datetime, "date-times"),
    (np.datetime64, "date-times"),
    (datetime.date, "dates"),
    (datetime.time, "times of day"),
    ((datetime.timedelta, np.timedelta64), "lengths of time"),
    ((bytes, bytearray), "bytes"),
    (complex, "complex numbers"),
    ((list, tuple, dict, set, np.ndarray), "nested values"),
)
_NUMBERS = frozenset(("integers", "floats", "decimals"))
_DATES = frozenset(("dates", "date-times"))


def _kind_of_type(kind: type) -> Kind:
    return next((found for types, found in _OBJECTS if issubclass(kind, types)), "other objects")


def read_objects(caller: str, name: str, column: Any, role: Role) -> tuple[Kind, Any]:
    """Return the kind of a column of Python objects, and the column as an array or a list that this kind has."""
    if isinstance(column, range):
        return "integers", np.asarray(column)
    if not isinstance(column, list | tuple):
        array = np.asarray(column)
        if array.dtype != object:
            return NUMPY_KINDS[array.dtype.kind], array
        if array.ndim != 1:
            return "nested values" if array.ndim else "other objects", array
        column = array.tolist()
    kinds = {kind: _kind_of_type(kind) for kind in set(map(type, column))}
    found = set(kinds.values())
    if found <= {"integers"}:
        return "integers", _integers(caller, name, column)
    if found == {"strings"}:
        if not is_taken("strings", role):
            raise _refused_at(caller, name, column, 0, "strings", role)
        return "strings", texts_of(list(column))
    _refuse_null(caller, name, column, strict=not found <= _NUMBERS or role == "id")
    if found <= _NUMBERS:
        return _read_mixed_numbers(caller, name, column, found, role)
    if found <= _DATES:
        return "date-times", column
    if len(found) == 1:
        (kind,) = found
        if kind == "UUIDs" and role == "id":
            return "strings", texts_of([str(value) for value in column])
        if kind == "booleans" and role == "column":
            return "integers", np.array(column, dtype=np.int8)
        raise _refused_at(caller, name, column, 0, kind, role)
    # The first value of another kind than the first one.
    first = kinds[type(column[0])]
    alike = _NUMBERS if first in _NUMBERS else {first}
    row = next(row for row, value in enumerate(column) if kinds[type(value)] not in alike)
    taken = is_taken(first, role)
    raise _refused_at(caller, name, column, row if taken else 0, kinds[type(column[row if taken else 0])], role, first)


def _refused_at(
    caller: str, name: str, column: Any, row: int, kind: Kind, role: Role, among: Kind | None = None
) -> InputTypeError:
    value = column[row]
    what = f"has {shown(value)} ({type(value).__name__}) at row {row}"
    if among is not None and is_taken(kind, role):  # right alone, but not among the others
        wanted = "vertex ids must be all integers or all strings" if role == "id" else "wanted one kind"
        return InputTypeError(f"{caller}: `{name}` {what} among {among}; {wanted}")
    return refusal(caller, name, what, kind, role)


def _refuse_null(caller: str, name: str, column: Any, strict: bool) -> None:
    """Refuse a list with a value that stands for none: None, pandas' NA and NaT; if ``strict``, also NaN."""
    for row, value in enumerate(column):
        missing = value is None or type(value).__name__ in ("NAType", "NaTType")
        # NaN among strings, say, stands for none; among floats it is a value, which readers refuse or take.
        if missing or (strict and isinstance(value, float | np.floating) and value != value):
            raise InputError(f"{caller}: `{name}` has a null at row {row}; wanted none")


def _integers(caller: str, name: str, values: Any) -> np.ndarray:
    """Return integers as int64, or as uint64 if one needs it; NumPy alone would make floats of some."""
    if not len(values):
        return np.empty(0, np.int64)
    lowest, highest = int(min(values)), int(max(values))
    if lowest >= -MAX_INT64 - 1 and highest <= MAX_INT64:
        return np.array(values, dtype=np.int64)
    if lowest >= 0 and highest <= MAX_UINT64:
        return np.array(values, dtype=np.uint64)
    row = next(row for row, value in enumerate(values) if not -MAX_INT64 - 1 <= int(value) <= MAX_INT64)
    raise LimitError(f"{caller}: `{name}` has {values[row]} at row {row}; wanted at most {MAX_INT64}")


def _read_mixed_numbers(caller: str, name: str, column: Any, found: set[Kind], role: Role) -> tuple[Kind, np.ndarray]:
    if role == "id":
        if "floats" in found:
            row = next(row for row, value in enumerate(column) if isinstance(value, float | np.floating))
            raise _refused_at(caller, name, column, row, "floats", role)
        return "integers", whole_numbers(caller, name, list(map(decimal.Decimal, map(_as_python, column))))
    if "floats" not in found and all(_is_finite(value) and value == int(value) for value in column):
        return "integers", _integers(caller, name, [int(value) for value in column])
    return "floats", np.array([float(value) for value in column])


def _is_finite(value: Any) -> bool:
    return not isinstance(value, decimal.Decimal) or value.is_finite()


def _as_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def texts_of(values: list[Any]) -> np.ndarray:
    """Return strings as an array of objects."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def whole_numbers(caller: str, name: str, values: list[Any]) -> np.ndarray:
    """Return decimals as integers; refuse the first that is not whole."""
    for row, value in enumerate(values):
        if value != value.to_integral_value():
            raise InputTypeError(f"{caller}: `{name}` has {value} at row {row}; vertex ids must be integers")
    return _integers(caller, name, [int(value) for value in values])
