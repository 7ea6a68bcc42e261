"""Deletions and insertions in one version."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, LimitError, OutOfMemoryError, StaleSnapshotError
from dynstore.stores import STORES
from dynstore.stores.base import Plan, Reason, Refused, Store
from dynstore.testing.faults import FailingEmpty, FailingModule
from dynstore.testing.invariants import check_graph, named_edges
from tests.conftest import DEVICES
from tests.crossed import crossed, in_turn


def expected(before: dict[Any, float], insert: Any, delete: Any, add: bool, directed: bool) -> dict[Any, float]:
    """Return the edges after a deletion and then an insertion."""
    edges = dict(before)
    both = (lambda u, v: {(u, v)}) if directed else (lambda u, v: {(u, v), (v, u)})
    for u, v in zip(*delete, strict=True):
        for pair in both(u, v):
            edges.pop(pair, None)
    for u, v, w in zip(*insert, strict=True):
        for pair in both(u, v):
            edges[pair] = w + (edges.get(pair, 0.0) if add else 0.0)
    return edges


def stores_of(device: str) -> list[str]:
    return [name for name in sorted(STORES) if device == "cpu" or name not in ("adjlists", "pma")]


# Stores that take a deletion back without memory.
RESTORING = ("gpma+", "merge")
CASES = [(device, store) for device in DEVICES for store in stores_of(device)]


@in_turn(case=CASES, directed=[True, False])
def test_it_is_a_deletion_and_then_an_insertion(case: tuple[str, str], directed: bool) -> None:
    device, store = case
    rng = np.random.default_rng(7)
    G = DynamicGraph(directed=directed, weighted=True, store=store, device=device)
    edges: dict[Any, float] = {}
    for step in range(4 if device == "cpu" else 2):
        insert = (*rng.integers(0, 12 + step, (2, 30)).tolist(), np.arange(30.0).tolist())
        delete = rng.integers(0, 14, (2, 20)).tolist()
        if step == 1:
            G.predecessors(0)  # in-edges from here on
        add = step == 2
        report = G.update(insert, tuple(delete), on_duplicate="add" if add else "replace")
        found = len({frozenset(pair) if not directed else pair for pair in zip(*delete, strict=True) if pair in edges})
        assert report.deleted == found
        edges = expected(edges, insert, delete, add, directed)
        assert named_edges(G) == edges
        assert G.version == step + 1
        assert G.number_of_edges() == len({frozenset(pair) for pair in edges} if not directed else edges)
        check_graph(G, transposed=True)


@pytest.mark.parametrize("renumber", [False, True])
def test_new_vertices_come_with_it(renumber: bool) -> None:
    G = DynamicGraph(renumber=renumber, device="cpu")
    report = G.update(insert=[(0, 1), (1, 2)])
    assert (report.inserted, report.deleted, G.version) == (2, 0, 1)
    report = G.update(insert=[(2, 7), (2, 7)], delete=[(0, 1), (0, 1), (5, 5)])
    assert (report.inserted, report.deleted, report.absent, report.duplicates) == (1, 1, 1, 2)
    assert sorted(zip(*G.edge_columns().values(), strict=True)) == [(1, 2), (2, 7)]
    assert G.update().inserted == 0
    assert G.version == 3


@pytest.mark.parametrize("store", ["gpma+", "merge"])
def test_followed_answers_see_both(store: str) -> None:
    import dynstore

    rng = np.random.default_rng(2)
    G = DynamicGraph(directed=False, store=store, device="cpu")
    G.insert_edges(tuple(rng.integers(0, 60, (2, 400))))
    monitor = G.track("triangle_count")
    for _ in range(5):
        G.update(tuple(rng.integers(0, 60, (2, 9))), tuple(rng.integers(0, 60, (2, 60))))
        np.testing.assert_array_equal(monitor.result()["counts"], dynstore.triangle_count(G)["counts"])


@pytest.mark.parametrize(
    ("insert", "delete", "error"),
    [
        (([0, -1], [1, 2]), ([0], [1]), InputError),
        (([0], [1]), ([0], [-1]), InputError),
        (([0], [10**9]), ([0], [1]), LimitError),
        (([0], [1], [1.0]), ([0], [1]), InputError),
    ],
)
def test_bad_input_changes_nothing(insert: Any, delete: Any, error: type) -> None:
    G = DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu")
    with pytest.raises(error, match="update: "):
        G.update(insert, delete)
    assert G.version == 1
    assert len(named_edges(G)) == 2
    with pytest.raises(InputError, match="unknown on_duplicate 'append'"):
        G.update([(0, 1)], on_duplicate="append")


class Failing:
    """Plans of insertions that run out of memory, a number of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Store], times: int) -> None:
        self.left, self.plan = times, kind.plan_insert
        monkeypatch.setattr(kind, "plan_insert", lambda store, *batch: self.planned(store, *batch))

    def planned(self, store: Store, *batch: Any) -> Plan:
        if self.left:
            self.left -= 1
            raise MemoryError("no memory")
        return self.plan(store, *batch)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("store", sorted(STORES))
