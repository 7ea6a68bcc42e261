"""The devices that conversions are tested on: CUDA for real, not in the simulator."""

from __future__ import annotations

import os

import pytest

DEVICES = ["cpu", "cuda"] if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "").split(",") else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """A device name for DynamicGraph."""
    return request.param
