"""Packed rows for cuGraph: squeezed on the GPU as on the host, and cut into segments of degree."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.cugraph.packed import kept_rows, packed_rows
from dynstore.adapters.cugraph.row_order import hubs_out_of_place, measure_rows, order_by_degree, segments_of
from tests.adapters.cugraph.stand_ins import rapids
from tests.conftest import DEVICES

__all__ = ["rapids"]  # a fixture

GPU_DEVICES = [name for name in DEVICES if name != "cpu"]


def offsets_of(degrees: list[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(degrees)))


@pytest.mark.parametrize("device", GPU_DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
def test_squeezing_packs_as_compact_does(device: str, weighted: bool, vertex_dtype: str) -> None:
    graph = dynstore.DynamicGraph(device=device, weighted=weighted, vertex_dtype=vertex_dtype)
    src, dst = np.random.default_rng(2).integers(0, 20, (2, 90))
    weights = np.arange(90) / 4
    for step in range(3):
        if step == 1:
            graph.insert_edges((src, dst, weights) if weighted else (src, dst))
        elif step == 2:
            graph.delete_edges((src[::2], dst[::2]))
        view = graph.snapshot()
        squeeze = graph.core.backend.kernels("dynstore.adapters.cugraph", "squeezing").squeeze
        offsets, indices, packed_weights, long_rows = squeeze(view)
        wanted = view.compact()
        to_host = graph.core.backend.to_host
        assert long_rows == measure_rows(to_host(offsets))
        assert offsets.dtype == indices.dtype == np.dtype(vertex_dtype)
        np.testing.assert_array_equal(to_host(offsets), to_host(wanted.offsets))
        np.testing.assert_array_equal(to_host(indices), to_host(wanted.indices))
        assert (packed_weights is None) == (not weighted)
        if weighted:
            np.testing.assert_array_equal(to_host(packed_weights), to_host(wanted.weights))


@pytest.mark.parametrize("device", GPU_DEVICES)
def test_long_rows_are_measured_on_the_gpu_as_on_the_host(device: str) -> None:
    rng = np.random.default_rng(8)
    for order in (slice(None), slice(None, None, -1)):
        degrees = np.array([2000] + [1024] * 2 + [40] * 11 + [32] * 5 + [3] * 45 + [0] * 9)[order]
        src = np.repeat(np.arange(degrees.shape[0]), degrees)
        dst = np.concatenate([rng.choice(2500, degree, replace=False) for degree in degrees])
        graph = dynstore.DynamicGraph(device=device)
        graph.insert_edges((src, dst))
        *_, long_rows = graph.core.backend.kernels("dynstore.adapters.cugraph", "squeezing").squeeze(graph.snapshot())
        ends = np.concatenate((np.cumsum(degrees), np.full(2500 - degrees.shape[0], degrees.sum())))
        wanted = measure_rows(np.concatenate(([0], ends)))
        assert (wanted.wide, wanted.medium) == (3, 19)
        assert long_rows == wanted


@pytest.mark.parametrize(
    ("degrees", "wanted"),
    [
        ([3000] * 16 + [1024] * 16 + [100] * 128 + [3] * 900, (32, 160)),
        ([100] * 80 + [31] * 900, (0, 80)),
        ([3] * 10 + [100] * 80 + [31] * 900, (0, 90)),
        ([100] * 80 + [31] * 20 + [1024] + [40, 3, 32] + [31] * 900, None),  # a row for a block that has come late
        ([1024] + [31] * 50 + [1024, 5], (52, 52)),
        ([2000] * 30 + [100] * 30 + [3] * 200 + [32] + [3] * 900, (30, 261)),
        ([2000] * 30 + [100] * 30 + [3] * 300 + [32] + [3] * 900, None),
        ([100] * 80 + [31] * 900 + [2000], None),  # the only row for a block comes last
        ([2000, 5], (1, 1)),
        ([31] * 50, None),
        ([], None),
        ([0, 0], None),
    ],
)
def test_segments_end_behind_the_last_row_for_a_block_or_a_warp(
    degrees: list[int], wanted: tuple[int, int] | None
) -> None:
    segments = segments_of(measure_rows(offsets_of(degrees)))
    assert segments == wanted
    if segments is not None:
        assert max(degrees[segments[0] :], default=0) < 1024
        assert max(degrees[segments[1] :], default=0) < 32


def test_a_bulk_build_of_a_renumbered_graph_has_segments(rapids: SimpleNamespace) -> None:
    rng = np.random.default_rng(4)
    hub = np.full(1500, 9_000), rng.permutation(1500)
    graph = dynstore.DynamicGraph(device="cpu", renumber=True)
    graph.insert_edges(
        (np.concatenate((hub[0], rng.integers(0, 1500, 500))), np.concatenate((hub[1], np.full(500, 7))))
    )
    rows = packed_rows(graph)
    assert rows.segments == (1, 1)
    assert rows.ids.number_map[0] == 9_000
    assert packed_rows(graph, transposed=True).segments is not None
    assert packed_rows(graph) is rows is kept_rows(graph, False)
    graph.insert_vertices([5_000_000])
    assert kept_rows(graph, False) is None
    assert packed_rows(graph).ids.number_map[-1] == 5_000_000


@pytest.mark.parametrize(
    ("degrees", "out_of_place"),
    [
        ([3000, 5, 5], False),
        ([5] * 140 + [3000], True),
        ([5] * 8 + [3000], False),  # a segment of nine rows
        ([900] * 300 + [1024], False),  # one in 264 edges
        ([31] * 50, False),
        ([], False),
    ],
)
def test_hubs_far_behind_shorter_rows_are_seen(degrees: list[int], out_of_place: bool) -> None:
    rows = measure_rows(offsets_of(degrees))
    assert hubs_out_of_place(rows, segments_of(rows), sum(degrees)) == out_of_place


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_put_in_order_of_degree_hold_the_same_edges(weighted: bool, dtype: Any) -> None:
    rng = np.random.default_rng(6)
    degrees = [0, 3, 40, 2, 0, 40, 7]
    offsets, ids = offsets_of(degrees), rng.permutation(700)[:7]
    indices = np.concatenate([np.sort(rng.choice(7, min(degree, 7), replace=False)) for degree in degrees])
    offsets = np.minimum(offsets, 0) + np.concatenate(([0], np.cumsum([min(degree, 7) for degree in degrees])))
    offsets, indices = offsets.astype(dtype), indices.astype(dtype)
    weights = [rng.random(indices.shape[0])] if weighted else []
    rows = np.repeat(np.arange(7), np.diff(offsets))
    wanted = sorted(zip(ids[rows], ids[indices], *weights, strict=True))
    new_offsets, new_indices, new_weights, order = order_by_degree(np, offsets, indices, *(weights or [None]))
    assert (new_weights is not None) == weighted
    assert new_offsets.dtype == new_indices.dtype == dtype
    rows = np.repeat(np.arange(7), np.diff(new_offsets))
    got = zip(ids[order][rows], ids[order][new_indices], *([new_weights] if weighted else []), strict=True)
    assert sorted(got) == wanted
    assert (np.diff(np.diff(new_offsets)) <= 0).all()
    keys = rows * 7 + new_indices
    assert (np.diff(keys) > 0).all(), "neighbours ascend"


def test_a_graph_whose_hubs_came_late_is_lent_in_order_of_degree(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    chain = np.arange(3000)
    graph.insert_edges((chain, chain + 1))
    graph.insert_edges((np.full(2000, 3001), np.arange(2000)))
    rows = packed_rows(graph)
    assert rows.segments is not None
    assert rows.ids.number_map[0] == 3001
    assert "order of degree" in rows.copied
    first = rows.ids.number_map[rows.indices[: rows.offsets[1]]]
    assert sorted(first.tolist()) == list(range(2000))


def test_threads_that_need_a_version_at_once_pack_it_once(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges((np.arange(2000), np.arange(2000) + 1))
    for step in range(20):
        graph.insert_edges(([step], [step + 2]))
        together, found = threading.Barrier(4), []

        def pack(together: threading.Barrier = together, found: list[Any] = found) -> None:
            together.wait()
            found.append((packed_rows(graph), kept_rows(graph, False)))

        threads = [threading.Thread(target=pack) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(rows) for pair in found for rows in pair}) == 1
        assert len(found) == 4
