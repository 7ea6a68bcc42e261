"""The part "largest": rows by prefix of their destinations, and PageRank over pages of all ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import distributed
from dynstore.backend import get_backend
from dynstore.benchmarks.ranks import largest
from dynstore.benchmarks.ranks.bench import Bench, Sizes, make_rows
from dynstore.distributed import Communicator
from dynstore.stores.paged.building import pack_pieces
from tests.stores.paged.searches import decode_rows

FACTOR, SEED = 5, 3


@pytest.fixture
def scale(backend: Any) -> int:
    return 6 if backend.name == "cuda-sim" else 8


def edges(scale: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct edges without loops, in order of destinations and sources."""
    src, dst = make_rows(get_backend("cpu"), scale, FACTOR << scale, SEED)
    keys = np.unique((dst.astype(np.int64) << 32 | src)[src != dst])
    return (keys & 0xFFFFFFFF).astype(np.int32), (keys >> 32).astype(np.int32)


@pytest.mark.parametrize("whole", [False, True], ids=["prefixes", "vertices"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_have_all_rows(backend: Any, monkeypatch: pytest.MonkeyPatch, size: int, whole: bool, scale: int) -> None:
    monkeypatch.setattr(largest, "PREFIX_BITS", scale if whole else 3)
    monkeypatch.setattr(largest, "PIECE_EVENTS", (FACTOR << scale) // 6)
    src, dst = edges(scale)
    found, degrees, sizes = [], np.zeros(1 << scale, int), []
    for rank in range(size):
        rows = largest.PrefixRows(backend, scale, FACTOR, SEED, rank, size)
        packed = pack_pieces(backend, rows.num_vertices, rows.pieces)
        lengths = np.diff(backend.to_host(packed.offsets))
        assert lengths[: rows.low].sum() == lengths[rows.high :].sum() == 0
        assert lengths.tolist() == np.where(lengths > 0, np.bincount(dst, minlength=1 << scale), 0).tolist()
        found.append(decode_rows(packed))
        degrees += backend.to_host(rows.out_degrees)
        sizes.append(packed.num_edges)
    assert np.concatenate(found).tolist() == src.tolist()
    assert degrees.tolist() == np.bincount(src, minlength=1 << scale).tolist()
    assert max(sizes) < len(src) / size * 1.5 or not whole


def test_iterations_are_those_of_one_graph(backend: Any, tmp_path: Path, scale: int) -> None:
    one = dynstore.DynamicGraph(device="cpu", frames="pandas", max_vertices=1 << scale)
    one.insert_edges(edges(scale))
    one.insert_vertices((1 << scale) - 1)
    options: dict[str, Any] = {"max_iter": 2, "tol": 0.0, "fail_on_nonconvergence": False}
    expected = dynstore.pagerank(one, **options)[0]["pagerank"].to_numpy()

    def program(comm: Communicator) -> np.ndarray:
        bench = Bench(comm, Sizes(scale, FACTOR, (), (), 1, 1, scale, 2, 60.0), str(tmp_path / "rows"))
        rows = largest.PrefixRows(bench.backend, scale, FACTOR, SEED, comm.rank, comm.size)
        packed = pack_pieces(bench.backend, rows.num_vertices, rows.pieces, page_bits=5)  # few leaves that are empty
        ranking = largest.Ranking(bench, rows, packed)
        ranking.iterate()
        ranking.iterate()
        assert abs(ranking.total() - 1) < 1e-6
        found: np.ndarray = bench.backend.to_host(ranking.ranks)
        return found

    for ranks in (1, 2, 3):
        found = np.concatenate(distributed.run(program, ranks, backend.name))
        np.testing.assert_allclose(found, expected, atol=1e-7)
