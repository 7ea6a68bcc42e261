"""Store "paged": when edges go to pages, what reads them, and what fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import Backend
from dynstore.errors import InputError, LimitError
from dynstore.graph import DynamicGraph
from dynstore.stores.paged import building
from dynstore.stores.paged.store import PagedStore
from dynstore.testing.faults import for_every_allocation, for_every_pinned_array
from dynstore.testing.pair import Pair
from tests.conftest import DEVICES
from tests.crossed import crossed, thorough

HOST_PARTS = ("pages", "page_weights", "spare_pages", "src", "dst", "weights")
SMALL = {"delta_edges": 16, "delta_share": 0.2, "density": 0.9, "page_bits": 5}


def some_edges(count: int, seed: int = 1, most: int = 40) -> tuple[np.ndarray, np.ndarray]:
    src, dst = (np.random.default_rng(seed).random((2, count)) ** 2 * most).astype(np.int64)
    return src, dst


def counts(G: DynamicGraph) -> tuple[int, int, int]:
    return tuple(G.statistics()[name] for name in ("merges", "delta_edges", "dead_slots"))  # type: ignore[return-value]


def test_an_insertion_goes_to_the_delta_until_that_is_too_large(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, **SMALL)
    G.insert_edges(([0] * 10, range(10)))
    assert counts(G) == (0, 10, 0)
    report = G.insert_edges(([1] * 100, range(100)))
    assert (report.path, report.inserted) == ("merge", 100)
    assert counts(G) == (1, 0, 0)
    assert G.insert_edges(([2] * 22, range(22))).path == "in-place"  # a fifth of 110
    assert counts(G) == (1, 22, 0)
    G.insert_edges([(2, 22)])
    assert counts(G) == (2, 0, 0)


@pytest.mark.parametrize(("free", "edges"), [(1 << 30, 100), (16 * 4 * 30, 30), (0, 20)])
def test_a_delta_leaves_device_memory_free_but_may_be_small(
    free: int, edges: int, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth of the 500 edges in pages, a quarter of what is free, or ``delta_edges``."""
    G = DynamicGraph(store="paged", device=backend_name, **{**SMALL, "delta_edges": 20})
    assert G.insert_edges(np.divmod(np.arange(500), 50)).path == "merge"
    monkeypatch.setattr(Backend, "free_bytes", lambda _: free)
    assert G.insert_edges(([20] * edges, range(edges))).path == "in-place"
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 0)
    assert G.insert_edges([(21, 1)]).path == "merge"
    assert counts(G) == (2, 0, 0)
    assert G.number_of_edges() == 500 + edges + 1


def test_a_deletion_clears_bits_until_pages_are_too_sparse(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, **{**SMALL, "delta_edges": 4})
    G.insert_edges(([1] * 100, range(100)))
    G.insert_edges([(0, 5)])
    assert G.delete_edges(([1] * 9 + [0], [*range(9), 5])).deleted == 10
    assert counts(G) == (1, 0, 9)
    G.insert_edges([(1, 3)])  # back to its place
    assert counts(G) == (1, 0, 8)
    G.insert_edges([(0, 7), (0, 8)])
    assert G.delete_edges(([1] * 4 + [0], [20, 21, 22, 3, 7])).deleted == 5
    assert counts(G) == (2, 0, 0)
    assert G.number_of_edges() == 100 + 1 - 10 + 1 + 2 - 5
    assert G.has_edges([(0, 8), (1, 99), (1, 20), (0, 7)]).tolist() == [True, True, False, False]


def test_a_new_weight_moves_an_edge_to_the_delta(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, weighted=True, **SMALL)
    G.insert_edges(([1] * 100, range(100), np.arange(100) / 4))
    assert G.insert_edges([(1, 8, 7.0)]).replaced == 1
    assert G.insert_edges([(1, 12, 1.0)], on_duplicate="add").replaced == 1
    assert counts(G) == (1, 2, 2)
    assert G.edge_weights([(1, 8), (1, 12), (1, 16)]).tolist() == [7.0, 4.0, 4.0]
    G.insert_edges(([2] * 30, range(30), [1.0] * 30), on_duplicate="add")
    assert counts(G) == (2, 0, 0)
    assert G.edge_weights([(1, 8), (1, 12), (1, 16)]).tolist() == [7.0, 4.0, 4.0]


