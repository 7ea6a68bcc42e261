"""Cases of the store contract: types, sizes and orders of batches that often break structures."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.graph import DynamicGraph
from dynstore.testing.invariants import check_graph, named_edges
from dynstore.testing.pair import Contract

__all__ = ["ShapeCases"]


class ShapeCases(Contract):
    """Mixed into :class:`dynstore.testing.contract.StoreContract`.

    Attributes
    ----------
    size : int
        Rows of a large batch.
    """

    size = 6000

    @pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
    @pytest.mark.parametrize("weight_dtype", [None, "float32", "float64"])
    @pytest.mark.parametrize("directed", [True, False])
    @pytest.mark.parametrize("on_duplicate", ["replace", "add"])
    def test_random_batches_of_every_type(
        self, vertex_dtype: str, weight_dtype: str | None, directed: bool, on_duplicate: str
    ) -> None:
        weighted = weight_dtype is not None
        options = {"weight_dtype": weight_dtype} if weight_dtype else {}
        pair = self.pair(
            directed=directed, weighted=weighted, vertex_dtype=vertex_dtype, transposed=directed, **options
        )
        rng = np.random.default_rng(7)
        for step in range(6):
            src, dst = rng.integers(0, 20 + 4 * step, (2, 90))
            weights = [rng.integers(-8, 9, 90) / 4] if weighted else []
            pair.insert(src, dst, *weights, on_duplicate=on_duplicate)
            src, dst = rng.integers(0, 20 + 4 * step, (2, 150))
            pair.delete(src, dst)
        pair.check_queries()

    @pytest.mark.parametrize("directed", [True, False])
    def test_large_batches(self, directed: bool) -> None:
        """Over 5,000 rows with duplicates inside the batch and against the graph."""
        pair = self.pair(directed=directed, weighted=True)
        rng = np.random.default_rng(11)
        for _ in range(3):
            src, dst = (rng.random((2, self.size)) ** 2 * 200).astype(np.int64)
            pair.insert(src, dst, rng.integers(0, 100, self.size) / 4)
        half = rng.permutation(np.array(sorted(pair.model.edges)))[: len(pair.model.edges) // 2]
        pair.delete(half[:, 0], half[:, 1])
        pair.insert(src, dst, rng.integers(0, 100, self.size) / 4)

    @pytest.mark.parametrize("directed", [True, False])
    def test_one_hub_with_all_the_edges(self, directed: bool) -> None:
        pair = self.pair(directed=directed, transposed=True)
        spokes = np.random.default_rng(3).permutation(self.size)
        pair.insert(np.full(self.size, 5), spokes)
        pair.insert(np.full(self.size, 6), spokes)
        pair.delete(np.full(self.size // 2, 5), spokes[: self.size // 2])
        for hub in (5, 6):
            row = pair.graph.core.backend.to_host(pair.graph.successors(hub))
            np.testing.assert_array_equal(row, pair.model.successors(hub))

    def test_all_rows_into_one_segment(self) -> None:
        pair = self.pair()
        pair.insert(np.repeat(np.arange(60), 10) * 3, np.tile(np.arange(10), 60))
        pair.insert(np.full(200, 91), np.arange(200))
        pair.insert(np.full(200, 0), np.arange(200) + 10)
        pair.insert(np.full(200, 10_000), np.arange(200))
        pair.delete(np.full(200, 91), np.arange(200))

    @pytest.mark.parametrize("order", ["ascending", "descending", "outside-in"])
    @pytest.mark.parametrize("step", [1, 7, 64])
    def test_edges_in_order(self, order: str, step: int) -> None:
        count = 40 * step if step < 64 else 640
        keys = np.arange(count)
        if order == "descending":
            keys = keys[::-1]
        elif order == "outside-in":
            keys = np.stack((keys[: count // 2], keys[::-1][: count // 2]), axis=1).ravel()
        pair = self.pair()
        for part in np.array_split(keys, count // step):
            pair.insert(part // 25, part % 25)
        for part in np.array_split(keys, count // step):
            pair.delete(part // 25, part % 25)
        assert pair.graph.number_of_edges() == 0

    def test_a_window_slides_for_long(self) -> None:
        """Under a sliding window memory must not grow, and no deleted edge may reappear."""
        pair = self.pair(weighted=True)
        rng = np.random.default_rng(17)
        sizes = []
        stream = rng.permutation(4000)
        for start in range(0, 3600, 100):
            fresh = stream[start : start + 100]
            pair.insert(fresh // 63, fresh % 63, fresh / 8)
            if start >= 400:
                old = stream[start - 400 : start - 300]
                report = pair.delete(old // 63, old % 63)
                assert (report.deleted, report.absent) == (100, 0)
            sizes.append(pair.graph.memory_usage()["total"])
        assert max(sizes[20:]) <= 1.5 * max(sizes[5:20]), f"memory creeps up: {sizes}"

    def test_the_store_shrinks(self) -> None:
        pair = self.pair()
        src, dst = np.divmod(np.arange(self.size), 80)
        pair.insert(src, dst)
        largest = pair.graph.snapshot().num_slots
        for part in np.array_split(np.random.default_rng(2).permutation(self.size), 10):
            pair.delete(src[part], dst[part])
        pair.insert([0], [1])
        assert pair.graph.snapshot().num_slots <= largest / 4

    @pytest.mark.parametrize("capacity", [0, 1, 31, 1000])
    def test_capacity_is_reserved_and_no_limit(self, capacity: int) -> None:
        pair = self.pair(capacity=capacity, directed=False, weighted=True)
        src, dst = np.divmod(np.arange(0, 2500, 3), 50)
        pair.insert(src[:20], dst[:20], src[:20] / 2)
        pair.insert(src, dst, dst / 2)
        pair.check_queries()

    def test_far_apart_ids(self) -> None:
        pair = self.pair(weighted=True, transposed=True)
        pair.insert([0, 5000, 70], [90_000, 2, 70], [1.0, 2.0, 3.0])
        pair.insert([89_999, 1], [89_999, 1], [4.0, 5.0])
        pair.delete([0], [90_000])
        pair.update("insert_vertices", [200_000])
        assert pair.graph.core.backend.to_host(pair.graph.successors(89_999)).tolist() == [89_999]
        assert pair.graph.core.backend.to_host(pair.graph.predecessors(200_000)).tolist() == []

    def test_max_vertices_is_a_limit_of_ids(self) -> None:
        pair = self.pair(max_vertices=10)
        pair.insert([9, 0], [0, 9])
        assert pair.graph.number_of_vertices() == (2 if self.renumbered else 10)

    def test_vertices_and_edges_of_wide_ids(self) -> None:
        pair = self.pair(vertex_dtype="int64", weighted=True, weight_dtype="float64")
        pair.insert([3, 0], [2**15, 2**16], [0.1, 1e300])
        assert pair.graph.core.backend.to_host(pair.graph.has_edges(([0, 2**40], [2**16, 2**40]))).tolist() == [
            True,
            False,
        ]
        assert pair.graph.core.backend.to_host(pair.graph.edge_weights(([0], [2**16]))).tolist() == [1e300]

    def test_the_in_edges_may_be_asked_for_late(self) -> None:
        early, late = self.pair(transposed=True, weighted=True), self.pair(weighted=True)
        rng = np.random.default_rng(23)
        for _ in range(4):
            src, dst = rng.integers(0, 30, (2, 120))
            weights = rng.integers(1, 9, 120) / 2
            for pair in (early, late):
                pair.insert(src, dst, weights)
                pair.delete(dst[:60], src[:60])
        late.transposed = True
        late.check()
        late.insert([0, 40], [40, 0], [1.0, 2.0])
        late.check_queries()

    def test_an_edge_table_goes_straight_back(self) -> None:
        for directed in (True, False):
            pair = self.pair(directed=directed, weighted=True)
            pair.insert([3, 0, 1, 2], [1, 2, 0, 2], [0.5, 2.0, 4.0, 8.0])
            pair.delete([0], [2])
            frame = pair.graph.edge_table()
            twin = DynamicGraph.from_edges(
                frame, weight="weight", directed=directed, store=self.store, device=self.device, **self.options
            )
            check_graph(twin)
            assert named_edges(twin) == pair.model.arcs()
            report = pair.graph.insert_edges(frame, weight="weight")
            assert (report.inserted, report.replaced) == (0, 3)

    def test_from_edges_takes_weights_as_they_come(self) -> None:
        options = {"store": self.store, "device": self.device, **self.options}
        extra = [[3, 4]] * len(self.options.get("edge_columns", ()))
        assert not DynamicGraph.from_edges(([0, 2], [1, 2], *extra), **options).is_weighted()
        graph = DynamicGraph.from_edges(([0, 0], [1, 1], [1.0, 2.0], *extra), on_duplicate="add", **options)
        assert graph.is_weighted()
        assert graph.version == 1
        assert named_edges(graph) == {(0, 1): 3.0}
