"""The translation between the ids that users write and the numbers that stores hold.

:class:`DenseIds`: an id is its number. :class:`dynstore.ids.mapped.MappedIds` (``renumber=True``): any integers or
strings, through a map. Both plan first, like the stores: a plan reads and reserves, and may raise; its commit only
writes, and cannot fail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import listed
from dynstore.backend import get_backend
from dynstore.errors import InputError, LimitError
from dynstore.input.columns import Bounds, EdgeColumns, read_column, read_edges, read_ids

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch, EdgeBatch
    from dynstore.typing import Array

__all__ = ["DenseIds", "Rearrangement", "RenumberingPlan", "VertexIds", "nothing"]

MIN_MAX_VERTICES = 1 << 24
MAX_VERTICES_FACTOR = 8
INT64 = np.dtype(np.int64)

Names = tuple[str, str, str | None]


def nothing() -> None:
    """Change nothing: the commit of a plan that has nothing to write."""


@dataclass(slots=True)
class RenumberingPlan:
    """What an update does to the ids.

    Attributes
    ----------
    num_vertices : int
        V afterwards.
    commit : callable or None
        Writes the new ids, and which deleted ones come back; cannot fail. None if there are none of either.
    arrange : callable or None
        For the first edges of an empty graph: gets the batch under the numbers given so far, and returns it under its
        final numbers.
    ranks : array, shape (V,), or None
        What :attr:`arrange` has found: the final number of each number given so far.
    new : array or DeviceStrings, or None
        With ``renumber=True``, the new ids, distinct and ascending, in the form in which the table keeps ids; None if
        there are none.
    numbers : array, int64, or None
        The number of each new id before :attr:`arrange`.
    read_from : tuple or None
        The two columns of ids that this was read from, where the edges go on as numbers, as in the slide of a window. A
        log of updates wants them.
    """

    num_vertices: int
    commit: Callable[[], None] | None = None
    arrange: Callable[[Batch], EdgeBatch] | None = None
    ranks: Array | None = None
    new: Any = None
    numbers: Array | None = None
    read_from: tuple[Any, ...] | None = None

    @property
    def keeps_ids(self) -> bool:
        """Whether it names no id that is new or comes back: at most V grows, in a graph of plain numbers."""
        return self.new is None and self.commit is None


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """Numbers in order of falling degree, and how far the present ones are from that order.

    Attributes
    ----------
    ranks : array, shape (V,), vertex dtype
        The new number of each old one.
    vertex_drift, edge_drift : float
    moved : int
        See :class:`dynstore.typing.ReorderReport`.
    commit : callable
        Makes the new numbers those of the ids; cannot fail.
    """

    ranks: Array
    vertex_drift: float
    edge_drift: float
    moved: int
    commit: Callable[[], None]


class VertexIds(ABC):
    """The ids of one graph's vertices.

    Attributes
    ----------
    renumbered : bool
        Whether ids and numbers differ.
    reuse_ids : bool
        Whether a new id may take over the number of a deleted vertex.
    epoch : int
        Changes when all numbers may mean other vertices than before: by reordering and clearing. It does not change
        when a new id takes over one number.
    """

    renumbered: bool
    reuse_ids: bool = False
    epoch: int = 0

    def __init__(self, backend: Backend, dtype: np.dtype, max_vertices: int | None) -> None:
        self.backend = backend
        self.dtype = dtype
        self.max_vertices = max_vertices

    @property
    def kind(self) -> str:
        """What ids are, "integer" or "string"."""
        return "integer"

    @abstractmethod
    def plan_edges(
        self, caller: str, edges: Any, names: Names, weight_dtype: np.dtype | None, num_vertices: int,
        validate: bool = True, bounds: Bounds | None = None,
    ) -> tuple[EdgeColumns, RenumberingPlan]:  # fmt: skip
        """Read edges to insert into a graph of ``num_vertices`` vertices, as numbers.

        ``validate``, ``bounds``: see :func:`~dynstore.input.columns.read_edges`; without validation all ids count as
        vertices.
        """

    @abstractmethod
    def plan_vertices(self, caller: str, ids: Any, num_vertices: int) -> RenumberingPlan:
        """Read vertices to insert."""

    @abstractmethod
    def plan_deletion(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Callable[[], None]]:
        """Read vertices to delete. Return the numbers of those in the graph, and the commit."""

    @abstractmethod
    def plan_clear(self) -> Callable[[], None]:
        """Plan the removal of all ids."""

    @abstractmethod
    def plan_order(self, degrees: Array) -> Rearrangement:
        """Plan to number the vertices by falling degree, equal degrees by id.

        Parameters
        ----------
        degrees : array, shape (V,), any integers
        """

    @abstractmethod
    def find_edges(
        self,
        caller: str,
        edges: Any,
        names: Names,
        weight_dtype: np.dtype | None,
        num_vertices: int,
        validate: bool = True,
    ) -> EdgeColumns:
        """Read edges to look for, as numbers; unknown ids get numbers of their own from V on.

        ``validate=False``: see :func:`~dynstore.input.columns.read_edges`.
        """

    def match_edges(
        self, caller: str, edges: Any, names: Names, weight_dtype: np.dtype | None, num_vertices: int
    ) -> tuple[EdgeColumns, Any]:
        """Read edges as numbers; also return the ids that are no vertices.

        Returns
        -------
        columns : EdgeColumns
        strangers : array or DeviceStrings, or None
            With ``renumber=True``, the ids that are no vertices, distinct and ascending, in the form in which the table
            keeps ids. Their numbers go from V on, in this order.
        """
        return self.find_edges(caller, edges, names, weight_dtype, num_vertices), None

    @abstractmethod
    def find(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Any]:
        """Read vertices to look for.

        Returns
        -------
        numbers : array, shape (B,), int64
            -1 for ids that are no vertices.
        stranger
            One of these ids, or None.
        """

    def find_on_host(self, caller: str, ids: Any, num_vertices: int) -> tuple[np.ndarray, Any]:
        """Do the same as :meth:`find`, with the numbers on the host; sets and iterators are read, too."""
        numbers, stranger = self.find(caller, listed(ids), num_vertices)
        return self.backend.to_host(numbers), stranger

    @abstractmethod
    def find_planned(
        self, caller: str, columns: Sequence[tuple[str, Any]], num_vertices: int, plan: RenumberingPlan
    ) -> list[Array]:
        """Read one or two columns of ids, with their names, as numbers under a plan that is not committed.

        Returns
        -------
        list of arrays, int64
            Ids that are no vertices, before the plan or after it, get numbers of their own from its V on. With
            ``reuse_ids``, a vertex whose number the plan gives to another id is none.
        """

    @abstractmethod
    def planned_column(self, numbers: Array, num_vertices: int, plan: RenumberingPlan, library: str) -> Any:
        """Return ids of numbers under a plan that is not committed, as a column of a frame of a library."""

    @abstractmethod
    def planned_order(self, numbers: Array, num_vertices: int, plan: RenumberingPlan) -> Array:
        """Return numbers of distinct vertices under a plan that is not committed, in ascending order of the ids."""

    @abstractmethod
    def of(self, numbers: Array, num_vertices: int) -> Array:
        """Return the ids of vertices; a negative number stands for none: -1, or None among strings."""

    @abstractmethod
    def holds(self, vertex: int | str, num_vertices: int) -> bool:
        """Return whether ``vertex`` is a vertex; False for ids that can be none."""

    @abstractmethod
    def all(self, num_vertices: int) -> Array:
        """Return the ids of all vertices in the order of their numbers, in an array that the caller may keep."""

    def numbers_of(self, caller: str, vertices: Any, num_vertices: int) -> Array:
        """Return the numbers of vertices, int64, in the order given.

        Raises
        ------
        InputError
            If one is no vertex.
        """
        numbers, stranger = self.find(caller, listed(vertices), num_vertices)
        if stranger is not None:
            raise InputError(f"{caller}: vertex {stranger!r} is not in the graph{self._known(num_vertices)}")
        return numbers

    def column(self, num_vertices: int, library: str, numbers: Array | None = None) -> Any:
        """Return ids as a column of a frame of a library: of all vertices, or as :meth:`of` does."""
        return self.all(num_vertices) if numbers is None else self.of(numbers, num_vertices)

    def ends(
        self, src: Array, dst: Array, num_vertices: int, once: bool, library: str | None = None
    ) -> tuple[Any, Any]:
        """Return the ids of edges' ends: arrays or, for frames of a library, what :meth:`column` returns.

        ``once``: an edge is undirected; the lower id comes first.
        """
        low, high = (self.of(numbers, num_vertices) for numbers in (src, dst))
        if not once or not self.renumbered:
            return low, high
        turned = low > high
        xp = np if isinstance(low, np.ndarray) else self.backend.xp  # strings are on the host
        return xp.where(turned, high, low), xp.where(turned, low, high)

    def by_id(self, numbers: Array, num_vertices: int) -> Array:
        """Return numbers of distinct vertices in ascending order of the ids."""
        if not self.renumbered:
            return self.backend.xp.sort(numbers)
        return numbers[self.backend.asarray(self.of(numbers, num_vertices).argsort())]

    def number_of(self, caller: str, vertex: Any, num_vertices: int) -> int:
        """Return the number of one vertex.

        Raises
        ------
        InputError
            If it is no vertex, or not a single one.
        """
        numbers = self.numbers_of(caller, vertex, num_vertices)
        if numbers.shape[0] != 1:
            raise InputError(f"{caller}: got {numbers.shape[0]} vertices; wanted one id")
        return int(numbers[0])

    def _known(self, num_vertices: int) -> str:
        return ""

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part."""
        return {}

    def columns(self, num_vertices: int, kept: Array | None = None) -> dict[str, Array]:
        """Return what :meth:`plan_columns` makes the same ids of, in new arrays; nothing where ids are numbers.

        Parameters
        ----------
        num_vertices : int
        kept : array, ascending, optional
            The numbers of the vertices to keep, by default all. They become 0, 1, 2 ...

        Returns
        -------
        dict
            ``id``, shape (V,): int64, or a NumPy array of strings; ``deleted``, bool, shape (V,), where vertices are
            deleted whose numbers may be used again.
        """
        return {}

    def plan_columns(self, columns: Mapping[str, Array]) -> Callable[[], None]:
        """Plan to give the vertices of a graph without ids those of :meth:`columns`."""
        return nothing

    @abstractmethod
    def copy(self) -> VertexIds:
        """Return an independent copy."""


