"""Which CUDA kernels are launched, and for which types: the simulator compiles nothing that could be counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["Launches", "launches"]

Launches = set[tuple[str, tuple[Any, ...]]]


@contextmanager
def launches() -> Iterator[Launches]:
    """Collect the names and the argument types of all kernels that the body launches."""
    from dynstore.cuda.compiler import Kernel

    found: Launches = set()
    start = Kernel._start

    def note(self: Any, blocks: int, args: tuple[Any, ...], resident: bool = False) -> None:
        found.add((self.name, tuple(type_of(one) for one in args)))
        start(self, blocks, args, resident)

    Kernel._start = note  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Kernel._start = start  # type: ignore[method-assign]


def type_of(argument: Any) -> Any:
    """Return what decides the type of an argument; as ``describe_arguments`` does for arrays of CuPy."""
    if not isinstance(argument, np.ndarray):
        packed = getattr(argument, "arrays", None)
        return type(argument) if packed is None else tuple(map(type_of, packed))
    if argument.ndim == 1 and (argument.size < 2 or argument.strides == (argument.itemsize,)):
        return argument.dtype.char
    return argument.dtype.char, argument.ndim, argument.flags.c_contiguous
