# cython: language_level=3, embedsignature=True
"""A graph for pylibcugraph over arrays that somebody else owns."""

from libc.stdint cimport int64_t, uintptr_t
from libcpp.vector cimport vector
from pylibcugraph._cugraph_c.array cimport (
    cugraph_type_erased_device_array_view_create,
    cugraph_type_erased_device_array_view_free,
    cugraph_type_erased_device_array_view_t,
)
from pylibcugraph._cugraph_c.graph cimport cugraph_graph_free, cugraph_graph_t
from pylibcugraph._cugraph_c.types cimport cugraph_data_type_id_t
from pylibcugraph.graphs cimport _GPUGraph


cdef extern from "borrowed_graph.hpp" namespace "dynstore":
    cdef struct csr_t:
        uintptr_t offsets
        uintptr_t indices
        uintptr_t weights
        uintptr_t number_map
        int64_t number_of_vertices
        int64_t number_of_edges
        cugraph_data_type_id_t vertex_type
        cugraph_data_type_id_t weight_type
        bint is_weighted
        bint is_symmetric
        bint is_transposed
        int64_t end_of_wide
        int64_t end_of_medium

    cdef struct whole_t:
        uintptr_t handle
        vector[int64_t] vertex_starts
        int64_t number_of_edges

    cugraph_graph_t* lend_graph(const csr_t& csr) except +
    cugraph_graph_t* lend_shard(const csr_t& csr, const whole_t& whole) except +
    const char* problem_of_layout(const cugraph_graph_t* made, cugraph_data_type_id_t vertex_type,
                                  cugraph_data_type_id_t weight_type, bint is_weighted, bint is_transposed,
                                  bint is_multi_gpu, int64_t num_vertices)
    void set_weights_view(_GPUGraph graph, cugraph_type_erased_device_array_view_t* view)


_TYPES = {
    "<i4": <int>cugraph_data_type_id_t.INT32,
    "<i8": <int>cugraph_data_type_id_t.INT64,
    "<f4": <int>cugraph_data_type_id_t.FLOAT32,
    "<f8": <int>cugraph_data_type_id_t.FLOAT64,
}


cdef tuple _describe(array, str name):
    """Return pointer, length and type of a packed array on the device."""
    interface = array.__cuda_array_interface__
    if len(interface["shape"]) != 1 or interface.get("strides") not in (None, (int(interface["typestr"][2:]),)):
        raise ValueError(f"BorrowedGraph: {name} is not a packed array of one dimension")
    if interface["typestr"] not in _TYPES:
        raise TypeError(f"BorrowedGraph: {name} has the type {interface['typestr']}")
    return interface["data"][0] or 0, interface["shape"][0], _TYPES[interface["typestr"]]


cdef csr_t _read_rows(offsets, indices, weights, number_map, bint symmetric, bint transposed, int64_t end_of_wide,
                      int64_t end_of_medium) except *:
    """Return a description of packed rows, which are checked."""
    cdef csr_t csr
    pointer, length, kind = _describe(offsets, "offsets")
    if length < 1:
        raise ValueError("BorrowedGraph: offsets are empty")
    csr.offsets, csr.number_of_vertices, csr.vertex_type = pointer, length - 1, <cugraph_data_type_id_t><int>kind
    pointer, length, other = _describe(indices, "indices")
    csr.indices, csr.number_of_edges = pointer, length
    map_pointer, map_length, map_kind = _describe(number_map, "number_map")
    if other != kind or map_kind != kind:
        raise TypeError("BorrowedGraph: offsets, indices and number_map differ in type")
    if map_length != csr.number_of_vertices:
        raise ValueError("BorrowedGraph: number_map does not have one id a vertex")
    csr.number_map = map_pointer
    csr.is_weighted = weights is not None
    csr.weights, csr.weight_type = 0, cugraph_data_type_id_t.FLOAT32
    if csr.is_weighted:
        pointer, length, other = _describe(weights, "weights")
        if length != csr.number_of_edges:
            raise ValueError("BorrowedGraph: weights do not have one number an edge")
        csr.weights, csr.weight_type = pointer, <cugraph_data_type_id_t><int>other
    csr.is_symmetric, csr.is_transposed = symmetric, transposed
    csr.end_of_wide, csr.end_of_medium = end_of_wide, end_of_medium
    return csr


cdef cugraph_type_erased_device_array_view_t* _show_weights(_GPUGraph graph, const csr_t& csr) except? NULL:
    """Give a graph a view of its weights, if it has some, and return it.

    Some functions ask whether there is a view of the weights to know whether there are weights.
    """
    if not csr.is_weighted:
        return NULL
    view = cugraph_type_erased_device_array_view_create(
        <void*>csr.weights, <size_t>csr.number_of_edges, csr.weight_type)
    set_weights_view(graph, view)
    return view


