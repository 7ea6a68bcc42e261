"""What writes say about edges at each timestamp, against the versions of edges that LPMA's Opera keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import Backend
from dynstore.operations import cuda as in_step
from dynstore.operations import history as history_module
from dynstore.operations.history import History, Writes, search, spread

SPACE = 9
BITS = 4


class Version(NamedTuple):
    """An entry of Opera's table: an edge, when it was written, and whether that was a deletion."""

    src: int
    dst: int
    time: int
    deleted: bool


def fold(versions: list[Version], timestamp: int) -> set[tuple[int, int]]:
    """Drop the versions from a timestamp on, fold those of one edge to the last, and leave out deletions."""
    last = {
        (each.src, each.dst): each for each in sorted(versions, key=lambda each: each.time) if each.time < timestamp
    }
    return {edge for edge, version in last.items() if not version.deleted}


def opera_table(writes: Writes, before: set[tuple[int, int]], first_query: int) -> list[Version]:
    """Return Opera's table: old entries, merged with writes before the first query; then versions of their own."""
    rows = zip(*(column.tolist() for column in writes), strict=True)
    versions = [Version(u, v, timestamp, not inserts) for u, v, timestamp, inserts in rows]
    early = [Version(u, v, -1, False) for u, v in before] + [each for each in versions if each.time < first_query]
    merged = [Version(u, v, -1, False) for u, v in fold(early, first_query)]
    return merged + [each for each in versions if each.time >= first_query]


def random_writes(rng: np.random.Generator, count: int, num_timestamps: int) -> Writes:
    timestamps = np.sort(rng.choice(num_timestamps, count, replace=False))
    ends = rng.integers(0, SPACE - 1, (2, count))
    return Writes(ends[0], ends[1], timestamps, rng.random(count) < 0.6)


def on_device(backend: Backend, writes: Writes) -> Writes:
    return Writes(*map(backend.asarray, writes))


@pytest.mark.parametrize("most", [1 << 24, 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_it_answers_as_operas_folded_versions(
    backend: Backend,
    backend_name: str,
    transposed: bool,
    most: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in ("MOST_SLOTS", "MOST_SLOTS_ON_HOST"):
        monkeypatch.setattr(history_module, limit, most)
    for round_ in range(8 if backend_name == "cpu" else 2):
        G = DynamicGraph(device=backend_name)
        G.insert_edges(tuple(rng.integers(0, SPACE - 1, (2, 30))))
        before = set(zip(*(backend.to_host(ends).tolist() for ends in G.edge_columns().values()), strict=True))
        writes = random_writes(rng, 40 * (round_ != 1), 100)
        queries = np.sort(rng.choice(100, 12))
        table = opera_table(writes, before, int(queries[0]))
        history = History(backend, on_device(backend, writes), 100, BITS, transposed, mirrored=False)
        vertices = rng.integers(0, SPACE, 12)  # the last one is no vertex
        slots = G.core.oriented(transposed).slots
        near = history.neighbors_at(slots, backend.asarray(vertices), backend.asarray(queries), placed=True)
        owners, numbers = backend.to_host(near.owners).tolist(), backend.to_host(near.numbers).tolist()
        wanted = [
            (place, edge[not transposed])
            for place, (vertex, timestamp) in enumerate(zip(vertices.tolist(), queries.tolist(), strict=True))
            for edge in sorted(fold(table, timestamp), key=lambda edge: edge[not transposed])
            if edge[transposed] == vertex
        ]
        assert list(zip(owners, numbers, strict=True)) == wanted
        assert bool(((near.slots >= 0) != (near.writes >= 0)).all())


def test_edges_and_last_writes(backend: Backend, rng: np.random.Generator) -> None:
    writes = random_writes(rng, 60, 80)
    history = History(backend, on_device(backend, writes), 80, BITS, transposed=False, mirrored=False)
    src, dst = (backend.asarray(ends) for ends in np.divmod(np.arange(SPACE * SPACE), SPACE))
    table = opera_table(writes, set(), 0)
    for timestamp in (0, 1, 40, 79, 80):
        exists = history.edges_at(src, dst, backend.xp.full(81, timestamp), backend.zeros(81, np.bool_))
        found = np.flatnonzero(backend.to_host(exists))
        assert {divmod(place, SPACE) for place in found.tolist()} == fold(table, timestamp)
    ends = [backend.to_host(column) for column in history.last_writes()]
    kept = ends[2][writes.inserts[ends[2]]]
    assert {(int(writes.src[row]), int(writes.dst[row])) for row in kept} == fold(table, 80)
    assert len(ends[0]) == len({*zip(writes.src.tolist(), writes.dst.tolist(), strict=True)})


def test_both_directions_of_an_edge_have_one_history(backend: Backend) -> None:
    writes = Writes(np.array([1, 2, 3]), np.array([2, 1, 3]), np.array([0, 4, 5]), np.array([True, False, True]))
    history = History(backend, on_device(backend, writes), 9, BITS, transposed=False, mirrored=True)
    src, dst, timestamps = (
        backend.asarray(np.array(column)) for column in ([1, 2, 1, 2, 3], [2, 1, 2, 1, 3], [4, 4, 5, 5, 6])
    )
    found = history.edges_at(src, dst, timestamps, backend.zeros(5, np.bool_))
    assert backend.to_host(found).tolist() == [True, True, False, False, True]
    assert backend.to_host(history.last_writes()[2]).tolist() == [1, 1, 2]


def test_ranges_are_spread(backend: Backend) -> None:
    starts, ends = (backend.asarray(np.array(column)) for column in ([5, 2, 2, 7, 9], [7, 2, 4, 8, 9]))
    owners, items = (backend.to_host(column).tolist() for column in spread(backend, starts, ends))
    assert owners == [0, 0, 2, 2, 3]
    assert items == [5, 6, 2, 3, 7]
    assert spread(backend, starts, starts)[1].shape == (0,)
    assert search(backend.xp, starts[:0], ends).tolist() == [0] * 5


def test_hops_find_the_same_in_pieces_and_by_flags(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    num, count = (60, 400) if backend_name == "cpu" else (20, 60)
    ops = {
        "op": np.array([0] * count + [5] * 9, np.int8),
        "source": rng.integers(0, num, count + 9),
        "destination": rng.integers(0, num, count + 9),
        "k": rng.integers(0, 4, count + 9),
    }
    found = []
    for most, sparse in ((1 << 24, 0), (7, 0), (7, 1 << 40), (1 << 24, 8)):
        monkeypatch.setattr(in_step, "MOST_SLOTS", most)
        monkeypatch.setattr(in_step, "SPARSE", sparse)
        G = DynamicGraph(device=backend_name, frames="pandas")
        G.apply({name: column[:count] for name, column in ops.items()}, time=None)
        found.append(G.apply(ops, time=None).k_hop)
    assert all(found[0].equals(other) for other in found[1:])
    assert len(found[0]) > 9
