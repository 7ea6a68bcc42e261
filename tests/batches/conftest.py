"""The fixtures of the stores' tests of CUDA."""

from __future__ import annotations

from tests.stores.conftest import device, launches, sorts

__all__ = ["device", "launches", "sorts"]
