"""Transfers beside the work: each batch is there in time, the right distances come back, what is late is found out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.papers import gpma, transfers
from benchmarks.papers.contest import PapersJob
from benchmarks.papers.figures.printed import BESIDE, COPIES, IN_TURN
from benchmarks.papers.run import run_experiments
from tests.conftest import DEVICES

JOB = PapersJob(shrink=4000, steps=3, data="pokec", tables=("fig11",))


def ignore(*progress: Any) -> None:
    pass


@pytest.mark.parametrize("device", [name for name in DEVICES if name != "cuda-sim"])
def test_both_ways_have_their_rows(device: str) -> None:
    result = run_experiments(gpma.EXPERIMENTS, replace(JOB, device=device), ignore)
    assert result.disagreement is None
    rows = {(found.row, len(found.times)) for found in result.figures}
    assert rows == {(row, 3) for row in ("update", "BFS", COPIES, IN_TURN, BESIDE)}
    assert {found.contestant for found in result.figures} == {"gpma+", "gpma+ level"}
    assert len({found.batch for found in result.figures}) == 3
    assert any("nothing to hide" in note for note in result.notes) == (device == "cpu")


def test_copies_run_on_a_stream_of_their_own() -> None:
    copies: list[tuple[int, ...]] = []
    runtime = SimpleNamespace(
        memcpyHostToDevice=1, memcpyDeviceToHost=2, memcpyAsync=lambda *given: copies.append(given)
    )
    made = SimpleNamespace(ptr=77, synchronize=lambda: copies.append(()))
    cuda = SimpleNamespace(
        runtime=runtime, Stream=lambda non_blocking: non_blocking and made, alloc_pinned_memory=bytearray
    )
    lane = transfers._Lane(SimpleNamespace(on_gpu=True, xp=SimpleNamespace(cuda=cuda)))
    host, device = lane.pinned((2, 3)), SimpleNamespace(data=SimpleNamespace(ptr=5), nbytes=24)
    assert (host.shape, host.dtype) == ((2, 3), np.int32)
    lane.begin(device, host)
    lane.begin(host, device)
    lane.wait()
    assert copies == [(5, host.ctypes.data, 24, 1, 77), (host.ctypes.data, 5, 24, 2, 77), ()]


@pytest.mark.parametrize("late", ["batch", "distances"])
def test_copies_that_come_too_late_are_found_out(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slide = transfers._slide_beside

    def slide_late(stream: Any, step: int, last: Any) -> Any:
        distances = slide(stream, step, last)
        if late == "batch":
            stream.buffers[(step + 1) % 2][...] = stream.buffers[step % 2]
        return distances if late == "batch" else distances * 0

    monkeypatch.setattr(transfers, "_slide_beside", slide_late)
    result = run_experiments(gpma.EXPERIMENTS, replace(JOB, device="cpu"), ignore)
    said = {"batch": "gpma+ level: holds (", "distances": "gpma+ level: distances after slides of "}[late]
    assert said in (result.disagreement or "")