cdef class BorrowedGraph(_GPUGraph):
    """One orientation of a graph, as packed compressed rows; every function of pylibcugraph takes it.

    Nothing is copied; the arrays are kept alive, and must not be written to. One object is for one call: functions that
    want the other orientation transpose the graph inside it.

    Parameters
    ----------
    offsets : device array, shape (V + 1,), int32 or int64
    indices : device array, shape (E,), same type
        Ascending in each row, no duplicates.
    weights : device array, shape (E,), float32 or float64, or None
    number_map : device array, shape (V,), same type as ``offsets``
        The id that goes in and comes out for each row.
    symmetric : bool
        Every edge stands in both rows.
    transposed : bool
        Rows are destinations.
    end_of_wide, end_of_medium : int
        Rows from them on have less than 1024 (32) edges; -1 where rows are in no order.
    """

    cdef object _lender
    cdef cugraph_type_erased_device_array_view_t* _weights_view

    def __cinit__(self, offsets, indices, weights, number_map, *, bint symmetric, bint transposed,
                  int64_t end_of_wide=-1, int64_t end_of_medium=-1):
        cdef csr_t csr = _read_rows(
            offsets, indices, weights, number_map, symmetric, transposed, end_of_wide, end_of_medium)
        self._lender = (offsets, indices, weights, number_map)
        self.vertex_type = csr.vertex_type
        self.c_graph_ptr = lend_graph(csr)
        self._weights_view = _show_weights(self, csr)

    def __dealloc__(self):
        if self.c_graph_ptr is not NULL:
            cugraph_graph_free(self.c_graph_ptr)
        if self._weights_view is not NULL:
            cugraph_type_erased_device_array_view_free(self._weights_view)

    @staticmethod
    def problem_of_layout(_GPUGraph made, str vertex_type, str weight_type, bint is_weighted, bint is_transposed,
                          bint is_multi_gpu=False, int64_t num_vertices=2):
        """Compare a graph made by pylibcugraph with the layout that this library expects.

        Parameters
        ----------
        made : SGGraph or MGGraph
        vertex_type, weight_type : str
            The types it was made with, as ``typestr``: "<i4", "<i8", "<f4" or "<f8".
        is_weighted, is_transposed, is_multi_gpu : bool
        num_vertices : int
            How many vertices it has.

        Returns
        -------
        str or None
            What differs.
        """
        cdef const char* problem = problem_of_layout(
            made.c_graph_ptr, <cugraph_data_type_id_t><int>_TYPES[vertex_type],
            <cugraph_data_type_id_t><int>_TYPES[weight_type], is_weighted, is_transposed, is_multi_gpu,
            num_vertices)
        return None if problem is NULL else problem.decode("ascii")


cdef class BorrowedMGGraph(_GPUGraph):
    """A rank's part of a graph on several GPUs, which pylibcugraph's functions take with that rank's handle.

    All ranks make one at a time, and call the same functions with it. Each rank has the whole rows of its vertices.
    Rows are numbered rank after rank.

    Parameters
    ----------
    handle : int
        The address of a raft handle whose ranks are all in one row of cuGraph's grid.
    offsets, indices, weights, number_map
        As for :class:`BorrowedGraph`: the rows of this rank, in order of falling degree. ``indices`` are numbers of the
        whole graph; ids have to be owned by the ranks that cuGraph looks for them on.
    vertex_starts : sequence of int
        The number of the first row of each rank, then that of all vertices.
    number_of_edges : int
        Of all ranks.
    symmetric, transposed : bool
    end_of_wide, end_of_medium : int
        Rows of this rank from them on have less than 1024 (32) edges.
    """

    cdef object _lender
    cdef cugraph_type_erased_device_array_view_t* _weights_view

    def __cinit__(self, handle, offsets, indices, weights, number_map, vertex_starts, int64_t number_of_edges, *,
                  bint symmetric, bint transposed, int64_t end_of_wide, int64_t end_of_medium):
        cdef csr_t csr = _read_rows(
            offsets, indices, weights, number_map, symmetric, transposed, end_of_wide, end_of_medium)
        cdef whole_t whole
        whole.handle, whole.vertex_starts, whole.number_of_edges = handle, vertex_starts, number_of_edges
        self._lender = (offsets, indices, weights, number_map)
        self.vertex_type = csr.vertex_type
        self.c_graph_ptr = lend_shard(csr, whole)
        self._weights_view = _show_weights(self, csr)

    def __dealloc__(self):
        if self.c_graph_ptr is not NULL:
            cugraph_graph_free(self.c_graph_ptr)
        if self._weights_view is not NULL:
            cugraph_type_erased_device_array_view_free(self._weights_view)
