"""Exported memory, and how a store knows of it.

An exported array owns a :class:`_Pin`; the store's :class:`Pins` hold only a weak reference. The pin lives as long as
any array or view over the memory. Meanwhile the store writes its next update to other memory.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from dynstore.typing import Array

__all__ = ["Pins", "export"]


class Pins(set["ref[_Pin]"]):
    """The living exports of one set of buffers; empty, and so false, when the last one is gone."""

    __slots__ = ()

    def hold(self, pin: _Pin) -> None:
        """Count an export until it is gone."""
        self.add(ref(pin, self.discard))


class _Pin:
    """Keeps one exported array's memory alive; lives as long as the arrays made from it."""

    def __init__(self, array: Array, writable: bool) -> None:
        self._array = array
        if isinstance(array, np.ndarray):
            self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, not writable)}


def export(array: Array, pins: Pins, writable: bool = False) -> Any:
    """Return a view of ``array`` that keeps a pin alive; of NumPy's arrays a read-only one unless ``writable``."""
    if array.nbytes == 0:  # there is no memory that an update could change
        return array
    pin = _Pin(array, writable)
    pins.hold(pin)
    if isinstance(array, np.ndarray):
        return np.asarray(pin)
    import cupy

    memory = cupy.cuda.UnownedMemory(array.data.ptr, array.nbytes, pin)
    return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))
