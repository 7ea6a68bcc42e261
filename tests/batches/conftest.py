"""The fixtures of the stores' tests of CUDA."""

from __future__ import annotations

import pytest

from tests.stores.conftest import device, launches, sorts

__all__ = ["device", "launches", "quick_sorting", "sorts"]


@pytest.fixture(scope="module", autouse=True)
def quick_sorting() -> None:
    """Sort by the real kernels."""
