"""The way of pages from the host to the device, where both are one memory; ``cuda/links.py`` has the one to a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["HostLink", "Link", "make_link"]


class Link(Protocol):
    """Streams, each of which does its copies and kernels in order; streams do not wait for each other."""

    def on(self, stream: int) -> AbstractContextManager[Any]:
        """Start the kernels of the ``with`` block on a stream."""

    def send(self, stream: int, target: Array, source: np.ndarray, is_pinned: bool) -> None:
        """Copy the bytes of a host array to the beginning of a device array; both are contiguous.

        Without ``is_pinned`` the source goes through a pinned buffer of the stream, and the host waits for it.
        """

    def fetch(self, target: np.ndarray, source: Array) -> None:
        """Copy a device array to a host array, and wait until it is there."""

    def pin(self, array: np.ndarray) -> bool:
        """Pin a host array as long as this object lives; return whether that worked."""

    def empty_pinned(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """Allocate a pinned host array."""

    def mark(self, stream: int) -> Any:
        """Return a mark of all that was started on a stream so far."""

    def wait(self, stream: int, mark: Any) -> None:
        """Let a stream wait until another one has done all before a mark."""

    def synchronize(self) -> None:
        """Wait until all streams have done all."""


class HostLink:
    """Copies at once: each stream has done all when the call returns."""

    def on(self, stream: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def send(self, stream: int, target: Array, source: np.ndarray, is_pinned: bool) -> None:
        target.view(np.uint8)[: source.nbytes] = source.reshape(-1).view(np.uint8)

    def fetch(self, target: np.ndarray, source: Array) -> None:
        target[...] = source

    def pin(self, array: np.ndarray) -> bool:
        return True

    def empty_pinned(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype=dtype)

    def mark(self, stream: int) -> Any:
        return None

    def wait(self, stream: int, mark: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


def make_link(backend: Backend, num_streams: int, staging_bytes: int) -> Link:
    """Make the link to a device; ``staging_bytes``: the most that is sent at once from memory that is not pinned."""
    if not backend.on_gpu:
        return HostLink()
    link: Link = backend.kernels("dynstore.gts", "links").CudaLink(num_streams, staging_bytes)
    return link
