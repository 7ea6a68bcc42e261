"""Ids of another dtype than the graph's, for kernels on CUDA that look at them on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, kernel
from dynstore.arrays import as_signed

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["convert_ids"]


@kernel
def k_convert_ids(first, second, highest, converted_first, converted_second):
    """One thread owns a row of two columns of one length: its ids in another dtype, -1 for what is none up to there."""
    i = cuda.grid(1)
    if i < first.shape[0]:
        one, other = np.int64(first[i]), np.int64(second[i])
        converted_first[i] = one if 0 <= one <= highest else np.int64(-1)
        converted_second[i] = other if 0 <= other <= highest else np.int64(-1)


def convert_ids(backend: Backend, first: Array, second: Array, dtype: np.dtype) -> list[Array]:
    """Return two columns of ids in a vertex dtype as soon as a kernel is started: -1 for what is none."""
    columns = [backend.xp.ascontiguousarray(as_signed(backend, column)) for column in (first, second)]
    count, highest = int(first.shape[0]), int(np.iinfo(dtype).max) - 1
    converted = backend.empty_together((count, dtype), (count, dtype))
    k_convert_ids.launch(count, *columns, highest, *converted)
    return converted