def test_a_failed_insertion_takes_the_deletion_back(
    store: str, directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    G = DynamicGraph(directed=directed, weighted=True, store=store, device="cpu")
    G.insert_edges((*rng.integers(0, 30, (2, 200)), np.arange(200.0)))
    G.predecessors(0)
    monitor, before, snapshot = G.track("pagerank"), named_edges(G), G.snapshot()
    Failing(monkeypatch, type(G.core.out), 1)
    with pytest.raises(OutOfMemoryError, match=r"update: memory ran out .no memory.; the graph is as it was"):
        G.update(([0, 1], [2, 3], [1.0, 1.0]), (np.arange(30), np.arange(30)[::-1]))
    assert (named_edges(G), G.version) == (before, 1)
    check_graph(G, transposed=True)
    if store in RESTORING:
        assert snapshot.num_edges == G.snapshot().num_edges
    else:
        with pytest.raises(StaleSnapshotError):
            snapshot.offsets  # noqa: B018
    G.update(delete=(np.arange(30), np.arange(30)[::-1]))
    assert monitor.result()["pagerank"].sum() == pytest.approx(1.0)
    check_graph(G, transposed=True)


class NoInsertion:
    """Insertions are not attempted, and the first plan of one runs out of memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Store]) -> None:
        Failing(monkeypatch, kind, 1)
        monkeypatch.setattr(kind, "try_insert", lambda store, batch, *_: Refused(Reason.UNSUPPORTED, batch))


@crossed(
    case=[case for case in CASES if case[1] in ("gpma+", "merge", "slab_hash")],
    followed=[True, False],
    directed=[True, False],
    weighted=[True, False],
    all_there=[True, False],
)
def test_only_edges_that_were_there_come_back(
    case: tuple[str, str],
    followed: bool,
    directed: bool,
    weighted: bool,
    all_there: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (device, store), delete = case, ([0, 1], [1, 2]) if all_there else ([0, 1, 2, 0, 7], [1, 0, 2, 1, 7])
    columns = (np.arange(8), np.roll(np.arange(8), -1), np.arange(1.0, 9.0))
    G = DynamicGraph(directed=directed, weighted=weighted, store=store, device=device)
    G.insert_edges(columns if weighted else columns[:2])
    log, before = G.core.follow() if followed else None, named_edges(G)
    insert = ([3, 5], [3, 5], [1.0, 2.0]) if weighted else ([3, 5], [3, 5])
    with monkeypatch.context() as patch:
        NoInsertion(patch, type(G.core.out))
        with pytest.raises(OutOfMemoryError, match="the graph is as it was"):
            G.update(insert, delete)
    assert (named_edges(G), G.version) == (before, 1)
    check_graph(G, transposed=True)
    assert G.update(insert, delete).inserted == 2
    assert not G.has_edges(delete).any()
    if log is not None:
        delta = G.core.net_delta(log)
        assert delta is not None
        was = dict(zip(zip(delta.src.tolist(), delta.dst.tolist(), strict=True), delta.before.tolist(), strict=True))
        assert was.keys() >= {(0, 1), (3, 3), (5, 5)}
        assert all(there == (pair in before) for pair, there in was.items())


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_unweighted_edges_that_are_all_there_are_not_looked_up(
    device: str, directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    G = DynamicGraph(directed=directed, device=device)
    G.insert_edges((np.arange(200), np.roll(np.arange(200), -1)))
    monkeypatch.setattr(type(G.core.out), "look_up", None)
    monkeypatch.setattr(type(G.core.out), "read_located", None)
    report = G.update(insert=([3, 7], [9, 9]), delete=([5, 4, 90], [6, 5, 91]))
    assert (report.inserted, report.deleted, report.absent) == (2, 3, 0)
    check_graph(G)


def test_without_memory_for_that_the_deletion_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph.from_edges([(0, 1), (1, 2), (2, 0)], store="slab_hash", device="cpu")
    Failing(monkeypatch, type(G.core.out), 2)
    with pytest.raises(OutOfMemoryError, match="the deletions are made, the insertions are not"):
        G.update([(1, 0)], [(0, 1)])
    assert (len(named_edges(G)), G.number_of_edges(), G.version) == (2, 2, 2)
    check_graph(G)


@in_turn(case=[case for case in CASES if case[1] in RESTORING], followed=[False, True], lasting=[False, True])
def test_taking_back_needs_no_memory(
    case: tuple[str, str], followed: bool, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each allocation is refused in turn, alone and with all that follow it: so each pair is, too."""
    device, store = case
    hub = np.zeros(40, np.int64)
    first = (np.r_[hub, np.arange(1, 50)], np.r_[np.arange(40), np.arange(49)], np.arange(89.0))
    insert = (np.r_[hub, np.arange(60, 64)], np.arange(44), np.arange(44.0))
    delete = (np.r_[hub, [5, 9]], np.r_[np.arange(40), [4, 9]])  # a leaf and more; one edge is absent
    start = DynamicGraph(weighted=True, store=store, device=device)
    start.insert_edges(first)
    for name, failing in (("empty", FailingEmpty), ("xp", FailingModule)):
        for n in count():
            G = start.copy()
            G.snapshot(transposed=True)
            log, before, snapshot = G.core.follow() if followed else None, named_edges(G), G.snapshot()
            refusing = failing(getattr(G.core.backend, name), n, lasting)
            with monkeypatch.context() as patch:
                patch.setattr(G.core.backend, name, refusing)
                try:
                    report = G.update(insert, delete)
                except OutOfMemoryError as error:
                    assert str(error).endswith("the graph is as it was")  # noqa: PT017
                    report = None
            check_graph(G, transposed=True)
            if report is None:
                assert (named_edges(G), G.version, G.number_of_edges()) == (before, 1, len(before))
                assert snapshot.num_edges == len(before)
                assert log is None or not log.changes
            elif refusing.calls <= n:
                break
        assert (report.deleted, report.absent, n > 3) == (41, 1, True)
