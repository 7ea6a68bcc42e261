"""Packed rows for cuGraph: squeezed on the GPU as on the host, and cut into segments of degree."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import dynstore
from dynstore.adapters.packed import degree_segments, kept_rows, packed_rows
from tests.adapters.stand_ins import rapids
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
        squeeze = graph.backend.kernels("dynstore.adapters", "squeezing").squeeze
        offsets, indices, packed_weights = squeeze(view)
        wanted = view.compact()
        to_host = graph.backend.to_host
        assert offsets.dtype == indices.dtype == np.dtype(vertex_dtype)
        np.testing.assert_array_equal(to_host(offsets), to_host(wanted.offsets))
        np.testing.assert_array_equal(to_host(indices), to_host(wanted.indices))
        assert (packed_weights is None) == (not weighted)
        if weighted:
            np.testing.assert_array_equal(to_host(packed_weights), to_host(wanted.weights))


@pytest.mark.parametrize(
    ("degrees", "wanted"),
    [
        ([3000] * 16 + [1024] * 16 + [100] * 128 + [3] * 900, (32 + 4 + 8, 160 + 20 + 8)),
        ([100] * 80 + [31] * 900, (0, 80 + 10 + 8)),
        ([3] * 10 + [100] * 80 + [31] * 900, (0, 98)),  # most of them come before the end
        ([3] * 60 + [100] * 80 + [31] * 900, None),
        ([100] * 80 + [31] * 900 + [2000], None),  # the only row for a block comes last
        ([2000, 5], (2, 2)),
        ([31] * 50, None),
        ([], None),
        ([0, 0], None),
    ],
)
def test_segments_end_a_little_behind_the_rows_for_a_block_and_a_warp(
    degrees: list[int], wanted: tuple[int, int] | None
) -> None:
    assert degree_segments(np, offsets_of(degrees)) == wanted


def test_a_bulk_build_of_a_renumbered_graph_has_segments(rapids: SimpleNamespace) -> None:
    rng = np.random.default_rng(4)
    hub = np.full(1500, 9_000), rng.permutation(1500)
    graph = dynstore.DynamicGraph(device="cpu", renumber=True)
    graph.insert_edges(
        (np.concatenate((hub[0], rng.integers(0, 1500, 500))), np.concatenate((hub[1], np.full(500, 7))))
    )
    rows = packed_rows(graph)
    assert rows.segments == (9, 9)  # one row for a block, and slack
    assert rows.ids.number_map[0] == 9_000
    assert packed_rows(graph, transposed=True).segments is not None
    assert packed_rows(graph) is rows is kept_rows(graph, False)
    graph.insert_vertices([5_000_000])
    assert kept_rows(graph, False) is None
    assert packed_rows(graph).ids.number_map[-1] == 5_000_000
