"""CRC-32 of large records, by several threads: zlib takes some 10 ms for 15 MB, longer than the update on a GPU."""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynstore.files import Buffer

__all__ = ["crc32_of"]

PIECE = 1 << 20  # bytes for one thread at a time
SHARED = 4 << 20  # fewer bytes are left to one thread
MAX_THREADS = 8
# Polynomials over GF(2) as zlib has them: the highest bit is that of x**0.
POLYNOMIAL = 0xEDB88320
ONE, BYTE = 1 << 31, 1 << 23  # x**0, x**8


def crc32_of(buffers: Sequence[Buffer]) -> int:
    """Return the CRC-32 of buffers as if they were one."""
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    if sum(map(len, views)) < SHARED:
        checksum = 0
        for view in views:
            checksum = zlib.crc32(view, checksum)
        return checksum
    pieces = [view[start : start + PIECE] for view in views for start in range(0, len(view), PIECE)]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS)) as threads:  # a fork has no threads of an older one
        checksums = threads.map(zlib.crc32, pieces)
        combined = 0
        for piece, checksum in zip(pieces, checksums, strict=True):
            combined = _multiply(_shift(len(piece)), combined) ^ checksum
    return combined


@lru_cache(maxsize=64)
def _shift(size: int) -> int:
    """Return the polynomial by which a CRC is multiplied when ``size`` bytes follow."""
    result, power = ONE, BYTE
    while size:
        if size & 1:
            result = _multiply(power, result)
        power = _multiply(power, power)
        size >>= 1
    return result


def _multiply(one: int, other: int) -> int:
    """Return the product of two polynomials modulo that of CRC-32."""
    product, bit = 0, ONE
    while one:
        if one & bit:
            product ^= other
            one ^= bit
        bit >>= 1
        other = (other >> 1) ^ (POLYNOMIAL if other & 1 else 0)
    return product
