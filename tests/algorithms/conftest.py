"""The devices that the public functions are tested on: CUDA for real, not in the simulator."""

from __future__ import annotations

import os

import pytest

from dynstore.algorithms.costs import Choice, Costs, Work

DEVICES = ["cpu", "cuda"] if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "").split(",") else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """A device name for DynamicGraph."""
    return request.param


@pytest.fixture
def take_any_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tracked answer takes its ways in turn."""

    def choose(costs: Costs, work: Work) -> Choice:
        path = work.paths[costs._now % len(work.paths)]
        return Choice(path, "it is its turn", dict.fromkeys(work.paths))

    monkeypatch.setattr(Costs, "choose", choose)
