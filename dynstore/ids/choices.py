"""A column of names, each one of a few, or of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, unknown_name
from dynstore.ids.columns import StringKeys, read_keys
from dynstore.ids.strings import CodedStrings, DeviceStrings
from dynstore.input.forms import on_gpu

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["read_choices"]


def read_choices(caller: str, backend: Backend, name: str, column: Any, known: Mapping[str, int], origin: str) -> Array:
    """Read a column of names or of numbers.

    Parameters
    ----------
    caller, name : str
        Who reads which column, for messages.
    column
        A column of any library, or a list.
    known : mapping
        The number of each name: 0, 1, 2 ...
    origin : str
        What has the numbers, for messages.

    Returns
    -------
    array, shape (B,), of integers

    Raises
    ------
    InputError
        For nulls, and for other values, with the first row.
    """
    column = on_gpu(backend, column)
    if type(column).__module__.startswith("cudf.") and str(column.dtype) in ("object", "str", "string"):
        column = column.astype("category")  # its few strings then go to the host, and no others
    try:
        keys = read_keys(caller, backend, name, column)
    except InputTypeError as error:
        names = ", ".join(map(repr, known))
        raise InputTypeError(
            f"{caller}: `{name}` has neither strings nor integers; wanted {names} or {origin}"
        ) from error
    if not isinstance(keys, StringKeys | DeviceStrings | CodedStrings):
        return _checked(caller, backend, name, keys, len(known), origin)
    values, codes = _coded(keys)
    numbers = np.array([known.get(value, -1) for value in values.tolist()], np.int64)
    chosen = backend.asarray(numbers)[backend.asarray(codes)]
    if bool((chosen < 0).any()):
        row = int((chosen < 0).argmax())
        raise unknown_name(f"{caller}: row {row}", f"`{name}`", values[int(codes[row])], known)
    return chosen


def _coded(keys: Any) -> tuple[np.ndarray, Array]:
    """Return the few strings of a column, and the place of each row's."""
    if isinstance(keys, CodedStrings):
        return keys.values.to_host(), keys.codes
    import pandas

    values, inner = (keys.to_host(), None) if isinstance(keys, DeviceStrings) else (keys.values, keys.codes)
    codes, names = pandas.factorize(values)
    return names, codes if inner is None else codes[inner]


def _checked(caller: str, backend: Backend, name: str, numbers: Array, count: int, origin: str) -> Array:
    bad = (numbers < 0) | (numbers >= count)
    if bool(bad.any()):
        row = int(bad.argmax())
        raise InputError(
            f"{caller}: `{name}` is {int(numbers[row])} at row {row}; wanted 0 to {count - 1}, see {origin}"
        )
    return numbers
