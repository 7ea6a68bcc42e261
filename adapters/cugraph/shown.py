"""The ids that cuGraph shows for the rows of a graph: integers, or numbers that stand for strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.adapters.tables.columns import kept_ids

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["STRING", "ShownIds", "is_integer", "shown_ids"]

CALLER = "cuGraph"
# The type in which cuGraph shows strings.
STRING = "string"


@dataclass(frozen=True, eq=False, slots=True)
class ShownIds:
    """The ids of all rows.

    Attributes
    ----------
    number_map : CuPy array, shape (V,), int32 or int64
        The integer that cuGraph shows for each row: the id or, for strings, the row's number.
    strings : cudf.Series or, for a graph on the host, numpy.ndarray, shape (V,), or None
        The strings that the numbers stand for.
    renumbered : bool
        Whether ``number_map`` differs from 0 .. V-1.
    """

    number_map: Array
    strings: Any
    renumbered: bool

    @property
    def num_vertices(self) -> int:
        """V, the number of rows."""
        return int(self.number_map.shape[0])

    def takes(self, value: Any, many: bool = False, exact: bool = False) -> bool:
        """Return whether a value can be ids of the graph, as cuGraph reads it: integers or strings.

        Parameters
        ----------
        many : bool
            Lists and series are allowed, too.
        exact : bool
            cuGraph makes a series of integers, int64, and wants it to be of the type of the ids.
        """
        if many and not is_integer(value) and isinstance(value, require(CALLER, "cudf").Series):
            # Series of another width are cast by some functions, and misread by others.
            texts = str(value.dtype) in ("object", "str", "string")
            return texts if self.strings is not None else value.dtype == self.number_map.dtype
        values = value if many and isinstance(value, list) else [value]
        if exact and self.number_map.dtype != np.int64:
            return False
        return all(isinstance(one, str) if self.strings is not None else is_integer(one) for one in values)

    def strings_on_host(self) -> np.ndarray:
        """Return the strings, of which there are some, as Python's, shape (V,)."""
        strings = self.strings
        return strings if isinstance(strings, np.ndarray) else np.array(strings.to_arrow().to_pylist(), dtype=object)


def is_integer(value: Any) -> bool:
    """Return whether an argument is one integer, of Python or of NumPy; flags are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def shown_ids(G: DynamicGraph) -> ShownIds:
    """Return the ids of the graph's rows; made anew only if there are new ids."""
    return kept_ids(G, "cugraph", lambda: _read(G))


def _read(G: DynamicGraph) -> ShownIds:
    cupy, num_vertices = require(CALLER, "cupy"), G.number_of_vertices()
    if not G.is_renumbered():
        return ShownIds(cupy.arange(num_vertices, dtype=G.vertex_dtype), None, False)
    if G.core.ids.kind == "string":
        strings = G.core.ids.column(num_vertices, "cudf")
        return ShownIds(cupy.arange(num_vertices, dtype=G.vertex_dtype), strings, False)
    ids = G.vertex_ids()
    # cuGraph needs ids and row numbers of one type; ids beyond int32 make both int64.
    highest = int(ids.max()) if num_vertices else 0
    dtype = G.vertex_dtype if highest < np.iinfo(np.int32).max else np.dtype(np.int64)
    return ShownIds(cupy.asarray(ids, dtype=dtype), None, True)
