"""How fast the link between host and device is, measured on the pages that are read over it.

The rates are kept on disk, as ``CACHE/links/DIGEST.json``; the digest is that of the GPU, its place in the machine, the
driver, and the size of the memory.
"""

from __future__ import annotations

import json
import logging
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.caches import find_cached, write_cached
from dynstore.stores.paged.memory import copy_to_device

if TYPE_CHECKING:
    from pathlib import Path

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Links", "find_links", "measure_links"]

_log = logging.getLogger("dynstore")
# Of the files. Raise it when rates are measured in another way: those of before are then not read.
VERSION = 1

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
# What is known in this process, by device and by the number of bits of the memory's size.
_known: dict[tuple[int, int], Links] = {}


def find_links(backend: Backend, words: Array, on_host: np.ndarray) -> Links:
    """Return the rates of the link, for memory as large as this; they are measured once, and kept on disk.

    They are measured for each power of two of the size, in a few ms. Without a GPU, and for less than 32 MiB, the rates
    of a usual link are returned.

    Parameters
    ----------
    backend, words, on_host
        As for :func:`measure_links`.

    Returns
    -------
    Links
    """
    if not _has_link(backend, words):
        return USUAL_LINKS
    bits = int(words.nbytes).bit_length()
    key = backend.xp.cuda.runtime.getDevice(), bits
    if key not in _known:
        described = _describe(backend, bits)
        place = find_cached("links", json.dumps(described), ending=".json")
        links = _read_links(place, described)
        if links is None:
            links = measure_links(backend, words, on_host)
            if place is not None:
                write_cached(place, json.dumps({**described, **links._asdict()}, indent=1).encode())
        _known[key] = links
    return _known[key]


def _has_link(backend: Backend, words: Array) -> bool:
    return backend.on_gpu and words.nbytes >= LEAST_BYTES


def _describe(backend: Backend, bits: int) -> dict[str, Any]:
    """Return what rates hold for. A host's name is not part of it: it changes with each container."""
    device, runtime = backend.xp.cuda.Device(), backend.xp.cuda.runtime
    properties = runtime.getDeviceProperties(device.id)
    return {
        "version": VERSION, "gpu": properties["name"].decode(), "uuid": properties["uuid"].hex(),
        "bus": device.pci_bus_id, "driver": runtime.driverGetVersion(), "size_bits": bits,
    }  # fmt: skip


def _read_links(place: Path | None, described: dict[str, Any]) -> Links | None:
    """Return the kept rates; None if there are none, or the file is damaged."""
    if place is None:
        return None
    try:
        kept = json.loads(place.read_bytes())
        links = Links(*(float(kept.pop(name)) for name in Links._fields))
        if kept != described or not all(isfinite(rate) and rate > 0 for rate in links):
            raise ValueError(f"it is of {kept}, and has {links}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        _log.debug("%s is not read: %s", place, error)
        return None
    return links


def measure_links(backend: Backend, words: Array, on_host: np.ndarray) -> Links:
    """Measure the rates of the link now, for memory as large as this.

    Without a GPU, and for less than 32 MiB, the rates of a usual link are returned.

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
    if not _has_link(backend, words):
        return USUAL_LINKS
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
