"""The extra columns of edges: those of a frame with their names, or the last ones of a tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.input.columns import read_numbers
from dynstore.input.forms import column_names, is_frame, open_edges, without_gaps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["take_extra_columns"]


def take_extra_columns(
    caller: str, backend: Backend, edges: Any, names: tuple[str, str, str | None], dtypes: Mapping[str, np.dtype]
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

    Raises
    ------
    InputError
        If a column is missing or does not fit its dtype.
    """
    edges = open_edges(caller, edges, len(dtypes))
    if isinstance(edges, tuple):
        edges, given = _split_tuple(caller, edges, list(dtypes))
    elif is_frame(edges):
        _check_labels(caller, column_names(edges), list(dtypes))
        edges = without_gaps(edges, [*(name for name in names if name is not None), *dtypes])
        given = tuple(edges[name] for name in dtypes)
    else:
        return edges, {}  # it is refused when it is read
    columns = zip(dtypes.items(), given, strict=True)
    return edges, {name: _read(caller, backend, name, column, dtype) for (name, dtype), column in columns}


def _split_tuple(caller: str, edges: tuple[Any, ...], names: list[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    others = len(edges) - len(names)
    if others in (2, 3):
        return edges[:others], edges[others:]
    if len(edges) in (2, 3) and not len(edges[0]):
        return edges, ([],) * len(names)
    raise InputError(
        f"{caller}: edges have {len(edges)} columns; wanted (src, dst[, weights], {', '.join(names)}), as the graph "
        f"has the edge column{_listed(names)}"
    )


def _check_labels(caller: str, labels: list[Any], names: list[str]) -> None:
    missing = [name for name in names if name not in labels]
    if missing:
        raise InputError(
            f"{caller}: columns not found: {', '.join(missing)}; the frame has "
            f"{', '.join(map(str, labels)) or 'none'}, and the graph has the edge column{_listed(names)}"
        )
    for name in names:
        if labels.count(name) > 1:
            raise InputError(f"{caller}: the frame has {labels.count(name)} columns `{name}`; wanted one")


def _listed(names: list[str]) -> str:
    return f"{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"


def _read(caller: str, backend: Backend, name: str, column: Any, dtype: np.dtype) -> Array:
    array = read_numbers(caller, backend, name, column)
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
