"""How fast the link between host and device is, measured on the pages that are read over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.stores.paged.memory import copy_to_device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Links", "measure_links"]

# Less than this is not measured: starting the work would take too much of the time.
LEAST_BYTES = 1 << 25
# What is copied, at most.
COPY_BYTES = 1 << 26
# Reads of single lines, at most. They come in runs that are spread over the memory. In a run they are so many lines
# apart: kernels that read pages in place go through one page after the other and leave lines out.
REQUESTS, RUN, GAP = 1 << 18, 512, 4
LINE_WORDS = 32


class Links(NamedTuple):
    """The two rates of a link.

    Attributes
    ----------
    bytes_a_second : float
        How many bytes a second a large copy moves.
    requests_a_second : float
        How many lines of 128 bytes a second kernels read from pages in host memory, if they leave out some lines.
    """

    bytes_a_second: float
    requests_a_second: float


# Of an H200 on PCIe 5.0 with 16 lanes: for what is not measured. Where there is no link, they let the same choices be
# made.
USUAL_LINKS = Links(55e9, 290e6)
# What was measured, by device and by the number of bits of the memory's size.
_measured: dict[tuple[str, int], Links] = {}


def measure_links(backend: Backend, words: Array, on_host: np.ndarray) -> Links:
    """Return the rates of the link, for memory as large as this.

    A process measures them once for each power of two of the size. This takes a few ms. Without a GPU, and for less
    than 32 MiB, the rates of a usual link are returned.

    Parameters
    ----------
    backend : Backend
    words : array, shape (W,), uint32
        Host memory, as kernels read it: pages, or memory like theirs.
    on_host : numpy array
        The same memory, as the host reads it.

    Returns
    -------
    Links
    """
    if not backend.on_gpu or words.nbytes < LEAST_BYTES:
        return USUAL_LINKS
    key = backend.name, int(words.nbytes).bit_length()
    if key not in _measured:
        _measured[key] = _measure(backend, words, on_host)
    return _measured[key]


def _measure(backend: Backend, words: Array, on_host: np.ndarray) -> Links:
    part = on_host[: COPY_BYTES // 4]
    target, total = backend.empty(part.shape[0], np.uint32), backend.zeros(1, np.uint32)
    read_lines = backend.kernels("dynstore.stores.paged").read_lines
    num_runs = min(REQUESTS, int(words.shape[0]) // (GAP * LINE_WORDS)) // RUN
    copy_to_device(backend, part[: part.shape[0] // 16], target[: part.shape[0] // 16])  # the first time is slower
    read_lines(words[: RUN * GAP * LINE_WORDS], GAP, RUN, 1, total)
    timer = backend.start_timer()
    copy_to_device(backend, part, target)
    copied_s = timer.stop().seconds()
    timer = backend.start_timer()
    read_lines(words, GAP, RUN, num_runs, total)
    return Links(part.nbytes / copied_s, num_runs * RUN / timer.stop().seconds())
