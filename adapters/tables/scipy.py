"""Sparse matrices of SciPy and CuPy: the adjacency matrix, row v for the edges from v."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.errors import InputError, InputTypeError, LimitError, type_name

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["from_scipy", "to_cupyx", "to_scipy"]

Graph = TypeVar("Graph", bound="DynamicGraph")


def to_scipy(G: DynamicGraph) -> Any:
    """Return the adjacency matrix on the host.

    Returns
    -------
    scipy.sparse.csr_array, shape (V, V)
        A copy without gaps: entry (u, v) is the weight of the edge from u to v, in the weight dtype; 1 in an unweighted
        graph. An undirected graph gives a symmetric matrix. Rows are sorted; an edge of weight 0 is an explicit zero.
        With ``renumber=True``, row i is the vertex ``G.vertex_ids()[i]``. An entry of a multigraph is the sum of the
        weights of its pair; in one without weights, the number of its edges.

    Raises
    ------
    MissingDependencyError
        Without SciPy.
    """
    sparse = require("to_scipy", "scipy.sparse")
    to_host = G.core.backend.to_host
    offsets, indices, data = _packed(G)
    return _marked(sparse.csr_array((to_host(data), to_host(indices), to_host(offsets)), shape=_shape(G)))


def to_cupyx(G: DynamicGraph) -> Any:
    """Return the adjacency matrix on the GPU; see :func:`to_scipy`.

    Returns
    -------
    cupyx.scipy.sparse.csr_matrix, shape (V, V)

    Raises
    ------
    MissingDependencyError
        Without CuPy.
    InputError
        For a graph on the host.
    LimitError
        For 2**31 vertices or edges: CuPy's sparse matrices have int32 indices.
    """
    sparse = require("to_cupyx", "cupyx.scipy.sparse")
    if not G.core.backend.on_gpu:
        raise InputError(f"to_cupyx: the graph is on {G.device!r}; wanted 'cuda'. to_scipy() works on the host")
    csr, limit = G.snapshot(), int(np.iinfo(np.int32).max)
    if max(csr.num_vertices, csr.num_edges) > limit:
        raise LimitError(
            f"to_cupyx: {csr.num_vertices} vertices, {csr.num_edges} entries; CuPy's sparse matrices go to {limit}"
        )
    offsets, indices, data = _packed(G)
    narrow = [array.astype(np.int32, copy=False) for array in (indices, offsets)]
    return _marked(sparse.csr_matrix((data, *narrow), shape=_shape(G)))


def from_scipy(cls: type[Graph], matrix: Any, weighted: bool = True, **graph_options: Any) -> Graph:
    """Make a graph of an adjacency matrix.

    Parameters
    ----------
    cls : type
        The graph's class.
    matrix : sparse array or matrix of SciPy or CuPy, shape (V, V)
        Stored entries are edges, explicit zeros included. Duplicate entries are summed, numbers in float64 (SciPy
        would sum them in the matrix's dtype: 300 ones of uint8 are 44 there); of truth values, True stays True.
    weighted : bool
        Whether the entries become weights.
    **graph_options
        As for :class:`dynstore.DynamicGraph`. ``directed=False`` needs a symmetric matrix.

    Returns
    -------
    DynamicGraph
        With V vertices, isolated ones included.

    Raises
    ------
    InputError
        For a matrix that is not square, or not symmetric where it must be; see ``insert_edges`` for its entries.
    InputTypeError
        For anything that is no sparse matrix.
    """
    if not hasattr(matrix, "tocoo"):
        raise InputTypeError(f"from_scipy: got a {type_name(matrix)}; wanted a sparse matrix of SciPy or CuPy")
    shape = tuple(matrix.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"from_scipy: the matrix has the shape {shape}; wanted a square one")
    entries = matrix.tocoo(copy=True)
    if entries.data.dtype.kind in "iuf":  # a small dtype wraps around or stops to count
        entries.data = entries.data.astype(np.result_type(entries.data.dtype, np.float64))
    entries.sum_duplicates()
    graph = cls(weighted=weighted, **graph_options)
    asarray = graph.core.backend.asarray
    src, dst, data = asarray(entries.row), asarray(entries.col), asarray(entries.data)
    if not graph.is_directed():
        _check_symmetric(graph.core.backend.xp, src, dst, data if weighted else None)
        upper = src <= dst
        src, dst, data = src[upper], dst[upper], data[upper]
    if data.dtype.kind == "b":
        data = data.astype(np.int8)
    graph.insert_edges((src, dst, data) if weighted else (src, dst))
    if shape[0]:
        graph.insert_vertices(np.arange(shape[0]) if graph.is_renumbered() else shape[0] - 1)
    return graph


def _packed(G: DynamicGraph) -> tuple[Array, Array, Array]:
    csr = (G.simple() if G.is_multigraph() else G).snapshot().compact()
    data = csr.weights
    if data is None:
        data = G.core.backend.empty(csr.num_edges, G.weight_dtype)
        data.fill(1)
    return csr.offsets, csr.indices, data


def _shape(G: DynamicGraph) -> tuple[int, int]:
    return G.number_of_vertices(), G.number_of_vertices()


def _marked(matrix: Any) -> Any:
    """Set the matrix's known properties, so that the library need not check them."""
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def _check_symmetric(xp: Any, src: Array, dst: Array, data: Array | None) -> None:
    by_row, by_column = xp.lexsort(xp.stack((dst, src))), xp.lexsort(xp.stack((src, dst)))
    same = (src[by_row] == dst[by_column]) & (dst[by_row] == src[by_column])
    if data is not None:
        same &= data[by_row] == data[by_column]
    if not bool(same.all()):
        at = by_row[int(xp.argmin(same))]
        raise InputError(
            f"from_scipy: the matrix is not symmetric, entry ({int(src[at])}, {int(dst[at])}) has no equal one across "
            "the diagonal; wanted a symmetric one for directed=False"
        )
