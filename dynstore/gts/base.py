"""What engines share: their arguments, and the frames of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import check_count, check_name
from dynstore.backend import get_backend
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.gts.streaming import ATTRIBUTES, TECHNIQUES, Settings
from dynstore.gts.topology import PagedTopology
from dynstore.input.frames import check_frames, make_frame
from dynstore.input.kinds import on_device

if TYPE_CHECKING:
    from dynstore.typing import Array, Device, Frame, Frames

__all__ = ["Engine", "read_settings"]

CACHES = ("fixed", "lru")


class Engine:
    """A topology, a device, and the library of frames.

    Attributes
    ----------
    topology : PagedTopology
    backend : Backend
    """

    def __init__(self, topology: PagedTopology, device: Device, frames: Frames) -> None:
        if not isinstance(topology, PagedTopology):
            raise InputTypeError(f"{type(self).__name__}: topology is a {type_name(topology)}; wanted a PagedTopology")
        self._frames = check_frames(type(self).__name__, frames)
        self.topology, self.backend = topology, get_backend(device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topology!r}, device={self.backend.name!r})"

    def _read_vertices(self, caller: str, what: str, vertices: Any) -> np.ndarray:
        """Return vertices, ascending; one that is given twice is there twice. Refuse what is none."""
        if on_device(vertices):
            vertices = self.backend.to_host(self.backend.asarray(vertices))
        found = np.sort(np.asarray(vertices), axis=None)
        if found.dtype.kind not in "iu":
            raise InputTypeError(f"{caller}: {what} is {vertices!r}; wanted a vertex, or a list or array of vertices")
        if not found.shape[0]:
            raise InputError(f"{caller}: no vertex is given as {what}; wanted at least one")
        for vertex in (found[0], found[-1]):
            if not 0 <= vertex < self.topology.num_vertices:
                raise InputError(
                    f"{caller}: {what} has {vertex}; the topology has {self.topology.num_vertices} vertices, ids from 0"
                )
        return found.astype(np.int64)

    def _vertices(self) -> Array:
        return self.backend.xp.arange(self.topology.num_vertices, dtype=self.topology.degrees.dtype)

    def _frame(self, **columns: Array) -> Frame:
        return make_frame(self.backend, {"vertex": self._vertices(), **columns}, self._frames)

    def _search_frame(self, levels: Array, parents: Array | None) -> Frame:
        """Return what ``bfs`` returns."""
        if parents is None:
            parents = self.backend.xp.full(levels.shape[0], -1, dtype=levels.dtype)
        return self._frame(distance=levels, predecessor=parents)


def read_settings(
    caller: str,
    streams: int,
    cache_pages: int,
    cache: str,
    copy_bytes: int,
    host_bytes: int | None,
    technique: str,
    attributes: str,
) -> Settings:
    """Return the settings of a streamer; refuse unusable ones."""
    needed = {"streams": streams, "cache_pages": cache_pages, "copy_bytes": copy_bytes}
    for name, value in needed.items():
        if value is None:
            raise InputTypeError(f"{caller}: {name} is None; wanted an integer")
        check_count(caller, name, value, 1 if name == "streams" else 0)
    check_count(caller, "host_bytes", host_bytes)
    named = {"cache": (cache, CACHES), "technique": (technique, TECHNIQUES), "attributes": (attributes, ATTRIBUTES)}
    for name, (given, known) in named.items():
        check_name(caller, name, given, known)
    return Settings(streams, cache_pages, cache, copy_bytes, host_bytes, technique, attributes)
