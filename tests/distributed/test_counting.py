"""A communicator that counts what collectives carry, and does what the one inside does."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import distributed
from dynstore.distributed import Communicator, CountingCommunicator, Traffic
from dynstore.errors import RankError
from tests.distributed.processes import check_collectives


@pytest.mark.parametrize("ranks", [1, 3])
def test_results_are_those_of_the_one_inside(ranks: int) -> None:
    distributed.run(lambda comm: check_collectives(CountingCommunicator(comm)), ranks, "cpu")


def test_what_is_counted() -> None:
    def program(comm: Communicator) -> dict[str, Traffic]:
        counting = CountingCommunicator(comm)
        counting.barrier()
        counting.reset()
        counting.all_gather("x" * 5000 if comm.rank == 0 else "x")
        counting.all_reduce(np.zeros(10))
        counting.broadcast(np.zeros(7, np.int32), root=1)
        send = [2, 3, 0]
        receive = [send[comm.rank]] * 3
        counting.all_to_all([np.zeros(5, np.int32), np.zeros(5)], send, receive)
        return counting.counts

    first, second, third = distributed.run(program, 3, "cpu")
    assert first["all_gather"].calls == first["all_gather"].messages // 2 == 1
    assert first["all_gather"].nbytes > 2 * (4096 + 5000)  # a longer value takes a second trip
    assert second["all_gather"] == third["all_gather"] == Traffic(1, 2, 2 * 4096)
    assert first["all_reduce"] == third["all_reduce"] == Traffic(1, 1, 80)
    assert [each["broadcast"] for each in (first, second, third)] == [Traffic(1), Traffic(1, 1, 28), Traffic(1)]
    assert [each["all_to_all"] for each in (first, second, third)] == [
        Traffic(1, 2, 3 * 12), Traffic(1, 2, 2 * 12), Traffic(1, 4, 5 * 12),
    ]  # fmt: skip


def test_one_rank_has_none_to_send_to() -> None:
    def program(comm: Communicator) -> dict[str, Traffic]:
        counting = CountingCommunicator(comm)
        counting.all_gather(1)
        counting.all_to_all([np.zeros(5)], [5], [5])
        return counting.counts

    (only,) = distributed.run(program, 1, "cpu")
    assert only["all_gather"] == only["all_to_all"] == Traffic(1, 0, 0)


def test_its_abort_ends_all() -> None:
    with pytest.raises(RankError, match="the data is bad"):
        distributed.run(lambda comm: CountingCommunicator(comm).abort("the data is bad"), 2, "cpu")
