"""Mixed batches: both ways give the answers of one operation after the other; a wrong one is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.papers import lpma, mixed
from benchmarks.papers.bench import Bench
from benchmarks.papers.contest import CONTESTANTS, PapersJob, PapersResult
from benchmarks.papers.data import Ring
from benchmarks.papers.figures.printed import CUT, TOGETHER
from benchmarks.papers.run import run_experiments
from dynstore.backend import get_backend
from dynstore.graph import DynamicGraph

JOB = PapersJob(shrink=2000, steps=2, device="cpu", data="wiki,cit-patents", tables=("fig16",))


def ignore(*progress: Any) -> None:
    pass


class LabOfOne:
    def __init__(self, device: str) -> None:
        self.job, self.backend = JOB, get_backend(device)
        self.result, self.answers = PapersResult(device, [], 0, 1), {}

    def backend_of(self, contestant: object) -> Any:
        return self.backend


def one_by_one(edges: set[tuple[int, int]], batch: Any) -> tuple[list[bool], list[int]]:
    """Run all operations in order on a set."""
    there, found, held, done = [], [], set(edges), 0
    for number, time in enumerate(batch.times):
        held |= set(zip(batch.src[done:time].tolist(), batch.dst[done:time].tolist(), strict=True))
        done, k = max(done, time), number // 2
        if number % 2 == 0:
            there.append((int(batch.edge_src[k]), int(batch.edge_dst[k])) in held)
        else:
            found += sorted(dst for src, dst in held if src == batch.row_ids[k])
    return there, found


@pytest.mark.parametrize("store", ["lpma", "gpma+", "slab_hash"])
def test_both_ways_are_one_operation_after_the_other(
    store: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed, "QUERIES", 0.5)
    keys = rng.permutation(20 * 20)[:300]
    src, dst = (keys // 20).astype(np.int32), (keys % 20).astype(np.int32)
    lab: Any = LabOfOne("cpu")
    bench = Bench(lab, lpma.EXPERIMENTS[:1], Ring("wiki", "wiki", 20, src, dst), CONTESTANTS["gpma+"])
    batch = mixed._draw(bench, 150, 140, 1)
    assert len(batch.times) == 70
    wanted = one_by_one(set(zip(src[:150].tolist(), dst[:150].tolist(), strict=True)), batch)
    last = one_by_one(set(zip(src.tolist(), dst.tolist(), strict=True)), batch)
    assert wanted[0] != last[0]
    assert wanted[1] != last[1]
    for answer in (mixed._cut, mixed._together):
        graph = DynamicGraph(store=store, device="cpu")
        graph.insert_edges((src[:150], dst[:150]))
        there, found = answer(graph, batch)
        assert (there.tolist(), found.tolist()) == wanted
        assert graph.number_of_edges() == 290


def test_the_experiment_has_both_rows() -> None:
    result = run_experiments(lpma.EXPERIMENTS, JOB, ignore)
    assert result.disagreement is None
    assert {found.row for found in result.figures} == {CUT, TOGETHER}
    assert {found.contestant for found in result.figures} == {"lpma-h", "gpma+", "slab-hash"}
    assert {len(found.times) for found in result.figures} == {2}


def test_answers_of_another_time_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    together = mixed._together

    def late(graph: DynamicGraph, batch: Any) -> Any:
        return together(graph, batch._replace(row_times=batch.row_times * 0))

    monkeypatch.setattr(mixed, "_together", late)
    result = run_experiments(lpma.EXPERIMENTS, replace(JOB, shrink=200, stores=("gpma+",)), ignore)
    assert (result.disagreement or "").startswith("lpma/fig16, ")
    assert "neighbours in batch" in (result.disagreement or "")
