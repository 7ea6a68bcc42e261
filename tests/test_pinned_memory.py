"""Pinned host memory, with a driver that notes what it is given; on a GPU tests/stores/host_memory use the real one."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.pinned_memory import SHARE, PinnedMemory, touch_pages


class Driver:
    """Stands for ``cupy.cuda`` and its runtime."""

    def __init__(self, fails: bool = False) -> None:
        self.runtime, self.fails = self, fails
        self.registered: dict[int, int] = {}
        self.waits = 0

    def hostRegister(self, address: int, size: int, flags: int) -> None:  # noqa: N802
        if self.fails:
            raise MemoryError("cannot be locked")
        self.registered[address] = size

    def hostUnregister(self, address: int) -> None:  # noqa: N802
        del self.registered[address]

    def pointerGetAttributes(self, address: int) -> Any:  # noqa: N802
        assert address in self.registered
        return SimpleNamespace(devicePointer=address)

    def deviceSynchronize(self) -> None:  # noqa: N802
        self.waits += 1


@pytest.mark.parametrize("size", [1, 4096, 100_000, SHARE + 1])
def test_memory_is_pinned_as_long_as_an_array_uses_it(size: int) -> None:
    driver = Driver()
    memory = PinnedMemory(driver, size)
    assert driver.registered == {memory.pointer: size}
    assert memory.pointer % 4096 == 0
    array = np.asarray(memory)
    del memory
    part = array[: size // 2 + 1].view(np.uint8)
    del array
    part[:] = 7
    gc.collect()
    assert driver.registered
    assert not driver.waits
    del part
    gc.collect()
    assert not driver.registered
    assert driver.waits == 1


def test_memory_that_cannot_be_pinned_is_given_back() -> None:
    driver = Driver(fails=True)
    with pytest.raises(MemoryError, match="locked"):
        PinnedMemory(driver, 1 << 20)
    gc.collect()
    assert not driver.waits


def test_memory_that_there_is_not() -> None:
    with pytest.raises((OSError, MemoryError, OverflowError)):
        PinnedMemory(Driver(), 1 << 60)


@pytest.mark.parametrize("size", [1, 4097, 3 * SHARE + 5])
def test_each_page_is_touched(size: int) -> None:
    memory = np.full(size, 1, np.uint8)
    touch_pages(memory)
    assert not memory[::4096].any()
    assert memory.sum(dtype=np.int64) == size - len(memory[::4096])
