"""The shipped kit finds faults: stores broken on purpose fail it, and it fails no sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.stores.base import Plan
from dynstore.stores.rebuild.store import RebuildStore
from dynstore.testing.contract import StoreContract
from dynstore.testing.faults import for_every_allocation
from dynstore.testing.machine import make_machine
from dynstore.testing.model import ModelGraph
from dynstore.testing.pair import Pair
from dynstore.testing.parity import check_parity


class Rebuild(StoreContract):
    """Used by hand below, so it is not collected."""

    __test__ = False
    store = "rebuild"


def test_the_model_by_hand() -> None:
    model = ModelGraph(directed=False, weighted=True)
    report = model.insert_edges(([1, 2, 0], [2, 1, 0], [1.0, 2.0, 3.0]), on_duplicate="add")
    assert (report.inserted, report.replaced, report.duplicates) == (2, 0, 1)
    assert model.edges == {(1, 2): 3.0, (0, 0): 3.0}
    assert model.arcs() == {(1, 2): 3.0, (2, 1): 3.0, (0, 0): 3.0}
    assert model.neighbors(2).tolist() == [1]
    assert (model.out_degrees() + model.in_degrees()).tolist() == [2, 2, 2]
    report = model.delete_edges(([2, 2, 5, 2], [1, 2, 5, 1]))
    assert (report.deleted, report.absent, report.duplicates) == (1, 2, 1)
    assert (model.number_of_edges(), model.number_of_vertices(), model.version) == (1, 3, 2)
    assert np.isnan(model.edge_weights(([1], [2]))).all()


@pytest.mark.parametrize(
    ("error", "columns"),
    [
        (InputError, ([0, -1], [1, 1])),
        (InputTypeError, ([0, 0.5], [1, 1])),
        (InputTypeError, (["0"], [1])),
        (InputTypeError, ([True], [1])),
        (InputTypeError, ([None], [1])),
        (LimitError, ([2**31 - 1], [1])),
        (LimitError, ([2**24], [1])),
        (InputError, ([0, 1], [1])),
        (InputError, ([0], [1], [float("nan")])),
        (InputTypeError, ([0], [1], ["x"])),
    ],
)
def test_the_model_refuses(error: type[Exception], columns: tuple[Any, ...]) -> None:
    model = ModelGraph(weighted=True)
    with pytest.raises(error):
        model.insert_edges(columns)
    assert (model.edges, model.version, model.num_vertices) == ({}, 0, 0)
    with pytest.raises(InputError):
        ModelGraph().insert_edges(([0], [1], [1.0]))
    with pytest.raises(InputError):
        model.insert_edges(([0], [1]), on_duplicate="sum")


def _wrong_count(plan: Plan) -> Plan:
    return replace(plan, found=plan.found + 1)


def _no_commit(plan: Plan) -> Plan:
    return replace(plan, commit=lambda: None)


@pytest.mark.parametrize("method", ["plan_insert", "plan_delete"])
@pytest.mark.parametrize("mutate", [_wrong_count, _no_commit])
def test_a_wrong_plan_is_found(monkeypatch: pytest.MonkeyPatch, method: str, mutate: Callable[[Plan], Plan]) -> None:
    original = getattr(RebuildStore, method)
    monkeypatch.setattr(RebuildStore, method, lambda self, *args: mutate(original(self, *args)))
    with pytest.raises(AssertionError):
        Rebuild().test_inserts_deletes_and_queries_follow_the_model(True, True)


def test_a_store_that_keeps_dead_weights_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding to the weight that an edge had before it was deleted."""
    original, dead = RebuildStore.plan_insert, {(1, 2): 7.0, (2, 1): 7.0}

    def plan_insert(self: RebuildStore, batch: Any, *args: Any) -> Plan:
        held = set(zip(self.slots.src.tolist(), self.slots.dst.tolist(), strict=True))
        for row, edge in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), strict=True)):
            if edge not in held and held:
                batch.weights[row] += dead.get(edge, 0.0)
        return original(self, batch, *args)

    monkeypatch.setattr(RebuildStore, "plan_insert", plan_insert)
    with pytest.raises(AssertionError, match="weights differ"):
        Rebuild().test_an_edge_that_comes_back_starts_from_nothing("add")


def test_a_store_that_writes_while_it_plans_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan_delete(self: RebuildStore, batch: Any) -> Plan:
        self.slots.weights[:1] = 99.0
        return original(self, batch)

    original = RebuildStore.plan_delete
    monkeypatch.setattr(RebuildStore, "plan_delete", plan_delete)
    pair = Pair(store="rebuild", device="cpu", weighted=True)
    pair.insert([0, 1], [1, 2], [1.0, 2.0])
    with pytest.raises(AssertionError, match="refused update has changed"):
        for_every_allocation(monkeypatch, pair, "delete_edges", ([0], [1]))


def test_a_store_that_swallows_a_failed_allocation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan_delete(self: RebuildStore, batch: Any) -> Plan:
        try:
            return original(self, batch)
        except MemoryError:
            return original(self, batch)

    original = RebuildStore.plan_delete
    monkeypatch.setattr(RebuildStore, "plan_delete", plan_delete)
    pair = Pair(store="rebuild", device="cpu")
    pair.insert([0, 1], [1, 2])
    with pytest.raises(AssertionError, match="failed and the update went on"):
        for_every_allocation(monkeypatch, pair, "delete_edges", ([0], [1]))


def test_a_store_that_overwrites_exports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RebuildStore.plan_insert

    def plan_insert(self: RebuildStore, *args: Any) -> Plan:
        plan, old = original(self, *args), self.slots

        def commit() -> None:
            old.dst.fill(0)
            plan.commit()

        return replace(plan, commit=commit)

    monkeypatch.setattr(RebuildStore, "plan_insert", plan_insert)
    with pytest.raises(AssertionError):
        Rebuild().test_exported_arrays_never_change()


def test_the_state_machine_finds_a_fault_that_needs_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting the last edge of a graph that once had more than three."""
    original, most = RebuildStore.plan_delete, [0]

    def plan_delete(self: RebuildStore, batch: Any) -> Plan:
        most[0] = max(most[0], self.slots.num_edges)
        plan = original(self, batch)
        last = self.slots.num_edges == plan.found > 0
        return replace(plan, commit=lambda: None) if last and most[0] > 3 else plan

    monkeypatch.setattr(RebuildStore, "plan_delete", plan_delete)
    from hypothesis import Phase, settings
    from hypothesis.stateful import run_state_machine_as_test

    quickly = settings(max_examples=200, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(make_machine("rebuild", "cpu"), settings=quickly)


def test_parity_sees_values_dtypes_and_errors() -> None:
    def fail(device: str) -> None:
        raise InputError(f"who: {device}")

    devices = ("cpu", "cuda-sim")
    check_parity(lambda device: {"a": np.arange(3), "b": [1, None, "x"]}, devices)
    for body in (
        lambda device: np.arange(3) + (device == "cpu"),
        lambda device: np.arange(3, dtype="i4" if device == "cpu" else "i8"),
        lambda device: [1, 2] if device == "cpu" else [1, 2, 3],
        lambda device: 1 if device == "cpu" else 1.0,
        lambda device: fail("") if device == "cpu" else None,
        fail,
    ):
        with pytest.raises(AssertionError):
            check_parity(body, devices)
