"""What the link between host and device carries, measured once a process."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.stores.paged.memory import copy_to_device

if TYPE_CHECKING:
    from dynstore.backend import Backend

__all__ = ["Links", "measure_links"]

# Measured: copies of this size, and reads of half of its lines in scattered places, more than caches hold.
COPY_BYTES, COPIES = 1 << 28, 2
REQUESTS = 1 << 20


class Links(NamedTuple):
    """A link's two limits.

    Attributes
    ----------
    bytes_a_second : float
        Of copies of many MiB.
    requests_a_second : float
        Of kernels that read single lines of host memory.
    """

    bytes_a_second: float
    requests_a_second: float


# Of PCIe 5.0 with 16 lanes; where there is no link, these let the same choices be made.
USUAL_LINKS = Links(55e9, 40e6)


def measure_links(backend: Backend) -> Links:
    """Return the link's limits; takes some 100 ms at the first call."""
    return _measure(backend) if backend.on_gpu else USUAL_LINKS


@lru_cache(maxsize=1)
def _measure(backend: Backend) -> Links:
    words, on_host = backend.pinned(COPY_BYTES // 4, np.uint32)
    on_host[:] = 0
    target, total = backend.empty(COPY_BYTES // 4, np.uint32), backend.zeros(1, np.uint32)
    kernels = backend.kernels("dynstore.stores.paged")

    def copy() -> None:
        for _ in range(COPIES):
            copy_to_device(backend, on_host, target)

    seconds = []
    for work in (copy, lambda: kernels.read_lines(words, REQUESTS, total)):
        work()  # the first time is slower
        timer = backend.start_timer()
        work()
        seconds.append(timer.stop().seconds())
    return Links(COPIES * COPY_BYTES / seconds[0], REQUESTS / seconds[1])
