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
from dynstore.stores.paged.building import decode_rows, pack_pieces

SCALE, FACTOR, SEED = 8, 5, 3


def edges() -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct edges without loops, in order of destinations and sources."""
    src, dst = make_rows(get_backend("cpu"), SCALE, FACTOR << SCALE, SEED)
    keys = np.unique((dst.astype(np.int64) << 32 | src)[src != dst])
    return (keys & 0xFFFFFFFF).astype(np.int32), (keys >> 32).astype(np.int32)


@pytest.mark.parametrize("prefix_bits", [3, SCALE])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_have_all_rows(backend: Any, monkeypatch: pytest.MonkeyPatch, size: int, prefix_bits: int) -> None:
    monkeypatch.setattr(largest, "PREFIX_BITS", prefix_bits)
    monkeypatch.setattr(largest, "PIECE_EVENTS", 200)
    src, dst = edges()
    found, degrees, sizes = [], np.zeros(1 << SCALE, int), []
    for rank in range(size):
        rows = largest.PrefixRows(backend, SCALE, FACTOR, SEED, rank, size)
        packed = pack_pieces(backend, rows.num_vertices, rows.pieces)
        lengths = np.diff(backend.to_host(packed.offsets))
        assert lengths[: rows.low].sum() == lengths[rows.high :].sum() == 0
        assert lengths.tolist() == np.where(lengths > 0, np.bincount(dst, minlength=1 << SCALE), 0).tolist()
        found.append(backend.to_host(decode_rows(packed)))
        degrees += backend.to_host(rows.out_degrees)
        sizes.append(packed.num_edges)
    assert np.concatenate(found).tolist() == src.tolist()
    assert degrees.tolist() == np.bincount(src, minlength=1 << SCALE).tolist()
    assert max(sizes) < len(src) / size * 1.5 or prefix_bits < SCALE


def test_iterations_are_those_of_one_graph(backend: Any, tmp_path: Path) -> None:
    one = dynstore.DynamicGraph(device="cpu", frames="pandas", max_vertices=1 << SCALE)
    one.insert_edges(edges())
    one.insert_vertices((1 << SCALE) - 1)
    options: dict[str, Any] = {"max_iter": 2, "tol": 0.0, "fail_on_nonconvergence": False}
    expected = dynstore.pagerank(one, **options)[0]["pagerank"].to_numpy()

    def program(comm: Communicator) -> np.ndarray:
        bench = Bench(comm, Sizes(SCALE, FACTOR, (), (), 1, 1, SCALE, 2, 60.0), str(tmp_path / "rows"))
        rows = largest.PrefixRows(bench.backend, SCALE, FACTOR, SEED, comm.rank, comm.size)
        ranking = largest.Ranking(bench, rows, pack_pieces(bench.backend, rows.num_vertices, rows.pieces))
        ranking.iterate()
        ranking.iterate()
        assert abs(ranking.total() - 1) < 1e-6
        found: np.ndarray = bench.backend.to_host(ranking.ranks)
        return found

    for ranks in (1, 2, 3):
        found = np.concatenate(distributed.run(program, ranks, backend.name))
        np.testing.assert_allclose(found, expected, atol=1e-7)