@crossed(weighted=[False, True], directed=[False, True], backend_name=DEVICES)
def test_every_allocation_can_fail(
    weighted: bool, directed: bool, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, delta = (60, 16) if backend_name == "cpu" else (9, 6)
    options = {**SMALL, "delta_edges": delta}
    pair = Pair(store="paged", device=backend_name, weighted=weighted, directed=directed, **options)
    for fail in (for_every_pinned_array, for_every_allocation):
        for method, count, seed in (
            ("insert_edges", size, 1), ("insert_edges", 4, 2), ("delete_edges", 3, 1), ("delete_edges", size, 1),
            ("insert_edges", 2 * size, 3),
        )[: 5 if backend_name != "cuda-sim" else 4]:  # fmt: skip
            fail(monkeypatch, pair, method, some_edges(count, seed))
    assert pair.graph.statistics()["merges"] >= 3


ALGORITHMS: dict[str, dict[str, Any]] = {
    "bfs": {"start": 3},
    "sssp": {"source": 3},
    "pagerank": {"max_iter": 5, "tol": 0.0, "fail_on_nonconvergence": False},
    "triangle_count": {},
    "weakly_connected_components": {},
    "betweenness_centrality": {"k": [3, 5, 6]},
}


@pytest.mark.parametrize(
    ("vertex_dtype", "weighted"), [("int32", False), ("int32", True), ("int64", False), thorough("int64", True)]
)
@pytest.mark.parametrize("directed", [False, True])
def test_algorithms_read_pages_and_make_no_table(
    directed: bool, weighted: bool, vertex_dtype: str, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With edges in pages, cleared bits, and a delta; the in-edges of a directed graph are made of pages, too."""
    options = {"directed": directed, "weighted": weighted, "vertex_dtype": vertex_dtype, "device": backend_name}
    paged, plain = DynamicGraph(store="paged", **options, **SMALL), DynamicGraph(**options)
    size = 300 if backend_name == "cpu" else 80
    for G in (paged, plain):
        for method, count, seed in (("insert_edges", size, 1), ("delete_edges", 8, 1), ("insert_edges", 9, 2)):
            columns: tuple[Any, ...] = tuple(column[:count] for column in some_edges(size, seed))
            if weighted and method == "insert_edges":
                columns = (*columns, np.arange(count) % 7 + 1.0)
            getattr(G, method)(columns)
        G.insert_vertices([60])
    merges, delta_edges, dead = counts(paged)
    assert merges
    assert delta_edges
    assert dead
    monkeypatch.setattr(PagedStore, "_refresh", lambda _: pytest.fail("a table was made"))
    for name, arguments in ALGORITHMS.items():
        if (name == "sssp" and not weighted) or (name == "triangle_count" and directed):
            continue
        found, wanted = (getattr(dynstore, name)(G, **arguments) for G in (paged, plain))
        if name == "pagerank":
            found, wanted = found[0], wanted[0]
        assert list(found.columns) == list(wanted.columns)
        for column in wanted.columns:
            values, others = found[column].to_numpy(), wanted[column].to_numpy()
            assert values.dtype == others.dtype, (name, column)
            np.testing.assert_allclose(values, others, rtol=2e-5, err_msg=f"{name}: {column}")
    assert dynstore.explain(paged) is not None


@pytest.mark.parametrize("directed", [False, True])
def test_degrees_are_counted_without_a_table(
    directed: bool, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged, plain = (
        DynamicGraph(directed=directed, device=backend_name, **more) for more in ({"store": "paged", **SMALL}, {})
    )
    for G in (paged, plain):
        G.insert_edges(some_edges(100))
        G.delete_edges(tuple(column[:8] for column in some_edges(100)))
        G.insert_edges(some_edges(9, 2, 45))
    assert counts(paged)[0]
    monkeypatch.setattr(PagedStore, "_refresh", lambda _: pytest.fail("a table was made"))
    for transposed in (False, True):
        found, wanted = (G.core.backend.to_host(G.row_lengths(transposed)) for G in (paged, plain))
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
    for name in ("degree", "in_degree", "out_degree"):
        for vertices in (None, [1, 2, 3]):
            assert getattr(paged, name)(vertices).equals(getattr(plain, name)(vertices))
        assert getattr(paged, name)(1) == getattr(plain, name)(1)


def test_a_search_reads_in_edges_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    paged, plain = DynamicGraph(store="paged", device="cpu", **SMALL), DynamicGraph(device="cpu")
    for G in (paged, plain):
        G.insert_edges(some_edges(300, 1))
        G.delete_edges(tuple(column[:8] for column in some_edges(300, 1)))
        G.insert_edges(tuple(column[:9] for column in some_edges(300, 2)))
    pulled = []
    kernels = paged.core.backend.kernels("dynstore.algorithms.paged", "searches")
    pull = kernels.pull_leaves
    monkeypatch.setattr(kernels, "pull_leaves", lambda *given: (pulled.append(1), pull(*given))[1])
    for kept in (False, True):
        frames = [dynstore.bfs(G, 3) for G in (paged, plain)]
        assert frames[0].equals(frames[1])
        assert (bool(pulled), paged.core.into is not None) == (kept, kept)
        dynstore.pagerank(paged)  # keeps in-edges


def test_what_pages_cannot_do_takes_the_table(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, **SMALL)
    plain = DynamicGraph(device=backend_name)
    for each in (G, plain):
        each.insert_edges(some_edges(60))
    import pandas

    personal = pandas.DataFrame({"vertex": [1, 2], "values": [0.5, 0.5]})
    found, wanted = (dynstore.pagerank(each, personalization=personal)["pagerank"].to_numpy() for each in (G, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-9)
    weighted = DynamicGraph(store="paged", device=backend_name, weighted=True)
    weighted.insert_edges([(0, 1, -1.0)])
    with pytest.raises(InputError, match="negative weights"):
        dynstore.sssp(weighted, 0)


def test_sums_of_weights_that_do_not_fit_their_dtype_take_the_table() -> None:
    src, dst = some_edges(60)
    graphs = [DynamicGraph(store=store, weighted=True, device="cpu") for store in ("paged", "gpma+")]
    for G in graphs:
        G.insert_edges((src, dst, np.full(60, 3e38)))
    found, wanted = (dynstore.pagerank(G)["pagerank"].to_numpy() for G in graphs)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_the_table_and_the_pages_lie_in_host_memory(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph(store="paged", device=backend_name, weighted=True, **SMALL)
    G.insert_edges((*some_edges(100), np.ones(100)))
    usage = G.memory_usage()
    assert usage["host"] == sum(usage[part] for part in HOST_PARTS) >= usage["pages"] + usage["page_weights"] > 0
    assert usage["src"] == 0
    before, pinned, calls = G.edge_table(), G.core.backend.pinned, []
    monkeypatch.setattr(G.core.backend, "pinned", lambda *args: (calls.append(args), pinned(*args))[1])
    G.insert_edges([(0, 0, 1.0), (39, 39, 1.0)])
    assert not calls
    assert G.snapshot().memory == "host"
    assert len(calls) == 3
    usage = G.memory_usage()
    assert usage["host"] == sum(usage[part] for part in HOST_PARTS)
    G.delete_edges([(0, 0), (39, 39)])
    assert G.memory_usage()["src"] == 0  # an update gives the old table back
    if (0, 0) not in zip(*some_edges(100), strict=True):
        assert len(G.edge_table()) >= len(before) - 1


def test_copies_share_pages(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, **SMALL)
    G.insert_edges(some_edges(100))
    table, twin = G.edge_table(), G.copy()
    assert twin.core.out._base is G.core.out._base  # type: ignore[attr-defined]
    src, dst = some_edges(100)
    twin.delete_edges((src[:5], dst[:5]))
    assert G.edge_table().equals(table)
    assert not twin.has_edges((src[:5], dst[:5])).any()


def test_a_copy_shares_a_delta_that_no_read_changes(backend_name: str) -> None:
    """So the graph and the copy may be used at once by threads with different streams."""
    G = DynamicGraph(store="paged", device=backend_name, **{**SMALL, "delta_edges": 40})
    for seed, count in ((1, 100), (2, 20), (3, 2)):
        G.insert_edges(some_edges(count, seed))
    twin = G.copy()
    delta: Any = G.core.out._delta  # type: ignore[attr-defined]
    assert twin.core.out._delta is delta  # type: ignore[attr-defined]
    runs = delta._runs
    twin.edge_table()
    assert delta._runs is runs


def test_in_pieces_smaller_than_the_graph(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "PIECE_LEAVES", 32)
    monkeypatch.setattr("dynstore.stores.paged.merging.PIECE_LEAVES", 1)
    monkeypatch.setattr("dynstore.stores.paged.merging.COUNTED", 100)
    pair = Pair(store="paged", device=backend_name, weighted=True, **SMALL)
    size, most = (4000, 90) if backend_name == "cpu" else (1100, 45)  # together more than the 1024 edges of a piece
    for seed in (1, 2):
        src, dst = some_edges(size, seed, most)
        pair.insert(src, dst, np.arange(size) / 4)
    assert pair.graph.number_of_edges() > 1024
    pair.delete(src[:7], dst[:7])
    if backend_name == "cpu":
        pair.check_queries()
    else:  # each query would unpack a page
        pair.transposed = True
        pair.check()


def test_store_auto_packs_beside_a_gpu(backend_name: str) -> None:
    wanted = "gpma+" if backend_name == "cpu" else "paged"
    assert DynamicGraph(store="auto", memory="host", device=backend_name).store_name == wanted
    assert DynamicGraph(store="auto", memory="auto", device=backend_name).store_name == "gpma+"
    assert DynamicGraph(store="auto", device=backend_name).store_name == "gpma+"
    timed = DynamicGraph(store="auto", memory="host", timestamps="int64", device=backend_name)
    assert timed.store_name == "gpma+"


def test_limits_and_wrong_options() -> None:
    G = DynamicGraph(store="paged", device="cpu", vertex_dtype="int64", max_vertices=2**40)
    with pytest.raises(LimitError, match=r"store 'paged': 2147483649 vertices are needed; there can be 2147483647"):
        G.insert_vertices([2**31])
    assert G.number_of_vertices() == 0
    for options in ({"delta_share": 2.0}, {"density": -1}, {"page_bits": 4}, {"page_bits": 16}, {"encode": 1}):
        with pytest.raises(InputError, match="store 'paged'"):
            DynamicGraph(store="paged", device="cpu", **options)  # type: ignore[arg-type]


def test_options_may_be_numbers_of_numpy() -> None:
    options: dict[str, Any] = {"page_bits": np.int8(7), "delta_edges": np.uint8(200), "delta_share": np.float32(0.25)}
    G = DynamicGraph(store="paged", device="cpu", **options)
    G.insert_edges(np.divmod(np.arange(20_000), 300))
    G.insert_edges(([0] * 200, range(300, 500)))
    assert G.statistics() == {"merges": 1, "delta_edges": 200, "dead_slots": 0}
    assert len(G.edge_table()) == 20_200


def test_free_memory_is_none_on_the_host(backend: Backend) -> None:
    assert (backend.free_bytes() is None) == (not backend.on_gpu)
