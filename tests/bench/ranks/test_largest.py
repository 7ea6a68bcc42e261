"""The part "largest": rows by prefix of their destinations, and PageRank over pages of all ranks."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from benchmarks import rmat_pieces
from benchmarks.ranks import largest
from benchmarks.ranks.bench import RankBench, RankSizes
from benchmarks.ranks.sliding import DeviceStore, Slides
from benchmarks.rmat_pieces import make_rows
from dynstore import distributed
from dynstore.backend import get_backend
from dynstore.distributed import Communicator
from dynstore.errors import RankError
from dynstore.stores.paged import building, merging
from dynstore.stores.paged.building import pack_pieces
from dynstore.stores.paged.merging import keys_of
from dynstore.stores.table import selection
from tests.conftest import DEVICES
from tests.crossed import crossed
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


@crossed(whole=[False, True], size=[1, 2, 3], backend_name=DEVICES)
def test_ranks_have_all_rows(backend: Any, monkeypatch: pytest.MonkeyPatch, size: int, whole: bool, scale: int) -> None:
    monkeypatch.setattr(largest, "PREFIX_BITS", scale if whole else 3)
    monkeypatch.setattr(largest, "PIECE_EVENTS", (FACTOR << scale) // 6)
    src, dst = edges(scale)
    found, sizes = [], []
    for rank in range(size):
        rows = largest.PrefixRows(backend, scale, FACTOR, SEED, rank, size)
        packed = pack_pieces(backend, rows.num_vertices, rows.pieces)
        lengths = np.diff(backend.to_host(packed.offsets))
        assert lengths[: rows.low].sum() == lengths[rows.high :].sum() == 0
        assert lengths.tolist() == np.where(lengths > 0, np.bincount(dst, minlength=1 << scale), 0).tolist()
        found.append(decode_rows(packed))
        sizes.append(packed.num_edges)
    assert np.concatenate(found).tolist() == src.tolist()
    assert max(sizes) < len(src) / size * 1.5 or not whole


def rank_one_graph(scale: int, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Return the ranks of a graph on one host after two iterations."""
    one = dynstore.DynamicGraph(device="cpu", frames="pandas", max_vertices=1 << scale)
    one.insert_edges((src, dst))
    one.insert_vertices((1 << scale) - 1)
    options: dict[str, Any] = {"max_iter": 2, "tol": 0.0, "fail_on_nonconvergence": False}
    ranks: np.ndarray = dynstore.pagerank(one, **options)[0]["pagerank"].to_numpy()
    return ranks


def make_store(bench: RankBench, rows: largest.PrefixRows) -> DeviceStore:
    packed = pack_pieces(bench.backend, rows.num_vertices, rows.pieces, page_bits=5)  # few leaves that are empty
    return DeviceStore.of(packed)


def iterate_twice(bench: RankBench, rows: largest.PrefixRows, store: DeviceStore) -> np.ndarray:
    """Return the ranks of the rows of this rank."""
    ranking = largest.PagedRanking(bench, rows, store)
    assert ranking.num_edges == sum(bench.comm.all_gather(store.num_edges))
    ranking.iterate()
    ranking.iterate()
    assert abs(ranking.total() - 1) < 1e-6
    found: np.ndarray = bench.backend.to_host(ranking.ranks)
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_iterations_are_those_of_one_graph(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scale: int, ranks: int
) -> None:
    monkeypatch.setattr(largest, "ROWS", 1 << scale - 4)  # several slices of each rank

    def program(comm: Communicator) -> np.ndarray:
        bench = RankBench(comm, RankSizes(scale, FACTOR, (), (), 1, 1, scale, 2, 60.0), str(tmp_path / "rows"))
        rows = largest.PrefixRows(bench.backend, scale, FACTOR, SEED, comm.rank, comm.size)
        return iterate_twice(bench, rows, make_store(bench, rows))

    found = np.concatenate(distributed.run(program, ranks, backend.name))
    np.testing.assert_allclose(found, rank_one_graph(scale, *edges(scale)), atol=1e-7)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_slides_are_those_of_one_graph(backend: Any, tmp_path: Path, scale: int, ranks: int) -> None:
    events, slide, steps = FACTOR << scale, (FACTOR << scale) // 20, 3

    def program(comm: Communicator) -> tuple[np.ndarray, np.ndarray]:
        bench = RankBench(comm, RankSizes(scale, FACTOR, (), (), 1, 1, scale, 2, 60.0), str(tmp_path / "rows"))
        rows = largest.PrefixRows(bench.backend, scale, FACTOR, SEED, comm.rank, comm.size)
        store = make_store(bench, rows)
        slides = Slides(bench, rows.bounds, store, (events, scale, SEED), slide)
        for _ in range(steps):
            slides.draw()
            slides.apply()
            slides.check()
        assert store.statistics()["merges"] == 0
        assert min(store.statistics()["dead_slots"], store.statistics()["delta_edges"]) > 0
        keys = [bench.backend.to_host(keys_of(src, dst)) for src, dst, _ in store.edge_pieces()]
        return np.concatenate(keys), iterate_twice(bench, rows, store)

    kept = set(zip(*(column.tolist() for column in edges(scale)), strict=True))
    for number in range(steps):
        for first, change in ((0, kept.difference_update), (events, kept.update)):
            src, dst = make_rows(get_backend("cpu"), scale, slide, SEED, first + number * slide)
            change([(a, b) for a, b in zip(src.tolist(), dst.tolist(), strict=True) if a != b])
    src, dst = np.array(sorted(kept), np.int32).T
    keys, found = (np.concatenate(each) for each in zip(*distributed.run(program, ranks, backend.name), strict=True))
    assert keys.tolist() == np.sort(dst.astype(np.int64) << 32 | src).tolist()
    np.testing.assert_allclose(found, rank_one_graph(scale, src, dst), atol=1e-7)


