"""The extra columns of edges: those of a frame with their names, or the last ones of a tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.input.columns import read_numbers
from dynstore.input.forms import NAME_TIMES, check_labels, column_names, is_frame, open_edges, without_gaps
from dynstore.input.times import read_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["fit_times", "read_values", "take_extra_columns"]


def take_extra_columns(
    caller: str,
    backend: Backend,
    edges: Any,
    names: tuple[str, str, str | None],
    dtypes: Mapping[str, np.dtype],
    timed: bool = False,
    time: Any = None,
    check: Callable[[str, str, Array, bool], None] | None = None,
) -> tuple[Any, dict[str, Array]]:
    """Return edges without their extra columns, and these columns as arrays of their dtypes on the device.

    Parameters
    ----------
    caller : str
    backend : Backend
    edges : frame, tuple or list
        As users give them. A tuple, and each row of a list, ends with the extra columns, in order.
    names : tuple
        The frame's other columns: source, destination, and weight or None.
    dtypes : mapping
        Name -> dtype, in order.
    timed : bool
        Whether the last of them are times, which may be date-times.
    time : str or array, optional
        The frame's column of times, or the times; by default it has the name in ``dtypes``.
    check : callable, optional
        Refuses times; it gets the caller, their name, the times, and whether they are date-times.

    Raises
    ------
    InputError
        If a column is missing or does not fit its dtype.
    """
    labels, given_times = {name: name for name in dtypes}, None
    if timed and isinstance(time, str):
        labels[list(dtypes)[-1]] = time
    elif timed and time is not None:
        labels.popitem()
        given_times = time
    edges = open_edges(caller, edges, list(labels.values()))
    if isinstance(edges, tuple):
        if isinstance(time, str) and len(edges[0]):
            raise InputError(
                f"{caller}: time={time!r} names a column, but edges is a tuple; end it with the times, or pass "
                "time=<array>"
            )
        edges, given = _split_tuple(caller, edges, list(labels.values()), timed)
    elif is_frame(edges):
        _check_labels(caller, column_names(edges), list(labels.values()), timed and given_times is None)
        edges = without_gaps(caller, edges, [*(name for name in names if name is not None), *labels.values()])
        given = tuple(edges[label] for label in labels.values())
    else:
        return edges, {}  # it is refused when it is read
    if given_times is not None:
        labels[list(dtypes)[-1]], given = "time", (*given, given_times)
    columns: dict[str, Array] = {}
    for (name, dtype), label, column in zip(dtypes.items(), labels.values(), given, strict=True):
        if timed and len(columns) == len(dtypes) - 1:
            columns[name] = _read_times(caller, backend, label, column, dtype, check)
        else:
            columns[name] = read_values(caller, backend, label, column, dtype)
    return edges, columns


def _split_tuple(
    caller: str, edges: tuple[Any, ...], names: list[str], timed: bool
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    others = len(edges) - len(names)
    if others in (2, 3):
        return edges[:others], edges[others:]
    if len(edges) in (2, 3) and not len(edges[0]):
        return edges, ([],) * len(names)
    wanted = ", ".join(["(src, dst[, weights]", *names])
    raise InputError(
        f"{caller}: edges have {len(edges)} columns; wanted {wanted}), as the graph {_reason(names, timed)}"
    )


def _check_labels(caller: str, labels: list[Any], names: list[str], timed: bool) -> None:
    hint = NAME_TIMES if timed and names[-1] not in labels else ""
    check_labels(caller, labels, names, f", and the graph {_reason(names, timed)}{hint}")


def _reason(names: list[str], timed: bool) -> str:
    """Return why a graph wants columns; the last one is that of times if it is ``timed``."""
    others = names[:-1] if timed else names
    has = f"has the edge column{_listed(others)}" if others else ""
    return " and ".join(part for part in (has, "keeps times" if timed else "") if part)


def _listed(names: list[str]) -> str:
    return f"{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"


def _read_times(
    caller: str,
    backend: Backend,
    name: str,
    column: Any,
    dtype: np.dtype,
    check: Callable[[str, str, Array, bool], None] | None,
) -> Array:
    """Read a column of times: integers, or date-times, which are nanoseconds."""
    times, dated = read_times(caller, backend, name, column)
    fitting = fit_times(caller, backend, name, times, dated, dtype)
    if check is not None:
        check(caller, name, fitting, dated)
    return fitting


def fit_times(caller: str, backend: Backend, name: str, times: Array, dated: bool, dtype: np.dtype) -> Array:
    """Return times as a graph keeps them.

    Raises
    ------
    InputError
        For fractions, and for what does not fit.
    """
    if not times.shape[0]:
        return backend.empty(0, dtype)
    if times.dtype.kind == "f":
        raise InputTypeError(f"{caller}: `{name}` is float64; wanted integers or date-times")
    if dated and dtype.itemsize < times.dtype.itemsize:
        raise LimitError(
            f'{caller}: `{name}` has date-times, which are int64 nanoseconds; the graph has timestamps="{dtype}"'
        )
    return read_values(caller, backend, name, times, dtype)


def read_values(caller: str, backend: Backend, name: str, column: Any, dtype: np.dtype) -> Array:
    """Read one column of numbers as an array of its dtype.

    Raises
    ------
    InputError
        For nulls, and for values that do not fit.
    """
    array = read_numbers(caller, backend, name, column, "column")
    if not array.shape[0]:
        return backend.empty(0, dtype)
    xp = backend.xp
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            values = xp.ascontiguousarray(array, dtype=dtype)
        bad = None if array.dtype.itemsize <= dtype.itemsize else xp.isinf(values) & ~xp.isinf(array * 1.0)
    elif array.dtype.kind == "f":
        raise InputTypeError(f"{caller}: `{name}` is {array.dtype}; wanted integers, as the edge column is {dtype}")
    else:
        values, limits = xp.ascontiguousarray(array, dtype=dtype), np.iinfo(dtype)
        fits = np.can_cast(array.dtype, dtype)
        bad = None if fits or limits.min <= int(array.min()) <= int(array.max()) <= limits.max else values != array
    if bad is not None and bool(bad.any()):
        row = int(bad.argmax())
        raise LimitError(f"{caller}: `{name}` has {array[row].item()} at row {row}; that does not fit {dtype}")
    return values
