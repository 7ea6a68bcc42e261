"""The delta of a store of pages: two sorted runs, beside a dict of edges."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from dynstore.backend import Backend, get_backend
from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.stores.paged.delta import MAX_DEAD, PagedDelta
from tests.conftest import DEVICES
from tests.crossed import crossed

Edges = dict[tuple[int, int], float]
VERTICES = 12


def random_batch(backend: Backend, rng: np.random.Generator, weighted: bool, dtype: str = "int32") -> EdgeBatch:
    count = int(rng.integers(1, 12))
    src, dst = (backend.asarray(rng.integers(0, VERTICES, count).astype(dtype)) for _ in range(2))
    weights = backend.asarray(rng.integers(1, 9, count).astype(np.float32)) if weighted else None
    src, dst, weights = sort_unique(backend, src, dst, weights)
    return EdgeBatch(src, dst, weights, int((src == dst).sum()))


def listed(backend: Backend, columns: Any) -> tuple[list[tuple[int, int]], list[float]]:
    src, dst, weights = (None if column is None else backend.to_host(column) for column in columns)
    keys = list(zip(src.tolist(), dst.tolist(), strict=True))
    return keys, [1.0] * len(keys) if weights is None else weights.tolist()


def check(backend: Backend, delta: PagedDelta, edges: Edges, weighted: bool) -> None:
    """Compare all that a delta says with a dict of edges."""
    assert delta.num_edges == len(edges)
    src, dst = np.divmod(np.arange(-VERTICES, (VERTICES + 1) * VERTICES), VERTICES)  # also rows that are not there
    there, weights = delta.look_up(*(backend.asarray(column.astype(np.int32)) for column in (src, dst)))
    keys = list(zip(src.tolist(), dst.tolist(), strict=True))
    assert backend.to_host(there).tolist() == [key in edges for key in keys]
    if weighted:
        assert backend.to_host(weights).tolist() == [edges.get(key, 0.0) for key in keys]
    for low, high in ((0, VERTICES), (3, 4), (5, 9), (VERTICES, VERTICES)):
        kept = sorted(key for key in edges if low <= key[0] < high)
        assert listed(backend, delta.read_rows(low, high)) == (kept, [edges[key] for key in kept])


@crossed(weighted=[False, True], dtype=["int32", "int64"], backend_name=DEVICES)
def test_a_delta_is_a_dict_of_edges_and_never_changes(weighted: bool, dtype: str, backend_name: str) -> None:
    backend, rng = get_backend(backend_name), np.random.default_rng(3)
    delta, edges = PagedDelta(backend, np.dtype(dtype), np.dtype(np.float32) if weighted else None), {}
    earlier: list[tuple[PagedDelta, Edges]] = []
    two_runs = dead = 0
    for step in range(60 if backend_name == "cpu" else 16):
        earlier.append((delta, dict(edges)))
        batch = random_batch(backend, rng, weighted, dtype)
        keys, weights = listed(backend, (batch.src, batch.dst, batch.weights))
        known = [key for key in keys if key in edges]
        if step % 3 == 2:
            delta, found, loops = delta.delete(batch)
            for key in known:
                del edges[key]
        else:
            how = "add" if step % 2 else "replace"
            delta, found, loops = delta.insert(batch, how)  # type: ignore[arg-type]
            for key, weight in zip(keys, weights, strict=True):
                edges[key] = weight + (edges.get(key, 0.0) if weighted and how == "add" else 0.0)
        assert (found, loops) == (len(known), sum(u == v for u, v in known))
        two_runs += len(delta._runs.large[0]) > 0 and len(delta._runs.small[0]) > 0
        dead += delta._runs.num_dead > 0
        if step % 4 == 0:
            assert listed(backend, delta.columns) == (sorted(edges), [edges[key] for key in sorted(edges)])
        check(backend, delta, edges, weighted)
    assert two_runs
    assert dead
    for before, had in earlier[:: 1 if backend_name == "cpu" else 5]:
        check(backend, before, had, weighted)


def edges_of(backend: Backend, numbers: Any) -> EdgeBatch:
    src, dst = (backend.asarray(column.astype(np.int32)) for column in np.divmod(np.asarray(numbers), 100))
    return EdgeBatch(src, dst, None)


def test_an_insertion_writes_the_large_run_only_when_as_much_was_moved(backend_name: str) -> None:
    backend = get_backend(backend_name)
    delta, _, _ = PagedDelta(backend, np.dtype(np.int32), None).insert(edges_of(backend, range(0, 1000, 10)), "replace")
    large, moved = delta._runs.large[0], []
    for n in range(1, 9):
        delta, _, _ = delta.insert(edges_of(backend, [n, 100 + n, 200 + n, 300 + n, 400 + n]), "replace")
        moved.append((delta._runs.num_moved, delta._runs.large[0] is large))
    assert moved == [(5, True), (15, True), (30, True), (50, True), (75, True), (0, False), (5, False), (15, False)]


def test_a_batch_of_known_edges_writes_nothing(backend_name: str) -> None:
    backend = get_backend(backend_name)
    delta, _, _ = PagedDelta(backend, np.dtype(np.int32), None).insert(edges_of(backend, range(50)), "replace")
    delta, _, _ = delta.insert(edges_of(backend, [60, 61]), "replace")
    again, found, _ = delta.insert(edges_of(backend, [3, 4, 60]), "replace")
    assert found == 3
    assert again is delta


def test_deleted_edges_of_the_large_run_are_dropped_when_they_are_many(backend_name: str) -> None:
    backend = get_backend(backend_name)
    delta, _, _ = PagedDelta(backend, np.dtype(np.int32), None).insert(edges_of(backend, range(80)), "replace")
    few = int(80 * MAX_DEAD)
    delta, found, _ = delta.delete(edges_of(backend, range(few)))
    assert (found, delta._runs.num_dead, len(delta._runs.large[0])) == (few, few, 80)
    delta, found, _ = delta.delete(edges_of(backend, [few, few + 1]))
    assert (found, delta._runs.num_dead, len(delta._runs.large[0])) == (2, 0, 80 - few - 2)


def test_edges_that_are_elsewhere_do_not_come(backend_name: str) -> None:
    backend = get_backend(backend_name)
    delta, _, _ = PagedDelta(backend, np.dtype(np.int32), None).insert(edges_of(backend, range(0, 40, 4)), "replace")
    numbers = np.arange(600)
    elsewhere = np.where((numbers % 3 == 0) & (numbers % 4 != 0), numbers, -1)
    delta, found, _ = delta.insert(edges_of(backend, numbers), "replace", backend.asarray(elsewhere))
    wanted = [number for number in numbers.tolist() if number % 3 or number % 4 == 0]
    assert found == 10
    assert [100 * u + v for u, v in listed(backend, delta.columns)[0]] == wanted


@pytest.mark.parametrize("num_vertices", [8, 11])
def test_rows_of_a_delta_begin_where_they_are(num_vertices: int, backend_name: str) -> None:
    backend = get_backend(backend_name)
    delta = PagedDelta(backend, np.dtype(np.int32), None)
    for numbers in ([105, 108, 311], [102, 300, 301, 707], [106]):
        delta, _, _ = delta.insert(edges_of(backend, numbers), "replace")
    rows = delta.rows(num_vertices)
    assert backend.to_host(rows.offsets).tolist() == [0, 0, 4, 4, 7, 7, 7, 7, 8, 8, 8, 8][: num_vertices + 1]
    assert backend.to_host(rows.indices).tolist() == [2, 5, 6, 8, 0, 1, 11, 7]
    assert rows.is_packed


class SettledElsewhere(PagedDelta):
    """A delta that another thread settles right after each read of its runs."""

    @property
    def _runs(self) -> Any:
        runs = self._present
        self._present = self._together(runs)
        return runs

    @_runs.setter
    def _runs(self, runs: Any) -> None:
        self._present = runs


@crossed(weighted=[False, True], dead=[False, True], backend_name=DEVICES)
def test_a_delta_may_be_settled_by_another_thread_at_any_time(weighted: bool, dead: bool, backend_name: str) -> None:
    backend, edges = get_backend(backend_name), {}
    delta = PagedDelta(backend, np.dtype(np.int32), np.dtype(np.float32) if weighted else None)

    def batch(numbers: Any, weight: float) -> EdgeBatch:
        plain, weights = edges_of(backend, numbers), np.full(len(numbers), weight, np.float32)
        return EdgeBatch(plain.src, plain.dst, backend.asarray(weights) if weighted else None)

    for numbers, weight in ((range(0, 1100, 11), 2.0), (range(5, 100, 7), 3.0)):
        delta, _, _ = delta.insert(batch(numbers, weight), "replace")
        edges |= {divmod(number, 100): weight if weighted else 1.0 for number in numbers}
    if dead:
        delta, _, _ = delta.delete(batch([11, 33], 0.0))
        del edges[0, 11], edges[0, 33]
    runs, changed = delta._runs, [0, 5, 12, 22, 44, 209]

    def racing() -> PagedDelta:
        other = SettledElsewhere(backend, np.dtype(np.int32), None)
        other._runs = runs
        return other

    assert racing().num_edges == len(edges)
    check(backend, racing(), edges, weighted)
    for how in ("replace", "add"):
        after, found, _ = racing().insert(batch(changed, 4.0), how)  # type: ignore[arg-type]
        former = {key: edges.get(key, 0.0) if how == "add" else 0.0 for key in (divmod(n, 100) for n in changed)}
        wanted = {key: weight + 4.0 if weighted else 1.0 for key, weight in former.items()}
        assert found == len(edges.keys() & wanted.keys())
        check(backend, after, edges | wanted, weighted)
    after, found, _ = racing().delete(batch(changed, 0.0))
    assert found == len(edges.keys() & wanted.keys())
    check(backend, after, {key: edges[key] for key in edges.keys() - wanted.keys()}, weighted)


def test_threads_that_read_settle_a_delta_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, together, calls = get_backend("cpu"), PagedDelta._together, []
    delta, _, _ = PagedDelta(backend, np.dtype(np.int32), None).insert(edges_of(backend, range(0, 1000, 10)), "replace")
    delta, _, _ = delta.insert(edges_of(backend, [1, 2]), "replace")

    def slowly(delta: PagedDelta, runs: Any) -> Any:
        calls.append(runs)
        time.sleep(0.05)
        return together(delta, runs)

    monkeypatch.setattr(PagedDelta, "_together", slowly)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(delta.columns)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert [columns[0] is found[0][0] for columns in found] == [True] * 4
