"""A rank that dies in any collective of any call ends all others; one that refuses any agreement is refused by all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import pytest

from dynstore import distributed
from dynstore.distributed import Communicator, CountingCommunicator, ShardedGraph
from dynstore.distributed.calls import Collective
from dynstore.errors import InputError, RankError
from tests.distributed.one_graph import state_of

RANKS = 3


class Gone(BaseException):
    """A process is killed: it says nothing to the others."""


class Dying(Communicator):
    """Does what another communicator does, until so many collectives are left; then its rank is gone."""

    def __init__(self, comm: Communicator) -> None:
        self._comm, self.rank, self.size, self.device = comm, comm.rank, comm.size, comm.device
        self.left = 10**9

    def _pass(self) -> None:
        if self.left == 0:
            raise Gone
        self.left -= 1

    def all_gather(self, value: Any) -> list[Any]:
        self._pass()
        return self._comm.all_gather(value)

    def all_reduce(self, array: Any, operation: Any = "sum") -> Any:
        self._pass()
        return self._comm.all_reduce(array, operation)

    def all_to_all(self, columns: Sequence[Any], send: Sequence[int], receive: Sequence[int]) -> list[Any]:
        self._pass()
        return self._comm.all_to_all(columns, send, receive)

    def broadcast(self, array: Any, root: int = 0) -> Any:
        self._pass()
        return self._comm.broadcast(array, root)

    def abort(self, reason: str) -> NoReturn:
        if self.left == 0:
            raise Gone
        self._comm.abort(reason)


def rows(seed: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    return (*random.integers(0, 20, (2, 12)), random.random(12))


UPDATES: dict[str, Callable[[ShardedGraph], Any]] = {
    "insert_edges": lambda G: G.insert_edges(rows(10 + G.comm.rank)),
    "delete_edges": lambda G: G.delete_edges(rows(G.comm.rank)[:2]),
    "update": lambda G: G.update(rows(10 + G.comm.rank), rows(G.comm.rank)[:2]),
    "insert_vertices": lambda G: G.insert_vertices([30 + G.comm.rank]),
}
READING: dict[str, Callable[[ShardedGraph], Any]] = {
    "has_edges": lambda G: G.has_edges([(G.comm.rank, 1)]),
    "degree": lambda G: G.degree([G.comm.rank]),
    "gather": lambda G: G.gather(1),
    "bfs": lambda G: distributed.bfs(G, 0),
    "sssp": lambda G: distributed.sssp(G, 0),
    "pagerank": distributed.pagerank,
    "components": distributed.weakly_connected_components,
    "triangles": distributed.triangle_count,
}
CALLS = UPDATES | READING


def filled(comm: Communicator, **options: Any) -> ShardedGraph:
    G = ShardedGraph(comm, **{"weighted": True, "directed": False, **options})
    G.insert_edges(rows(comm.rank))
    return G


def count_collectives(call: Callable[[ShardedGraph], Any]) -> int:
    def program(comm: Communicator) -> int:
        counting = CountingCommunicator(comm)
        G = filled(counting)
        counting.reset()
        call(G)
        return sum(each.calls for each in counting.counts.values())

    return distributed.run(program, RANKS, "cpu")[0]


@pytest.mark.parametrize("name", CALLS)
def test_a_rank_that_dies_in_each_collective_ends_all(name: str) -> None:
    """The others end at once, and none has a part of an update before all have voted for it."""
    call, total = CALLS[name], count_collectives(CALLS[name])
    assert total > 1
    # Iterations are alike.
    places = [*range(min(total, 8)), *range(max(8, total - 4), total)]
    for place in places:
        dying = place % RANKS
        ends: dict[int, str] = {}
        same: dict[int, bool] = {}

        def program(
            comm: Communicator, place: int = place, dying: int = dying, ends: Any = ends, same: Any = same
        ) -> None:
            wrapped = Dying(comm)
            G = filled(wrapped)
            before = state_of(G)
            if comm.rank == dying:
                wrapped.left = place
            try:
                call(G)
            except Gone:
                return
            except RankError as error:
                ends[comm.rank] = str(error)
                same[comm.rank] = state_of(G) == before
                raise
            ends[comm.rank] = "it has returned"

        with pytest.raises(RankError, match=f"rank {dying} has ended"):
            distributed.run(program, RANKS, "cpu", timeout=20.0)
        assert len(ends) == RANKS - 1
        assert all(f"rank {dying} has ended, and rank" in text for text in ends.values()), ends
        assert all(same.values()), place  # the vote is the last collective


@pytest.mark.parametrize("name", CALLS)
def test_each_agreement_refused_by_each_rank(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """All raise; the graph is as it was, and the ranks are together."""
    call, agree = CALLS[name], Collective.agree
    left: dict[int, int] = {}

    def refusing(self: Collective, value: Any = None) -> list[Any]:
        # The agreement at the end of a call is for what has failed within it.
        if self.comm.rank in left and sys._getframe(1).f_code.co_name != "_end":
            left[self.comm.rank] -= 1
            if left[self.comm.rank] < 0:
                del left[self.comm.rank]
                raise InputError(f"{self.caller}: not here")
        return agree(self, value)

    def program(comm: Communicator) -> int:
        G = filled(comm)
        before = state_of(G)
        for place in range(12):
            for refuser in range(RANKS):
                if comm.rank == refuser:
                    left[refuser] = place
                text = ""
                try:
                    call(G)
                except InputError as error:
                    text = str(error)
                if not text:
                    left.pop(refuser, None)
                    return place
                assert text.endswith("not here")
                assert ("refused it" in text) == (comm.rank != refuser)
                assert state_of(G) == before
        return 12

    monkeypatch.setattr(Collective, "agree", refusing)
    assert set(distributed.run(program, RANKS, "cpu", timeout=20.0)) <= {*range(1, 13)}


@pytest.mark.parametrize("name", ["insert_edges", "delete_edges", "update"])
def test_what_fails_behind_the_vote_ends_all(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The others have written their parts, and return; their next call raises."""
    finish, returned = ShardedGraph._sum_up, []

    def failing(self: ShardedGraph, *given: Any) -> Any:
        if self.comm.rank == 0 and self.number_of_edges():
            raise InputError("not here")
        return finish(self, *given)

    def program(comm: Communicator) -> None:
        G = filled(comm)
        CALLS[name](G)
        returned.append(comm.rank)
        G.degree()

    monkeypatch.setattr(ShardedGraph, "_sum_up", failing)
    with pytest.raises(RankError, match=rf"{name}: rank 0 raised InputError: not here; the graph's parts differ"):
        distributed.run(program, RANKS, "cpu", timeout=20.0)
    assert 0 not in returned