def test_a_slide_that_was_not_written_is_found(tmp_path: Path) -> None:
    def program(comm: Communicator) -> None:
        bench = RankBench(comm, RankSizes(6, FACTOR, (), (), 1, 1, 6, 2, 60.0), str(tmp_path / "rows"))
        rows = largest.PrefixRows(bench.backend, 6, FACTOR, SEED, comm.rank, comm.size)
        store = make_store(bench, rows)
        slides = Slides(bench, rows.bounds, store, (FACTOR << 6, 6, SEED), 20)
        slides.draw()
        slides.apply()
        store._valid = store._base.all_valid()
        slides.check()

    with pytest.raises(RankError, match="edges that left are not"):
        distributed.run(program, 2, "cpu")


def test_two_gpus_of_80_gb_hold_scale_30() -> None:
    """By the account that a run checks first; one GPU does not."""
    assert max(largest.device_bytes(30, 16, 2).values()) < largest.SHARE_OF_DEVICE * 80e9
    assert max(largest.device_bytes(30, 16, 1).values()) > 80e9


@pytest.mark.parametrize("scale", [16, 22])
def test_bytes_follow_the_graph(scale: int) -> None:
    """A graph of twice the size takes at most twice the memory, and more."""
    one, other = (largest.device_bytes(each, 16, 2) for each in (scale, scale + 1))
    for phase, wanted in one.items():
        assert wanted < other[phase] <= 2 * wanted


def test_memory_is_as_the_account_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One rank on the host, with slices and pieces as small a part of the graph as at scale 30.

    Pages are the host's while they are packed. A sort in place takes no memory here; on a GPU it takes 8 bytes a key.
    """
    scale, factor = 16, 16
    events = factor << scale
    for module, name in ((largest, "ROWS"), (rmat_pieces, "ROWS"), (building, "SLICE"), (selection, "PIECE")):
        monkeypatch.setattr(module, name, 1 << scale - 4)
    for module in (building, merging):
        monkeypatch.setattr(module, "PIECE_LEAVES", 32)
    monkeypatch.setattr(merging, "COUNTED", 1024)
    monkeypatch.setattr(largest, "PREFIX_BITS", 8)
    monkeypatch.setattr(largest, "PIECE_EVENTS", events // 4)
    peaks: dict[str, int] = {}

    def note(phase: str, less: int = 0) -> None:
        peaks[phase] = tracemalloc.get_traced_memory()[1] - less
        tracemalloc.reset_peak()

    def program(comm: Communicator) -> None:
        bench = RankBench(comm, RankSizes(scale, factor, (), (), 1, 1, scale, 2, 60.0), str(tmp_path / "rows"))
        rows = largest.PrefixRows(bench.backend, scale, factor, SEED, 0, 1)
        store = make_store(bench, rows)
        note("making", less=store.memory_usage()["pages"])
        ranking = largest.PagedRanking(bench, rows, store)
        ranking.iterate()
        note("ranking")
        del ranking
        slides = Slides(bench, rows.bounds, store, (events, scale, SEED), events // 100)
        for _ in range(largest.STEPS + 1):
            slides.draw()
            slides.apply()
        note("sliding")

    for _ in range(2):  # the first time kernels are compiled
        tracemalloc.start()
        try:
            distributed.run(program, 1, "cpu")
        finally:
            tracemalloc.stop()
    account = largest.device_bytes(scale, factor, 1)
    account["making"] -= 4 * largest.PIECE_EVENTS  # what is more than that: a sort's 8 bytes, for what comes after it
    for phase, taken in peaks.items():
        assert 0.6 * account[phase] < taken < 1.05 * account[phase], (phase, taken, account[phase])
