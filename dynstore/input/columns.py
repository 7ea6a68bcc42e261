"""The columns of edges and vertices become checked arrays of one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError, type_name
from dynstore.input.converting import Coded, holds_strings, pick_rows, plain
from dynstore.input.forms import is_frame, on_gpu, split_columns
from dynstore.input.kinds import on_device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.input.kinds import Role
    from dynstore.typing import Array

__all__ = [
    "STRINGS",
    "Bounds",
    "EdgeColumns",
    "find_bounds",
    "read_column",
    "read_edges",
    "read_ids",
    "read_integers",
    "read_numbers",
    "read_weight",
    "read_weights",
]

# kDLCPU and kDLCUDAHost
DLPACK_HOST = (1, 3)
Bounds = tuple[int, ...]
STRINGS = ". A graph made with renumber=True takes strings as ids"
WIDER = (
    '. A graph made with renumber=True takes any integers; one with vertex_dtype="int64" makes a row for every id '
    "up to the highest"
)


@dataclass(slots=True)
class EdgeColumns:
    """Columns of equal length: ids of the vertex dtype, weights of the weight dtype or None.

    ``max_id`` is None if the ids are not validated yet.
    """

    src: Array
    dst: Array
    weights: Array | None
    max_id: int | None


def read_edges(
    caller: str,
    backend: Backend,
    edges: Any,
    names: tuple[str, str, str | None],
    vertex_dtype: np.dtype,
    weight_dtype: np.dtype | None,
    validate: bool = True,
    bounds: Bounds | None = None,
) -> EdgeColumns:
    """Read a batch of edges.

    Parameters
    ----------
    caller : str
        The calling function, for messages.
    backend : Backend
        The backend on whose device the arrays are returned.
    edges : frame or tuple
        A pandas, pyarrow, polars or cuDF frame, or ``(src, dst)`` or ``(src, dst, weights)``.
    names : tuple
        The frame's columns: source, destination, and weight or None.
    vertex_dtype, weight_dtype : numpy.dtype
        The dtypes to return; ``weight_dtype=None`` ignores weights.
    validate : bool
        False leaves the validation of ids on a CUDA device to a kernel that reads them anyway; those that do not fit
        the vertex dtype become -1. Weights of the weight dtype are not validated either: they may include NaN.
    bounds : tuple of int, optional
        What such a kernel has found: the lowest and the highest id of each column, and 0. It is not used for ids of
        other dtypes, whose columns are read once more.

    Returns
    -------
    EdgeColumns
        ``max_id`` is -1 for an empty batch, None for ids that are not validated.

    Raises
    ------
    InputError
        Naming the column and the first bad row.
    """
    if not validate and names[2] is None and _are_as_wanted(backend, edges, vertex_dtype):
        return EdgeColumns(edges[0], edges[1], None, None)
    columns = split_columns(caller, edges, names)
    (src_name, given_src), (dst_name, given_dst) = columns[0], columns[1]
    raw_src = read_integers(caller, backend, src_name, given_src)
    raw_dst = read_integers(caller, backend, dst_name, given_dst)
    as_wanted = vertex_dtype == raw_src.dtype == raw_dst.dtype
    if not validate and backend.family == "cuda" and _was_there(given_src, raw_src) and _was_there(given_dst, raw_dst):
        weights = read_weights(caller, backend, columns, raw_src, raw_dst, weight_dtype, validate=False)
        if as_wanted:
            pack = backend.xp.ascontiguousarray
            return EdgeColumns(pack(raw_src), pack(raw_dst), weights, None)
        src, dst = backend.kernels("dynstore.input").convert_ids(backend, raw_src, raw_dst, vertex_dtype)
        return EdgeColumns(src, dst, weights, None)
    if bounds is None or not as_wanted:
        bounds = find_bounds(backend, raw_src, raw_dst)
    src, src_max = _check_ids(caller, backend, src_name, raw_src, bounds[:2], vertex_dtype)
    dst, dst_max = _check_ids(caller, backend, dst_name, raw_dst, bounds[2:], vertex_dtype)
    weights = read_weights(caller, backend, columns, src, dst, weight_dtype)
    return EdgeColumns(src, dst, weights, max(src_max, dst_max))


def _are_as_wanted(backend: Backend, edges: Any, dtype: np.dtype) -> bool:
    """Whether edges are two columns that kernels take as they are, so that small batches are examined only once.

    They are on the device, of the dtype, of one dimension and one length above 0, without gaps.
    """
    if backend.family != "cuda" or type(edges) is not tuple or len(edges) != 2:
        return False
    src, dst = edges
    if not type(src) is type(dst) is backend.xp.ndarray:
        return False
    without_gaps = src.dtype == dst.dtype == dtype and src.strides == dst.strides == (dtype.itemsize,)
    return without_gaps and len(src) == len(dst) > 0


def _was_there(given: Any, array: Array) -> bool:
    """Whether a column was on the device already. Our own arrays are not tested for attributes, which takes time."""
    return given is array or on_device(given)


def read_weights(
    caller: str, backend: Backend, columns: list[tuple[str, Any]], src: Any, dst: Any, weight_dtype: np.dtype | None,
    validate: bool = True,
) -> Array | None:  # fmt: skip
    """Read the weights of a split batch, None if it has none or none are wanted; check that all lengths agree.

    ``validate``: see :func:`read_edges`.
    """
    _same_length(caller, columns[1][0], dst, columns[0][0], src)
    if weight_dtype is None or len(columns) < 3:
        return None
    weights = read_weight(caller, backend, *columns[2], weight_dtype, validate)
    _same_length(caller, columns[2][0], weights, columns[0][0], src)
    return weights


def read_ids(caller: str, backend: Backend, ids: Any, vertex_dtype: np.dtype) -> tuple[Array, int]:
    """Read vertex ids: an array, a list, a series or one integer; return them and the highest (-1 for none)."""
    if np.isscalar(ids):
        if not isinstance(ids, int | np.integer) or isinstance(ids, bool):
            raise InputTypeError(f"{caller}: got {ids!r}; a vertex is an integer")
        ids = [int(ids)]
    return read_column(caller, backend, "ids", ids, vertex_dtype)


def _same_length(caller: str, name: str, array: Array, other_name: str, other: Array) -> None:
    if array.shape[0] != other.shape[0]:
        raise InputError(
            f"{caller}: `{name}` has {array.shape[0]} items, `{other_name}` has {other.shape[0]}; they must be equal"
        )


def _to_array(caller: str, backend: Backend, name: str, column: Any, role: Role) -> Array:
    """Bring one column to the device in its own dtype, refusing nulls, and what its role does not take."""
    if type(column) is backend.xp.ndarray and column.ndim == 1 and column.dtype.kind in "iuf":
        return column
    if is_frame(column):
        raise InputTypeError(f"{caller}: `{name}` is a {type_name(column)}; wanted one column")
    try:
        column = plain(caller, name, _open_dlpack(on_gpu(backend, column)), role)
        if role == "id":
            _refuse_strings(caller, name, column)
        array = _read_array(caller, backend, name, column)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each library has its own
        raise InputTypeError(f"{caller}: `{name}` cannot be read as an array: {error}") from error
    if array.ndim != 1:
        hint = ". One edge is a list of one pair: [(0, 1)]" if array.ndim == 0 else ""
        raise InputError(f"{caller}: `{name}` has {array.ndim} dimensions; wanted one{hint}")
    # Values that are no numbers stay on the host: the caller refuses them, and a GPU has no such arrays.
    return backend.asarray(array) if array.dtype.kind in "biuf" else array


def _read_array(caller: str, backend: Backend, name: str, column: Any) -> Array:
    """Return a column of any library as an array, refusing nulls; floats may be NaN."""
    if hasattr(column, "null_count"):  # pyarrow (a number), polars (a method), cuDF (a number)
        nulls = column.null_count() if callable(column.null_count) else column.null_count
        if nulls:
            row = int(np.argmax(_is_null(column)))
            raise InputError(f"{caller}: column `{name}` has {nulls} nulls, the first at row {row}; wanted none")
        if on_device(column):
            return backend.asarray(column.values)
        # Only pyarrow wants a permission to copy booleans and decimals.
        return column.to_numpy(zero_copy_only=False) if hasattr(column, "type") else column.to_numpy()
    if on_device(column):
        return backend.asarray(column)
    if hasattr(column, "isna"):  # pandas
        may_be_null = not isinstance(column.dtype, np.dtype) or column.dtype.kind != "f"
        _refuse_null(caller, name, column.isna() if may_be_null else None)
        column = column.to_numpy(dtype=getattr(column.dtype, "numpy_dtype", None))
    if isinstance(column, np.ma.MaskedArray):
        _refuse_null(caller, name, np.ma.getmaskarray(column))
        column = column.data
    return np.asarray(column)


def _is_null(column: Any) -> np.ndarray:
    """Return which rows of a column of pyarrow, polars or cuDF are null."""
    missing = column.is_null() if hasattr(column, "is_null") else column.isna().to_arrow()
    return np.asarray(missing.to_numpy(**({"zero_copy_only": False} if hasattr(missing, "type") else {})))


def _refuse_null(caller: str, name: str, null: Any) -> None:
    """Refuse a column of which some rows are null, bool, shape (B,); None if there cannot be any."""
    if null is not None and null.any():
        raise InputError(f"{caller}: column `{name}` has a null at row {int(np.argmax(np.asarray(null)))}; wanted none")


def _open_dlpack(column: Any) -> Any:
    """Return an array that supports only DLPack as a NumPy or CuPy array; return all else as it is."""
    protocols = ("__array__", "__array_interface__", "__cuda_array_interface__")
    if not hasattr(column, "__dlpack__") or any(hasattr(column, protocol) for protocol in protocols):
        return column
    if column.__dlpack_device__()[0] in DLPACK_HOST:
        return np.from_dlpack(column)
    import cupy

    return cupy.from_dlpack(column)


def _refuse_strings(caller: str, name: str, column: Any) -> None:
    """Refuse ids that are strings: this reader reads numbers."""
    if holds_strings(column):
        values, row = (column.values, int(column.codes[0])) if isinstance(column, Coded) else (column, 0)
        first = pick_rows(values, np.array([row]))
        text = first.to_pylist()[0] if hasattr(first, "to_pylist") else np.asarray(first).tolist()[0]
        raise InputTypeError(f"{caller}: `{name}` has {text!r} (str) at row 0; wanted a number{STRINGS}")


def read_column(caller: str, backend: Backend, name: str, column: Any, dtype: np.dtype) -> tuple[Array, int]:
    """Read one column of integer ids; return them and the highest (-1 for none)."""
    array = read_integers(caller, backend, name, column)
    return _check_ids(caller, backend, name, array, find_bounds(backend, array, array[:0])[:2], dtype)


def read_integers(caller: str, backend: Backend, name: str, column: Any) -> Array:
    """Read one column of integers, in its own dtype."""
    array = _to_array(caller, backend, name, column, "id")  # on the device, if these are numbers
    if array.size == 0:
        return backend.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        null = array != array if array.dtype.kind == "f" else array[:0]
        found = f", and NaN at row {int(null.argmax())}, which is a null" if bool(null.any()) else ""
        raise InputTypeError(f"{caller}: `{name}` is {array.dtype}{found}; vertex ids must be integers")
    return array


def read_numbers(caller: str, backend: Backend, name: str, column: Any, role: Role = "weight") -> Array:
    """Read one column of numbers, in its own dtype; floats may be NaN. ``role`` decides what is converted."""
    return backend.asarray(_to_array(caller, backend, name, column, role))


def find_bounds(backend: Backend, first: Array, second: Array) -> Bounds:
    """Return the lowest and highest of each of two integer columns; 0 is always counted as present."""
    if backend.family == "cuda":  # both in one launch
        bounds: Bounds = backend.kernels("dynstore.input").find_bounds(backend, first, second)
        return bounds
    low_first, high_first = int(first.min(initial=0)), int(first.max(initial=0))
    return low_first, high_first, int(second.min(initial=0)), int(second.max(initial=0))


def _check_ids(
    caller: str, backend: Backend, name: str, array: Array, bounds: Bounds, dtype: np.dtype
) -> tuple[Array, int]:
    """Return ids of the dtype and the highest (-1 for none); ``bounds``: the lowest and the highest, and 0."""
    limit = int(np.iinfo(dtype).max) - 1
    lowest, highest = bounds
    if lowest < 0:
        row = int(backend.xp.argmax(array < 0))
        raise InputError(f"{caller}: `{name}` has {int(array[row])} at row {row}; vertex ids must not be negative")
    if highest > limit:
        row = int(backend.xp.argmax(array > limit))
        more = WIDER if np.dtype(dtype).itemsize == 4 else ""
        raise LimitError(f"{caller}: `{name}` has {int(array[row])} at row {row}; {dtype} ids go to {limit}{more}")
    return backend.xp.ascontiguousarray(array, dtype=dtype), highest if array.shape[0] else -1


def read_weight(caller: str, backend: Backend, name: str, column: Any, dtype: np.dtype, validate: bool = True) -> Array:
    """Read one column of weights; they are not NaN, and fit the dtype, unless ``validate`` is False."""
    array = read_numbers(caller, backend, name, column)
    if array.shape[0] == 0:
        return backend.empty(0, dtype)
    xp = backend.xp
    with np.errstate(over="ignore"):
        weights = xp.ascontiguousarray(array, dtype=dtype)
    if not validate and array.dtype == dtype:
        return weights
    bad = xp.isnan(weights)
    if bool(bad.any()):
        raise InputError(f"{caller}: `{name}` is NaN at row {int(xp.argmax(bad))}; a weight must be a number")
    if array.dtype.itemsize > weights.dtype.itemsize:
        bad = xp.isinf(weights) & ~xp.isinf(array.astype(np.float64))
        if bool(bad.any()):
            row = int(xp.argmax(bad))
            raise LimitError(f"{caller}: `{name}` has {float(array[row])} at row {row}; that does not fit {dtype}")
    return weights
