"""The cost models have the paper's terms, and its own example."""

from __future__ import annotations

import pytest

from dynstore import gts
from dynstore.errors import InputError
from dynstore.gts.costs import Machine, predict_pass, predict_search


def test_the_papers_example() -> None:
    """Section 7.5: ten iterations over RMAT30's 114 GB at 6 GB/s are 190 s; with N = 2 they are 95 s."""
    machine = Machine(chunk_bandwidth=16e9, stream_bandwidth=6e9)
    assert 10 * predict_pass(machine, 0, 0, 114 * 10**9, 1786) == pytest.approx(190)
    assert 10 * predict_pass(machine, 0, 0, 114 * 10**9, 1786, num_devices=2) == pytest.approx(95)


def test_the_terms_of_a_pass() -> None:
    machine = Machine(10.0, 5.0, call_seconds=0.5, last_kernel_seconds=7.0, sync_seconds=11.0)
    # 2 * 20 / 10 + (30 + 70) / (5 * 2) + 0.5 * 8 / 2 + 7 + 11
    assert predict_pass(machine, 20, 30, 70, 8, num_devices=2) == pytest.approx(34)


def test_the_terms_of_a_search() -> None:
    machine = Machine(10.0, 5.0, call_seconds=0.5)
    # 2 * 20 / 10, then two levels on 4 * 0.5 devices
    expected = 4 + (100 / 10 * 0.75 + 0.5 * 4 / 2) + (50 / 10 * 0.75 + 0.5 * 2 / 2)
    assert predict_search(machine, 20, [(100, 4), (50, 2)], hit_rate=0.25, num_devices=4, skew=0.5) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hit_rate": 1.5}, "predict_search: hit_rate is 1.5; wanted 0 to 1"),
        ({"num_devices": 4, "skew": 0.2}, "predict_search: skew is 0.2; wanted 0.25 to 1"),
    ],
)
def test_bounds(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        predict_search(Machine(1.0, 1.0), 0, [], **options)
    with pytest.raises(InputError, match="Machine: stream_bandwidth is 0; wanted more than 0"):
        Machine(1.0, 0)


def test_a_report_has_what_the_models_need() -> None:
    engine = gts.GTS(gts.build(([0, 1, 2, 3], [1, 2, 3, 4]), page_bytes=32), device="cpu", copy_bytes=0)
    engine.bfs(0)
    assert engine.last_run.by_pass == [(32, 1)] * 5
    frame, _ = engine.pagerank(max_iter=2, tol=0, fail_on_nonconvergence=False)
    assert len(frame) == 5
    pages = engine.topology.num_pages
    assert engine.last_run.by_pass == [(32 * pages + 4 * 5, pages)] * 2
