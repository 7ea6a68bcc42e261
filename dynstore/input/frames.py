"""Output of tables in the library that a graph was made for."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import check_name
from dynstore.errors import MissingDependencyError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array, Frame, Frames

__all__ = ["LIBRARIES", "check_frames", "frame_library", "make_cudf_frame", "make_frame"]

# Library -> how to install it.
LIBRARIES = {
    "cudf": "pip install 'dynstore[rapids]'",
    "pandas": "pip install pandas",
    "polars": "pip install polars",
    "pyarrow": "pip install pyarrow",
}


@lru_cache(maxsize=len(LIBRARIES))
def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def check_frames(caller: str, frames: Any) -> Frames:
    """Return ``frames``, the name of a library or "auto"; refuse any other name.

    Raises
    ------
    InputError
        For an unknown name.
    MissingDependencyError
        For a library that is not installed.
    """
    check_name(caller, "frames", frames, ["auto", *LIBRARIES])
    if frames == "auto":
        return "auto"
    if not _is_installed(frames):
        raise MissingDependencyError(
            f"{caller}: frames is {frames!r}, which is not installed; to install it: {LIBRARIES[frames]}"
        )
    library: Frames = frames
    return library


def frame_library(backend: Backend, frames: Frames) -> Frames:
    """Return the library of frames; "auto" is cuDF on CUDA if it is installed, else pandas."""
    return frames if frames != "auto" else "cudf" if backend.on_gpu and _is_installed("cudf") else "pandas"


def make_frame(backend: Backend, columns: Mapping[str, Array], frames: Frames = "auto") -> Frame:
    """Make a frame of equally long arrays of ``backend``, columns in the order given.

    Columns of strings are NumPy arrays of objects, whatever the backend; None in them is a missing value.

    Parameters
    ----------
    frames : {"auto", "pandas", "polars", "cudf", "pyarrow"}
        See :func:`frame_library`. Columns for pandas may be series.
    """
    frames = frame_library(backend, frames)
    make = _MAKERS[frames]
    if frames == "cudf":
        return make(columns)
    return make({name: array if _on_host(array) else backend.to_host(array) for name, array in columns.items()})


def _make_pandas_frame(columns: Mapping[str, np.ndarray]) -> Frame:
    import pandas

    def column(array: np.ndarray) -> Any:  # pandas does not find the dtype of strings for a column without any
        return pandas.Series(array, dtype=pandas.Series([""]).dtype) if _is_text(array) else array

    frame: Frame = pandas.DataFrame({name: column(array) for name, array in columns.items()})
    return frame


def _make_polars_frame(columns: Mapping[str, np.ndarray]) -> Frame:
    import polars

    def column(array: np.ndarray) -> Any:
        return polars.Series(array.tolist(), dtype=polars.String) if _is_text(array) else array

    frame: Frame = polars.DataFrame({name: column(array) for name, array in columns.items()})
    return frame


def _make_pyarrow_table(columns: Mapping[str, np.ndarray]) -> Frame:
    import pyarrow

    def column(array: np.ndarray) -> Any:
        return pyarrow.array(array, type=pyarrow.string() if _is_text(array) else None)

    table: Frame = pyarrow.table({name: column(array) for name, array in columns.items()})
    return table


def _make_any_cudf_frame(columns: Mapping[str, Array]) -> Frame:
    import cudf

    hosted = {name: array for name, array in columns.items() if isinstance(array, np.ndarray) and _is_text(array)}
    texts = {name: cudf.Series(array.tolist()) for name, array in hosted.items()}
    return make_cudf_frame(cudf, {**columns, **texts})


_MAKERS: dict[str, Callable[[Mapping[str, Any]], Frame]] = {
    "cudf": _make_any_cudf_frame,
    "pandas": _make_pandas_frame,
    "polars": _make_polars_frame,
    "pyarrow": _make_pyarrow_table,
}


def make_cudf_frame(cudf: Any, columns: Mapping[str, Any]) -> Frame:
    """Make a cuDF frame of equally long columns: over the memory of contiguous arrays of numbers, without a copy.

    Such arrays, and series of cuDF, go through pylibcudf, which takes a third of the time of ``cudf.DataFrame``.
    """
    arrays = list(columns.values())
    if not all(hasattr(array, "to_pylibcudf") or _is_packed_on_gpu(array) for array in arrays):
        frame: Frame = cudf.DataFrame(dict(columns))
        return frame
    import pylibcudf

    read = pylibcudf.Column.from_cuda_array_interface
    series = [array.to_pylibcudf()[0] if hasattr(array, "to_pylibcudf") else read(array) for array in arrays]
    table = pylibcudf.Table(series)
    frame = cudf.DataFrame.from_pylibcudf(table, {"columns": list(columns)})
    return frame


def _is_packed_on_gpu(array: Array) -> bool:
    numbers = hasattr(array, "flags") and array.size and array.ndim == 1 and array.dtype.kind in "iuf"
    # Of the type: an array makes the interface each time that it is read.
    return numbers and array.flags.c_contiguous and hasattr(type(array), "__cuda_array_interface__")


def _is_text(array: Array) -> bool:
    return bool(array.dtype == object)


def _on_host(array: Array) -> bool:
    return isinstance(array, np.ndarray) or type(array).__module__.split(".")[0] == "pandas"
