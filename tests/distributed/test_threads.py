"""Ranks as threads: what collectives return, and how one rank's end is every rank's end, soon and with one error."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic, sleep

import numpy as np
import pytest

from dynstore import distributed
from dynstore.distributed import Communicator
from dynstore.errors import InputError, InputTypeError, RankError
from tests.distributed.processes import check_pages, check_stream


def run(function, ranks=4, timeout=20.0):
    return distributed.run(function, ranks=ranks, device="cpu", timeout=timeout)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_collectives(ranks: int) -> None:
    def program(comm: Communicator):
        rank, size = comm.rank, comm.size
        comm.barrier()
        assert comm.all_gather({"rank": rank}) == [{"rank": each} for each in range(size)]
        numbers = np.array([rank, -rank, 1])
        assert comm.all_reduce(numbers).tolist() == [sum(range(size)), -sum(range(size)), size]
        assert comm.all_reduce(numbers, "max").tolist() == [size - 1, 0, 1]
        assert comm.all_reduce(numbers, "min").tolist() == [0, 1 - size, 1]
        assert comm.broadcast(numbers, root=size - 1).tolist() == [size - 1, 1 - size, 1]
        # Rank r sends r + 1 rows to each rank but itself.
        send = [0 if each == rank else rank + 1 for each in range(size)]
        receive = [0 if each == rank else each + 1 for each in range(size)]
        goal = np.repeat(np.arange(size), send)
        columns = comm.all_to_all([goal, np.full(len(goal), rank / 2)], send, receive)
        assert columns[0].tolist() == [rank] * sum(receive)
        assert columns[1].tolist() == np.repeat(np.arange(size) / 2, receive).tolist()
        return rank

    assert run(program, ranks) == list(range(ranks))


@pytest.mark.parametrize("program", [check_pages, check_stream])
def test_the_program_of_processes_runs_on_threads(program) -> None:
    run(program, 2)


def test_results_belong_to_the_rank() -> None:
    def program(comm: Communicator):
        mine = np.zeros(3)
        total, shown = comm.all_reduce(mine), comm.broadcast(mine)
        mine += 1
        total += comm.rank
        shown += comm.rank
        comm.barrier()
        return total.tolist(), shown.tolist()

    assert run(program, 3) == [([float(rank)] * 3, [float(rank)] * 3) for rank in range(3)]


def test_sums_have_the_same_bits_everywhere() -> None:
    values = np.random.default_rng(3).random((4, 1000)) * 10.0 ** np.random.default_rng(4).integers(-20, 20, (4, 1000))
    found = run(lambda comm: comm.all_reduce(values[comm.rank]).tobytes())
    assert len(set(found)) == 1


def test_a_rank_that_raises_ends_the_call_of_all() -> None:
    seen = {}

    def program(comm: Communicator) -> None:
        if comm.rank == 2:
            raise ValueError("no such file")
        try:
            comm.barrier()
        except RankError as error:
            seen[comm.rank] = str(error)
            raise

    begun = monotonic()
    with pytest.raises(RankError, match=r"^run: rank 2 raised ValueError: no such file$") as caught:
        run(program)
    assert monotonic() - begun < 2
    assert isinstance(caught.value.__cause__, ValueError)
    assert seen == dict.fromkeys((0, 1, 3), "rank 2 raised ValueError: no such file")


def test_a_rank_that_exits_ends_the_call_of_all() -> None:
    def program(comm: Communicator) -> None:
        if comm.rank == 1:
            raise SystemExit(3)
        comm.barrier()

    with pytest.raises(RankError, match="rank 1 raised SystemExit: 3"):
        run(program, 2)


def test_calls_after_a_failure_raise_at_once() -> None:
    def program(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("early")
        for _ in range(3):
            with pytest.raises(RankError, match="rank 1 raised ValueError: early"):
                comm.barrier()

    with pytest.raises(RankError, match="early"):
        run(program, 2)


def test_a_rank_that_ends_early_is_named() -> None:
    with pytest.raises(RankError, match="all_gather: rank 1 has ended, and rank 0 waits for it"):
        run(lambda comm: comm.barrier() if comm.rank == 0 else None, 2)


def test_a_rank_that_does_not_come_is_named() -> None:
    done = Event()

    def program(comm: Communicator) -> None:
        if comm.rank == 1:
            done.wait(10)
        try:
            comm.barrier()
        finally:
            done.set()

    with pytest.raises(RankError, match=r"all_gather: rank [02] has waited 0\.2 s for these ranks: 1$"):
        run(program, 3, timeout=0.2)


def test_a_rank_that_goes_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynstore.distributed.threads.GRACE", 0.2)
    done = Event()

    def program(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("early")
        done.wait(10)

    with pytest.raises(RankError, match=r"rank 1 raised ValueError: early; still at work: rank 0$"):
        run(program, 2)
    done.set()


def test_different_calls_are_refused() -> None:
    def program(comm: Communicator) -> None:
        sleep(0.01 * comm.rank)
        if comm.rank == 1:
            comm.barrier()
        else:
            comm.all_reduce(np.zeros(1))

    with pytest.raises(RankError, match="rank 0 calls all_reduce, rank 1 calls all_gather; wanted the same calls"):
        run(program, 2)


def test_two_threads_of_a_rank_take_turns() -> None:
    """The second call is refused on each rank, whichever of the two a rank has begun; the first ones go on."""

    def program(comm: Communicator) -> tuple[list[str], int]:
        G, errors = distributed.ShardedGraph(comm), []

        def insert_meanwhile() -> None:
            try:
                G.insert_edges([(8, 9)])
            except RankError as error:
                errors.append(str(error))

        class Edges(list):  # type: ignore[type-arg]
            """Edges during whose reading another thread of the rank calls the graph."""

            def __len__(self) -> int:
                if not errors:
                    other = Thread(target=insert_meanwhile)
                    other.start()
                    other.join()
                return super().__len__()

        G.insert_edges(Edges([(comm.rank, 5)]))
        G.delete_edges([(0, 5)])
        insert_meanwhile()  # now it is its turn
        return errors, G.number_of_edges()

    for rank, (errors, num_edges) in enumerate(distributed.run(program, ranks=2, device="cpu")):
        assert errors == [
            f"insert_edges: another thread of rank {rank} is in insert_edges; wanted one call at a time, in the same "
            "order on all ranks"
        ]
        assert num_edges == 2


def test_a_call_that_raises_lets_other_threads_in() -> None:
    def program(comm: Communicator) -> int:
        G = distributed.ShardedGraph(comm)
        with pytest.raises(InputError, match="must not be negative"):
            G.insert_edges([(-1, 2)])
        other = Thread(target=G.insert_edges, args=([(8, 9)],))
        other.start()
        other.join()
        return G.number_of_edges()

    assert distributed.run(program, ranks=2, device="cpu") == [1, 1]


def test_abort_ends_all() -> None:
    def program(comm: Communicator) -> None:
        if comm.rank == 1:
            comm.abort("the data is bad")
        comm.barrier()

    with pytest.raises(RankError, match="the data is bad"):
        run(program, 3)


def test_wrong_arguments() -> None:
    with pytest.raises(InputTypeError, match="run: function is a int; wanted a function"):
        run(3)
    with pytest.raises(InputError, match="run: ranks is 0; wanted 1 or more"):
        run(lambda comm: None, 0)
    with pytest.raises(InputError, match="run: timeout is 0; wanted more than 0 seconds"):
        run(lambda comm: None, 1, 0)
