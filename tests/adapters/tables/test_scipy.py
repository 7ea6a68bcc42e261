"""Sparse matrices of SciPy, and of CuPy on a GPU, out and in."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import cuda_problem
from dynstore.errors import InputError, InputTypeError, LimitError, MissingDependencyError
from tests.adapters.graphs import edges_of, every_id, every_kind, gapped_graph, named_graph, named_rows

sparse = pytest.importorskip("scipy.sparse")


def _dense(graph: dynstore.DynamicGraph) -> np.ndarray:
    matrix = np.zeros((graph.number_of_vertices(),) * 2)
    for (u, v), weight in edges_of(graph).items():
        matrix[u, v] = weight
        if not graph.is_directed():
            matrix[v, u] = weight
    return matrix


@every_kind
def test_the_matrix_is_the_adjacency_matrix(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    graph.insert_vertices(44)
    matrix = graph.to_scipy()
    assert type(matrix) is sparse.csr_array
    assert (matrix.shape, matrix.nnz) == ((45, 45), graph.snapshot().num_edges)
    assert matrix.dtype == graph.weight_dtype
    np.testing.assert_array_equal(matrix.toarray(), _dense(graph))
    checked = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    checked.check_format(full_check=True)
    assert checked.has_canonical_format
    assert checked.has_sorted_indices
    matrix.data[:] = -1
    graph.insert_edges(([0], [1]), default_weight=1.0)
    assert (matrix.data == -1).all(), "the matrix is a copy"
    assert not np.any(_dense(graph) == -1)


@every_kind
def test_what_goes_out_comes_back_in(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    graph.insert_vertices(44)
    again = dynstore.DynamicGraph.from_scipy(graph.to_scipy(), device=device, **options)
    assert edges_of(again) == edges_of(graph)
    assert again.number_of_vertices() == 45
    assert again.is_weighted() == graph.is_weighted()


@every_id
def test_rows_of_a_renumbered_graph_are_in_the_order_of_its_ids(device: str, kind: str) -> None:
    graph, wanted = named_graph(kind, device, weighted=True)
    ids, matrix = graph.vertex_ids().tolist(), graph.to_scipy().tocoo()
    rows, columns = ([ids[number] for number in numbers.tolist()] for numbers in matrix.coords)
    assert named_rows(rows, columns, matrix.data) == wanted


def test_a_matrix_becomes_a_renumbered_graph() -> None:
    dense = np.array([[0, 0, 0, 0], [0, 0, 2, 3], [0, 4, 0, 0], [0, 0, 0, 0]], dtype=float)
    graph = dynstore.DynamicGraph.from_scipy(sparse.csr_array(dense), device="cpu", renumber=True)
    assert sorted(graph.vertex_ids().tolist()) == [0, 1, 2, 3]
    assert graph.edge_weights(([1, 1, 2], [2, 3, 1])).tolist() == [2.0, 3.0, 4.0]
    assert graph.number_of_edges() == 3


def test_an_edge_of_weight_0_is_an_edge() -> None:
    graph = dynstore.DynamicGraph.from_edges(([0, 1], [1, 0], [0.0, 2.0]), device="cpu")
    matrix = graph.to_scipy()
    assert matrix.nnz == 2
    assert edges_of(dynstore.DynamicGraph.from_scipy(matrix, device="cpu")) == {(0, 1): 0.0, (1, 0): 2.0}


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", ["array", "matrix"])
def test_every_format_comes_in(kind: str, make: str) -> None:
    dense = np.array([[0, 2, 0], [0, 0, 3], [4, 0, 0]], dtype=np.int64)
    matrix = getattr(sparse, f"{kind}_{make}")(dense)
    before = matrix.toarray()
    graph = dynstore.DynamicGraph.from_scipy(matrix, device="cpu")
    assert edges_of(graph) == {(0, 1): 2.0, (1, 2): 3.0, (2, 0): 4.0}
    np.testing.assert_array_equal(matrix.toarray(), before)


def test_entries_stored_twice_are_summed_and_the_matrix_is_left_alone() -> None:
    matrix = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(3, 3))
    graph = dynstore.DynamicGraph.from_scipy(matrix, device="cpu")
    assert edges_of(graph) == {(0, 1): 3.0, (1, 0): 4.0}
    assert graph.number_of_vertices() == 3
    assert matrix.nnz == 3


def test_booleans_become_ones() -> None:
    graph = dynstore.DynamicGraph.from_scipy(sparse.csr_array(np.eye(3, dtype=bool)), device="cpu")
    assert edges_of(graph) == {(0, 0): 1.0, (1, 1): 1.0, (2, 2): 1.0}
    graph = dynstore.DynamicGraph.from_scipy(sparse.csr_array(5 * np.eye(3)), weighted=False, device="cpu")
    assert (graph.is_weighted(), edges_of(graph)) == (False, {(0, 0): 1.0, (1, 1): 1.0, (2, 2): 1.0})


def test_no_vertices() -> None:
    graph = dynstore.DynamicGraph.from_scipy(sparse.csr_array((0, 0)), device="cpu")
    assert graph.number_of_vertices() == 0
    assert graph.to_scipy().shape == (0, 0)


@pytest.mark.parametrize(
    ("dense", "weighted", "symmetric"),
    [
        ([[0, 1, 0], [1, 5, 2], [0, 2, 0]], True, True),
        ([[0, 1, 0], [1, 5, 2], [0, 3, 0]], True, False),
        ([[0, 1, 0], [1, 5, 2], [0, 3, 0]], False, True),
        ([[0, 1, 0], [1, 0, 2], [0, 0, 0]], False, False),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], False, False),
    ],
)
def test_an_undirected_graph_wants_a_symmetric_matrix(dense: Any, weighted: bool, symmetric: bool) -> None:
    matrix = sparse.csr_array(np.array(dense, dtype=float))
    options = {"directed": False, "weighted": weighted, "device": "cpu"}
    if symmetric:
        graph = dynstore.DynamicGraph.from_scipy(matrix, **options)
        wanted = np.array(dense) if weighted else np.array(dense) != 0
        np.testing.assert_array_equal(graph.to_scipy().toarray(), wanted)
    else:
        with pytest.raises(InputError, match=r"not symmetric, entry \(\d, \d\) has no equal one across the diagonal"):
            dynstore.DynamicGraph.from_scipy(matrix, **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sparse.csr_array((2, 3)), InputError, r"the matrix has the shape \(2, 3\); wanted a square one"),
        (lambda: sparse.coo_array(np.ones(3)), InputError, r"the matrix has the shape \(3,\); wanted a square one"),
        (lambda: np.eye(3), InputTypeError, r"got a numpy.ndarray; wanted a sparse matrix of SciPy or CuPy"),
        (lambda: sparse.csr_array(np.eye(2) * np.nan), InputError, "NaN"),
        (lambda: sparse.csr_array(np.eye(2) * 1j), InputTypeError, "complex128"),
        (lambda: sparse.csr_array((1 << 25, 1 << 25)), LimitError, "max_vertices is"),
    ],
    ids=["2x3", "vector", "dense", "nan", "complex", "too large"],
)
def test_what_is_no_adjacency_matrix_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dynstore.DynamicGraph.from_scipy(make(), device="cpu")


def test_without_scipy_the_line_to_type_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gapped_graph()
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"^to_scipy: scipy cannot be imported .*: pip install scipy$"):
        graph.to_scipy()


# ---------------------------------------------------------------------- CuPy


def test_cupyx_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if cuda_problem() is None:
        pytest.skip("this machine has a GPU")
    graph = gapped_graph()
    monkeypatch.setitem(sys.modules, "cupyx", None)
    with pytest.raises(MissingDependencyError, match=r"^to_cupyx: cupyx cannot be imported"):
        graph.to_cupyx()


@every_kind
def test_cupyx_out_and_in(device: str, options: dict[str, Any]) -> None:
    if device != "cuda":
        pytest.skip("needs a GPU: DYNSTORE_TEST_DEVICES=cuda")
    import cupyx.scipy.sparse

    graph = gapped_graph(device, **options)
    graph.insert_vertices(44)
    matrix = graph.to_cupyx()
    assert isinstance(matrix, cupyx.scipy.sparse.csr_matrix)
    assert matrix.dtype == graph.weight_dtype
    np.testing.assert_array_equal(matrix.toarray().get(), _dense(graph))
    for form in (matrix, matrix.tocoo(), matrix.tocsc()):
        again = dynstore.DynamicGraph.from_scipy(form, device=device, **options)
        assert edges_of(again) == edges_of(graph)
        assert again.number_of_vertices() == 45
    on_host = dynstore.DynamicGraph.from_scipy(matrix, device="cpu", **options)
    assert edges_of(on_host) == edges_of(graph)
    with pytest.raises(InputError, match="the graph is on 'cpu'; wanted 'cuda'"):
        on_host.to_cupyx()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float32])
def test_entries_stored_twice_are_not_summed_in_a_small_dtype(dtype: type) -> None:
    """300 ones of uint8 would be 44; in float32 a sum stays at 2**24."""
    first = np.array([np.iinfo(dtype).max if dtype is not np.float32 else 2**24], dtype)
    values = np.concatenate([first, np.ones(300, dtype)])
    matrix = sparse.coo_array((values, (np.zeros(301, int), np.ones(301, int))), shape=(2, 2))
    graph = dynstore.DynamicGraph.from_scipy(matrix, weight_dtype="float64", device="cpu")
    assert edges_of(graph) == {(0, 1): float(first[0]) + 300}
    assert (matrix.dtype, matrix.nnz) == (dtype, 301)


def test_truth_values_stored_twice_stay_ones() -> None:
    matrix = sparse.coo_array((np.ones(3, bool), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert edges_of(dynstore.DynamicGraph.from_scipy(matrix, device="cpu")) == {(0, 1): 1.0, (1, 0): 1.0}
