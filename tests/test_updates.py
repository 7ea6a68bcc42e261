"""One transaction an update: attempts that are refused say why, and the plan goes on from there."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.batches.make import make_batch
from dynstore.errors import InputError
from dynstore.graph.transaction import Deletion, Growth, Insertion
from dynstore.stores.base import Plan, Reason, Refused
from dynstore.testing.invariants import check_graph, live_edges
from tests.conftest import DEVICES

DEVICE = DEVICES[-1]
pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="only CUDA stores write before they plan")


def make(**options: Any) -> DynamicGraph:
    graph = DynamicGraph(device=DEVICE, **options)
    graph.insert_edges((np.repeat(np.arange(40, dtype=np.int32), 5), np.tile(np.arange(5, dtype=np.int32), 40)))
    return graph


def attempt(graph: DynamicGraph, method: str, src: list[int], dst: list[int]) -> Plan | Refused:
    columns = (graph.core.backend.asarray(np.array(ids, np.int32)) for ids in (src, dst))
    batch = make_batch(graph.core.backend, *columns, None, True, max_id=None)
    operation = Insertion(graph.number_of_vertices(), "replace") if method == "insert" else Deletion()
    return operation.attempt(graph.core.out, batch)


@pytest.mark.parametrize(
    ("reason", "method", "src", "dst"),
    [
        (Reason.INVALID, "insert", [1, 99], [7, 7]),
        (Reason.INVALID, "delete", [1, 2], [3, 39]),
        (Reason.NOTHING, "insert", [], []),
        (Reason.SPARSE, "delete", [row for row in range(40) for _ in range(5)][:-5], [*range(5)] * 39),
    ],
)
def test_a_refusal_says_why(reason: Reason, method: str, src: list[int], dst: list[int]) -> None:
    graph = make()
    before = live_edges(graph.snapshot())
    outcome = attempt(graph, method, src, dst)
    assert isinstance(outcome, Refused)
    assert outcome.reason is reason
    assert (outcome.batch.search is not None) == (reason is Reason.SPARSE)
    assert live_edges(graph.snapshot()) == before


def test_an_export_has_updates_planned() -> None:
    graph = make()
    exported = graph.snapshot().export()
    outcome = attempt(graph, "insert", [1], [9])
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.PINNED
    del exported
    assert isinstance(attempt(graph, "insert", [1], [9]), Plan)


def test_too_many_keys_of_a_leaf_have_the_batch_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that comes back needs order; the one that went in is as it was."""
    from dynstore.stores.gpma_plus.cuda import speculative

    graph = make()
    columns = (graph.core.backend.asarray(ids) for ids in (np.full(40, 3, np.int32), np.arange(40, dtype=np.int32)))
    batch = make_batch(graph.core.backend, *columns, None, True, max_id=None)
    monkeypatch.setattr(speculative, "try_insert", lambda *_: Reason.SCRATCH)
    outcome = Insertion(40, "replace").attempt(graph.core.out, batch)
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.batch.needs_order, batch.needs_order) == (Reason.SCRATCH, True, False)  # type: ignore[attr-defined]
    assert outcome.batch.count_edges() == batch.count_edges() == 40


def test_what_was_refused_is_logged_and_planned(caplog: pytest.LogCaptureFixture) -> None:
    graph = make()
    with caplog.at_level(logging.DEBUG, logger="dynstore"):
        report = graph.insert_edges((np.array([1, 60], np.int32), np.array([9, 2], np.int32)))
    assert report.inserted == 2
    assert Reason.INVALID.value in caplog.text
    check_graph(graph)


def test_bad_input_is_found_after_the_attempt() -> None:
    graph = make()
    with pytest.raises(InputError, match="row 1"):
        graph.insert_edges((np.array([1, -4], np.int32), np.array([9, 2], np.int32)))
    check_graph(graph)


def test_vertices_are_never_attempted() -> None:
    graph = make()
    batch = make_batch(
        get_backend(DEVICE), *(graph.core.backend.asarray(np.zeros(1, np.int32)) for _ in "ab"), None, True
    )
    outcome = Growth(50).attempt(graph.core.out, batch)
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNSUPPORTED
