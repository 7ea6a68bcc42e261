"""The measurement of several ranks runs, on small sizes, and says what it promises."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from dynstore import distributed
from dynstore.benchmarks.costs.sharded import main, measure, run_by_nccl
from dynstore.errors import RankError


def test_all_operations_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--ranks", "2", "--scale", "9", "--batch", "50", "--steps", "2", "--device", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 ranks (threads), R-MAT 9, 50 rows a rank; median ms"
    assert [line.split()[0] for line in lines[1:]] == [
        "insert", "delete", "bfs", "weakly_connected_components", "pagerank",
    ]  # fmt: skip
    assert lines[1].endswith("of its rate")


def test_each_step_is_timed() -> None:
    first, second = distributed.run(lambda comm: measure(comm, 9, 8, 40, 3), ranks=2, device="cpu")
    assert {len(first[name]) for name in ("insert", "delete", "plain insert", "plain delete")} == {3}
    assert set(first) - set(second) == {"plain insert", "plain delete"}
    assert first["insert"] == second["insert"]
    with pytest.raises(RankError, match=r"costs\.sharded: 22 batches of 40 rows need more than 256 events"):
        distributed.run(lambda comm: measure(comm, 6, 4, 40, 20), ranks=2, device="cpu")


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed")
def test_a_process_that_ends_is_named() -> None:
    with pytest.raises(RankError, match="run_by_nccl: rank 0 has ended; its message is above"):
        run_by_nccl(measure, 2, 9, 8, 40, 3, limit=60.0)
