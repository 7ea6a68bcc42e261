"""A graph whose edges lie in the memory of this process: what a graph, its views and its pins answer."""

from __future__ import annotations

from functools import reduce
from html import escape
from operator import add
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from dynstore.arguments import check_count, check_flag, check_integer
from dynstore.errors import StaleSnapshotError
from dynstore.graph.conversions import Tables
from dynstore.graph.events.questions import EventQuestions, refuse_weights
from dynstore.graph.readable import ReadableGraph
from dynstore.graph.saving import folder_of, write_state
from dynstore.input.frames import frame_library, make_frame
from dynstore.interrupts import MemoryChecked
from dynstore.lookup import provided

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from dynstore.graph.core import GraphCore
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array, Frame, Memory

__all__ = ["LocalGraph"]

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class LocalGraph(Tables, EventQuestions, ReadableGraph):
    """A graph in the memory of this process, on the host or on a GPU; several threads may ask it at once.

    Attributes
    ----------
    core : GraphCore
        What the graph consists of, for algorithms, adapters and other packages.
    vertex_dtype, weight_dtype : numpy.dtype
    store_name : str
        As they were chosen; see :class:`DynamicGraph`.
    """

    def __init__(self, core: GraphCore) -> None:
        self.core, self.store_name = core, core.store_name
        self.vertex_dtype, self.weight_dtype = core.vertex_dtype, core.weight_dtype

    # ------------------------------------------------------------------ what it is

    @property
    def version(self) -> int:
        return self.core.lease.version

    @property
    def device(self) -> str:
        return self.core.backend.name

    @property
    def memory(self) -> Memory:
        """Where the edges lie: "device", or "host" for host memory, which kernels of a GPU use in place."""
        return self.core.memory

    def is_directed(self) -> bool:
        return self.core.directed

    def is_weighted(self) -> bool:
        return self.core.weighted

    def is_renumbered(self) -> bool:
        return self.core.ids.renumbered

    def number_of_vertices(self) -> int:
        return self.core.out.num_vertices

    def number_of_edges(self) -> int:
        return self.core.num_edges

    def __contains__(self, vertex: object) -> bool:
        """Return whether ``vertex`` is a vertex; False for whatever is no integer and no string."""
        if isinstance(vertex, bool) or not isinstance(vertex, int | np.integer | str):
            return False
        return self.core.ids.holds(vertex if isinstance(vertex, str) else int(vertex), self.number_of_vertices())

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the vertices of the present version, as :meth:`vertex_ids`: Python integers or strings."""
        return iter(self.core.backend.to_host(self.vertex_ids()).tolist())

    def vertex_ids(self) -> Array:
        return self.core.ids.all(self.number_of_vertices())

    def vertex_numbers(self, ids: Any) -> Array:
        """Return the row of each id.

        Parameters
        ----------
        ids : int, str, list, array, series or frame of one column
            The ids to look up.

        Returns
        -------
        array, shape (B,), int64
            Rows of :meth:`snapshot` and of all results; -1 for an unknown id.
        """
        numbers, _ = self.core.ids.find("vertex_numbers", ids, self.number_of_vertices())
        return numbers

    @property
    def edge_dtypes(self) -> dict[str, np.dtype]:
        """The extra columns of edges and their dtypes, in order; see :class:`DynamicGraph`."""
        return self.core.edge_dtypes

    @property
    def timestamps(self) -> np.dtype | None:
        """The dtype of the column ``time``, the last time of each edge; None for a graph that keeps no times."""
        return self.core.timestamps

    def statistics(self) -> dict[str, int]:
        """Return the counts that the store keeps of its work; see the page of the store.

        Returns
        -------
        dict of int
            Counts by name.
        """
        return self.core.out.statistics()

    def memory_usage(self) -> dict[str, int]:
        """Return the bytes in use, by part and in "total".

        Returns
        -------
        dict of int
            Parts of the in-edges begin with ``in_``. With ``renumber=True``, ``vertex_map`` is the map of the ids. With
            extra columns of edges, ``edge_columns`` is the table of their values and of the weights, and ``weights``
            holds the place of each edge in this table. In a multigraph ``log`` has the edges, ``pairs`` the records of
            pairs, and ``edge_ids`` the table of the user's own ids, if they do not ascend. If edges lie in host memory
            beside a GPU (:attr:`memory`), ``host`` is the sum of what lies there, and ``device`` that of all else.
        """
        parts = self.core.out.memory_usage()
        if self.core.into is not None:
            parts |= {f"in_{part}": size for part, size in self.core.into.memory_usage().items()}
        parts |= self.core.ids.memory_usage()
        parts |= self.core.memory_of_columns()
        total = {"total": sum(parts.values())}
        if self.core.out.memory == "host":
            host = self.core.host_bytes
            total |= {"host": host, "device": total["total"] - host}
        return parts | total

    def __repr__(self) -> str:
        kind = ("directed" if self.core.directed else "undirected") + (" weighted" if self.core.weighted else "")
        kind += " multigraph" if self.core.shows_events else ""
        return (
            f"{type(self).__name__}({kind}, {self.number_of_vertices()} vertices, {self.number_of_edges()} edges, "
            f"store={self.store_name!r}, device={self.device!r}, version={self.version})"
        )

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        rows = {
            "vertices": f"{self.number_of_vertices():,}",
            "edges": f"{self.number_of_edges():,}",
            "directed": "yes" if self.core.directed else "no",
            "weighted": "yes" if self.core.weighted else "no",
            "store": self.store_name,
            "device": self.device,
            "version": f"{self.version:,}",
            "memory": _show_bytes(self.memory_usage()["total"]),
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table><caption>dynstore.{type(self).__name__}</caption><tbody>{cells}</tbody></table>"

    # ------------------------------------------------------------------ edges

    def edge_table(self) -> Frame:
        library = frame_library(self.core.backend, self.core.frames)
        return make_frame(self.core.backend, self.core.all_columns(library), self.core.frames)

    def edge_columns(self) -> dict[str, Array]:
        """Return the edges as new arrays, sorted by source and destination.

        With ``renumber=True`` the order is that of the row numbers. An undirected edge appears once, with
        source <= destination.

        Returns
        -------
        dict of arrays, shape (E,)
            ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return self.core.all_columns()

    def iterate_edges(self, max_edges: int = 1 << 20) -> Iterator[dict[str, Array]]:
        """Yield the :meth:`edge_columns` in pieces.

        Vertices come in the order of their rows. All edges of a vertex are in one piece, in ascending order (with
        ``store="slab_hash"`` in any order). A store with separate rows makes no table of all edges for this.

        Parameters
        ----------
        max_edges : int
            The most edges in a piece; undirected edges count in both directions. A vertex with more edges is a piece by
            itself.

        Returns
        -------
        iterator of dicts of arrays
            Each as :meth:`edge_columns`.

        Raises
        ------
        InputError
            If ``max_edges`` is below 1.
        StaleSnapshotError
            From the iterator, if the graph was updated after its first piece.
        """
        caller, name = "iterate_edges", "max_edges"
        check_count(caller, name, check_integer(caller, name, max_edges), least=1)
        return self._pieces(int(max_edges))

    def _pieces(self, max_edges: int) -> Iterator[dict[str, Array]]:
        core: Any = self.core
        if core.shows_events:
            yield from core.event_pieces(max_edges)
            return
        store, version, xp = core.out, self.version, core.backend.xp
        ends, low, before = store.row_ends(), 0, 0
        while low < store.num_vertices:
            if version != self.version:
                raise StaleSnapshotError(
                    f"iterate_edges: it began at version {version} of the graph, which is now at version "
                    f"{self.version}; begin again after an update"
                )
            wanted = core.backend.asarray(np.array([before + max_edges]))
            high = max(int(xp.searchsorted(ends, wanted, side="right")[0]), low + 1)
            src, dst, stored = store.read_rows(low, high)
            if not core.directed:
                once = src <= dst
                src, dst, stored = src[once], dst[once], None if stored is None else stored[once]
            low, before = high, int(ends[high - 1])
            if src.shape[0]:
                yield core.columns_of(src, dst, stored)

    def snapshot(self, transposed: bool = False) -> GapCSR:
        """Return the current version as compressed sparse rows with gaps, without a copy.

        It can be read until the next update. Its rows are the vertices 0 to V - 1; with ``renumber=True``,
        :meth:`vertex_ids` has their ids.

        Parameters
        ----------
        transposed : bool
            If True, rows are destinations: the in-edges. Undirected graphs have only one orientation. A directed graph
            makes the second one on the first request, and keeps it from then on. A failed update may also end such a
            snapshot.

        Returns
        -------
        GapCSR
            The same object until the next update.
        """
        return self.core.snapshot(transposed)

    def snapshot_columns(self, transposed: bool = False) -> dict[str, Array]:
        """Return the extra columns of edges in the order of :meth:`snapshot`'s slots.

        Parameters
        ----------
        transposed : bool
            As for :meth:`snapshot`.

        Returns
        -------
        dict of arrays, shape (S,)
            New arrays, by name. Gaps have any values.
        """
        if self.core.records is None:
            return {}
        self.snapshot(transposed)
        return self.core.records.extra_values(self.core.oriented(transposed).slots.weights)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the graph to a folder, from which :func:`dynstore.load` makes it again on any device.

        The folder is complete or does not exist, even if the machine stops: the graph is first written to a temporary
        folder beside it. ``docs/save-and-restore.md`` describes its files.

        Parameters
        ----------
        path : str or path
            The new folder. Its parent folder must exist. "~" stands for the home folder.
        overwrite : bool
            If True, replace a graph that was saved there. The old one stays until the new one is complete.

        Raises
        ------
        InputError
            If ``path`` exists and is no saved graph, or is one and ``overwrite`` is False.
        OSError
            If the disk is full, or the folder cannot be written. FileNotFoundError if the parent folder is missing.
        """
        folder, overwrite = folder_of("save", path), check_flag("save", "overwrite", overwrite)
        with MemoryChecked("save"):
            write_state(self.core.state().moved(self.core.backend.to_host), folder, overwrite)

    def _look_up(self, caller: str, edges: Any, source: str, destination: str, weights: bool) -> Array:
        core = self.core
        if weights:
            refuse_weights(caller, core)
        columns = core.ids.find_edges(caller, edges, (source, destination, None), None, core.out.num_vertices)
        there, stored = core.out.look_up(columns.src, columns.dst)
        if not weights:
            return there
        stored = core.weights_of(stored)
        found: Array = core.backend.empty(there.shape[0], core.weight_dtype)
        found.fill(np.nan)
        found[there] = 1 if stored is None else stored[there]
        return found

    # ------------------------------------------------------------------ rows

    @overload
    def successors(self, vertex: Any, weights: Literal[False] = ...) -> Array: ...

    @overload
    def successors(self, vertex: Any, weights: Literal[True]) -> tuple[Array, Array]: ...

    def successors(self, vertex: Any, weights: bool = False) -> Array | tuple[Array, Array]:
        """Return the destinations of all edges from a vertex.

        Parameters
        ----------
        vertex : int or str
            The vertex.
        weights : bool
            If True, return the weights of these edges, too.

        Returns
        -------
        array, shape (D,), or with ``weights`` a pair of such arrays
            The ids, ascending, and the weights in the weight dtype; they are 1 in an unweighted graph.

        Raises
        ------
        InputError
            If the vertex is not in the graph.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(weighted=True, device="cpu")
        >>> _ = G.insert_edges(([0, 0], [2, 1], [0.5, 4.0]))
        >>> G.successors(0).tolist()
        [1, 2]
        >>> [column.tolist() for column in G.successors(0, weights=True)]
        [[1, 2], [4.0, 0.5]]
        """
        return self._row("successors", vertex, weights, transposed=False)

    @overload
    def neighbors(self, vertex: Any, weights: Literal[False] = ...) -> Array: ...

    @overload
    def neighbors(self, vertex: Any, weights: Literal[True]) -> tuple[Array, Array]: ...

    def neighbors(self, vertex: Any, weights: bool = False) -> Array | tuple[Array, Array]:
        """Return the :meth:`successors`, as ``neighbors`` of NetworkX and cuGraph does.

        Parameters
        ----------
        vertex : int or str
            The vertex.
        weights : bool
            If True, return the weights of these edges, too.

        Returns
        -------
        array, shape (D,), or with ``weights`` a pair of such arrays
            As :meth:`successors`.
        """
        return self._row("neighbors", vertex, weights, transposed=False)

    @overload
    def predecessors(self, vertex: Any, weights: Literal[False] = ...) -> Array: ...

    @overload
    def predecessors(self, vertex: Any, weights: Literal[True]) -> tuple[Array, Array]: ...

    def predecessors(self, vertex: Any, weights: bool = False) -> Array | tuple[Array, Array]:
        """Return the sources of all edges to a vertex.

        The first call on a directed graph makes a table of in-edges. Updates keep it from then on.

        Parameters
        ----------
        vertex : int or str
            The vertex.
        weights : bool
            If True, return the weights of these edges, too.

        Returns
        -------
        array, shape (D,), or with ``weights`` a pair of such arrays
            As :meth:`successors`.
        """
        return self._row("predecessors", vertex, weights, transposed=True)

    def row_lengths(self, transposed: bool = False) -> Array:
        """Return the number of edges in each row of :meth:`snapshot`.

        Parameters
        ----------
        transposed : bool
            Count the in-edges of each vertex instead of its out-edges. This does not make the table of in-edges.

        Returns
        -------
        array, shape (V,), in the vertex dtype
        """
        return self.core.row_lengths(transposed)

    def k_hop(self, vertices: Any, k: int) -> Frame:
        """Find the vertices that can be reached by at most ``k`` edges, in the direction of the edges.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them
            The vertices to begin at, at least one.
        k : int
            The most edges, 0 or more.

        Returns
        -------
        frame
            Columns ``vertex``, ascending, and ``distance``: the number of edges from the nearest of ``vertices``, in
            the vertex dtype. The vertices themselves are in it, with 0; those farther away are not.

        Raises
        ------
        InputError
            If a vertex is not in the graph, no vertex is given, or ``k`` is below 0.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(device="cpu")
        >>> _ = G.insert_edges(([3, 2, 1], [2, 1, 0]))
        >>> G.k_hop(3, 2)
           vertex  distance
        0       1         2
        1       2         1
        2       3         0
        """
        found: Frame = provided("hops").k_hop(self, vertices, k)
        return found

    def _row(self, caller: str, vertex: Any, weighted: bool, transposed: bool) -> Any:
        core, xp = self.core, self.core.backend.xp
        num_vertices = core.out.num_vertices
        number, store = core.ids.number_of(caller, vertex, num_vertices), core.oriented(transposed)
        row = store.row(number)
        ids = core.ids.of(row, num_vertices) if core.ids.renumbered else row
        if weighted:
            refuse_weights(caller, core)
        if not weighted:
            if core.ids.renumbered:
                ids.sort()
            return ids
        weights = core.weights_of(store.look_up(xp.full(row.shape[0], number, dtype=row.dtype), row)[1])
        if weights is None:
            weights = xp.ones(row.shape[0], dtype=core.weight_dtype)
        order = ids.argsort()
        return ids[order], weights[core.backend.asarray(order)]

    def _degrees(self, caller: str, vertices: Any, orientations: tuple[bool, ...]) -> int | Frame:
        core, num_vertices = self.core, self.number_of_vertices()
        if vertices is not None and np.isscalar(vertices):
            number = core.ids.number_of(caller, vertices, num_vertices)
            return sum(core.row_length(number, transposed) for transposed in orientations)
        numbers = None if vertices is None else core.ids.numbers_of(caller, vertices, num_vertices)
        degrees = reduce(add, [core.row_lengths(transposed) for transposed in orientations])
        library = frame_library(core.backend, core.frames)
        if numbers is None:
            ids = core.ids.column(num_vertices, library)
            return make_frame(core.backend, {"vertex": ids, "degree": degrees}, core.frames)
        ids = core.ids.column(num_vertices, library, numbers.astype(core.vertex_dtype))
        return make_frame(core.backend, {"vertex": ids, "degree": degrees[numbers]}, core.frames)


def _show_bytes(size: int) -> str:
    """Return a size with a unit that leaves fewer than 1024 of it.

    >>> _show_bytes(1000), _show_bytes(3 << 19)
    ('1000 B', '1.5 MiB')
    """
    step = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{size / 1024**step:.1f} {UNITS[step]}" if step else f"{size} B"