def _is_row(vertex: Any, num_vertices: int) -> bool:
    """Whether this is one integer, and a vertex where ids are numbers: the usual call, in which all else is spared."""
    is_integer = isinstance(vertex, int | np.integer) and not isinstance(vertex, bool)
    return is_integer and bool(0 <= vertex < num_vertices)


class DenseIds(VertexIds):
    """Ids are the numbers 0 .. V-1."""

    renumbered = False

    def plan_edges(
        self, caller: str, edges: Any, names: Names, weight_dtype: np.dtype | None, num_vertices: int,
        validate: bool = True, bounds: Bounds | None = None,
    ) -> tuple[EdgeColumns, RenumberingPlan]:  # fmt: skip
        columns = read_edges(caller, self.backend, edges, names, self.dtype, weight_dtype, validate, bounds)
        if columns.max_id is None:
            return columns, RenumberingPlan(num_vertices)
        return columns, self._plan_up_to(caller, columns.max_id, num_vertices)

    def plan_vertices(self, caller: str, ids: Any, num_vertices: int) -> RenumberingPlan:
        _, highest = read_ids(caller, self.backend, ids, self.dtype)
        return self._plan_up_to(caller, highest, num_vertices)

    def plan_deletion(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Callable[[], None]]:
        numbers, _ = read_ids(caller, self.backend, ids, self.dtype)
        return numbers[numbers < num_vertices], nothing

    def plan_clear(self) -> Callable[[], None]:
        return nothing

    def find_edges(
        self,
        caller: str,
        edges: Any,
        names: Names,
        weight_dtype: np.dtype | None,
        num_vertices: int,
        validate: bool = True,
    ) -> EdgeColumns:
        return read_edges(caller, self.backend, edges, names, self.dtype, weight_dtype, validate)

    def plan_order(self, degrees: Array) -> Rearrangement:
        raise InputError(
            "reorder: without renumber=True the ids are the rows, and their order is fixed; make it with renumber=True"
        )

    def find(self, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Any]:
        return self._find_by(self.backend, caller, ids, num_vertices)

    def find_on_host(self, caller: str, ids: Any, num_vertices: int) -> tuple[np.ndarray, Any]:
        if _is_row(ids, num_vertices):
            return np.array([ids], INT64), None
        ids = listed(ids)
        if not isinstance(ids, int | np.integer | list | np.ndarray):
            return super().find_on_host(caller, ids, num_vertices)
        return self._find_by(get_backend("cpu"), caller, ids, num_vertices)  # no copy to the device and back

    @staticmethod
    def _find_by(backend: Backend, caller: str, ids: Any, num_vertices: int) -> tuple[Array, Any]:
        numbers, highest = read_ids(caller, backend, ids, INT64)
        if highest < num_vertices:
            return numbers, None
        return backend.xp.where(numbers < num_vertices, numbers, -1), highest

    def number_of(self, caller: str, vertex: Any, num_vertices: int) -> int:
        return int(vertex) if _is_row(vertex, num_vertices) else super().number_of(caller, vertex, num_vertices)

    def find_planned(
        self, caller: str, columns: Sequence[tuple[str, Any]], num_vertices: int, plan: RenumberingPlan
    ) -> list[Array]:
        xp, known = self.backend.xp, plan.num_vertices
        parts = [read_column(caller, self.backend, *column, INT64)[0].astype(np.int64) for column in columns]
        strangers = xp.unique(xp.concatenate([part[part >= known] for part in parts]))
        if not strangers.shape[0]:
            return parts
        return [xp.where(part < known, part, known + xp.searchsorted(strangers, part)) for part in parts]

    def planned_column(self, numbers: Array, num_vertices: int, plan: RenumberingPlan, library: str) -> Any:
        return numbers.astype(self.dtype, copy=False)

    def planned_order(self, numbers: Array, num_vertices: int, plan: RenumberingPlan) -> Array:
        return self.backend.xp.sort(numbers)

    def of(self, numbers: Array, num_vertices: int) -> Array:
        return numbers

    def holds(self, vertex: int | str, num_vertices: int) -> bool:
        return not isinstance(vertex, str) and 0 <= vertex < num_vertices

    def all(self, num_vertices: int) -> Array:
        return self.backend.xp.arange(num_vertices, dtype=self.dtype)

    def copy(self) -> VertexIds:
        return self  # it holds no data of a graph

    def _known(self, num_vertices: int) -> str:
        return f"; ids go to {num_vertices - 1}"

    def _plan_up_to(self, caller: str, max_id: int, num_vertices: int) -> RenumberingPlan:
        limit = self.max_vertices
        if limit is None:
            limit = max(MIN_MAX_VERTICES, MAX_VERTICES_FACTOR * num_vertices)
        if max_id >= max(limit, num_vertices):
            raise LimitError(
                f"{caller}: id {max_id} would make rows for all {max_id + 1} ids up to it; max_vertices is {limit}. "
                "Set it higher, or make the graph with renumber=True, which makes rows only for ids that occur"
            )
        return RenumberingPlan(max(num_vertices, max_id + 1))
