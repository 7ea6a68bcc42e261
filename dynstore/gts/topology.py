"""A graph in slotted pages, in memory or on disk."""

from __future__ import annotations

import json
import os
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dynstore.arguments import check_flag
from dynstore.errors import SavedGraphError
from dynstore.files import FILES
from dynstore.gts.cpu.reading import k_read_pages
from dynstore.gts.formats import PageFormat

__all__ = ["PagedTopology", "open_topology"]

KIND, VERSION, MANIFEST = "dynstore-pages", 1, "manifest.json"
# Files of a folder: what is in it, and its dtype; None: one of several.
PARTS = {"pages": "|u1", "starts": "<i8", "ranges": "<i8", "degrees": None}


class PagedTopology:
    """A graph that does not change, in slotted pages; :func:`dynstore.gts.build` makes it.

    Attributes
    ----------
    format : PageFormat
    pages : numpy.ndarray, shape (S + L, page_bytes), uint8
        For a topology on disk: mapped from the file.
    starts : numpy.ndarray, shape (S + L + 1,), int64
        The RVT's START_VID: the first vertex of each page. The last entry is V.
    ranges : numpy.ndarray, shape (S + L,), int64
        The RVT's LP_RANGE: -1 for a small page; for a large one, how many further pages its vertex has.
    degrees : numpy.ndarray, shape (V,), int32 or int64
        How many neighbours each vertex has, on all its pages together. Results have vertices in the same dtype.
    directed : bool
        Whether edges have a direction. If not, each edge is stored in both directions.
    least_weight : float
        The smallest weight; 0 without weights.
    """

    def __init__(
        self,
        form: PageFormat,
        pages: np.ndarray,
        starts: np.ndarray,
        ranges: np.ndarray,
        degrees: np.ndarray,
        directed: bool,
        least_weight: float = 0.0,
    ) -> None:
        self.format, self.pages, self.starts, self.ranges = form, pages, starts, ranges
        self.degrees, self.directed, self.least_weight = degrees, directed, least_weight

    def __repr__(self) -> str:
        return (
            f"PagedTopology(num_vertices={self.num_vertices}, num_edges={self.num_edges}, "
            f"small_pages={self.num_small}, large_pages={self.num_large}, page_bytes={self.format.page_bytes})"
        )

    @property
    def num_vertices(self) -> int:
        """V."""
        return int(self.degrees.shape[0])

    @property
    def num_edges(self) -> int:
        """How many neighbours are stored. An edge of an undirected graph counts twice, a loop once."""
        return int(self.degrees.sum(dtype=np.int64))

    @property
    def num_pages(self) -> int:
        """S + L."""
        return int(self.pages.shape[0])

    @property
    def num_large(self) -> int:
        """L: pages that hold a part of one vertex's neighbours."""
        return int((self.ranges >= 0).sum())

    @property
    def num_small(self) -> int:
        """S: pages that hold whole vertices."""
        return self.num_pages - self.num_large

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return int(self.pages.nbytes)

    @cached_property
    def edges_before(self) -> np.ndarray:
        """Neighbours of the vertices before each page's first one, shape (S + L + 1,), int64; the last entry is E."""
        rows = np.zeros(self.num_vertices + 1, dtype=np.int64)
        np.cumsum(self.degrees, out=rows[1:])
        before: np.ndarray = rows[self.starts]
        return before

    @property
    def units(self) -> np.ndarray:
        """The pages as kernels read them, shape (S + L, units of a page)."""
        return self.pages.view(self.format.unit)

    def pages_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return the pages of some vertices.

        Parameters
        ----------
        vertices : numpy.ndarray, int64

        Returns
        -------
        numpy.ndarray, int64
            The ids of all their pages, ascending, each once.
        """
        # Of several pages with one START_VID the first is the vertex's first large page.
        first = np.searchsorted(self.starts, vertices, side="right") - 1
        first = np.where(self.ranges[first] >= 0, np.searchsorted(self.starts, vertices, side="left"), first)
        further = np.maximum(self.ranges[first], 0)
        begins = np.repeat(first, further + 1)
        within = np.arange(begins.shape[0]) - np.repeat(np.cumsum(further + 1) - (further + 1), further + 1)
        return np.unique(begins + within)

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Read the pages back into compressed rows.

        Returns
        -------
        offsets : numpy.ndarray, shape (V + 1,), int64
        indices : numpy.ndarray, shape (E,), int32 or int64
            Neighbours in the order of the pages.
        weights : numpy.ndarray, shape (E,), float32, or None
        """
        offsets = np.zeros(self.num_vertices + 1, dtype=np.int64)
        np.cumsum(self.degrees, out=offsets[1:])
        indices = np.empty(self.num_edges, dtype=self.degrees.dtype)
        weights = np.empty(self.num_edges if self.format.weighted else 0, dtype=np.float32)
        sizes = offsets[:-1].copy()
        k_read_pages(self.units.reshape(-1), self.num_pages, self.starts, self.ranges, self.format.layout, sizes,
                     indices, weights)  # fmt: skip
        return offsets, indices, weights if self.format.weighted else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pages and the RVT to a new folder. :func:`dynstore.gts.open_topology` opens it.

        Parameters
        ----------
        path : str or os.PathLike
            The new folder. The folder that contains it must exist.

        Raises
        ------
        OSError
            If the folder exists already, or cannot be written.
        """
        folder = Path(path)
        FILES.make_folder(folder)
        parts: dict[str, Any] = {}
        for name in PARTS:
            array = np.ascontiguousarray(getattr(self, name))
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            content: Any = array.reshape(-1).view(np.uint8)
            FILES.write_new(folder / name, content)
            parts[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "checksum": zlib.crc32(content)}
        form = self.format
        manifest = {
            "kind": KIND, "format": VERSION, "directed": self.directed, "parts": parts, "page_bytes": form.page_bytes,
            "p": form.p, "q": form.q, "weighted": form.weighted, "least_weight": self.least_weight,
        }  # fmt: skip
        # The manifest comes last: a folder without one is no topology.
        FILES.write_new(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
        FILES.sync_folder(folder)


def open_topology(path: str | os.PathLike[str], verify: bool = False) -> PagedTopology:
    """Open a folder that :meth:`PagedTopology.save` has written. The pages stay on disk; they are mapped.

    Parameters
    ----------
    path : str or os.PathLike
    verify : bool
        Whether to read all pages and compare their checksum. The checksums of the RVT and of the degrees are always
        compared. A damaged page can crash the program that reads it.

    Returns
    -------
    PagedTopology

    Raises
    ------
    SavedGraphError
        If the folder is not a saved topology, or the size or the checksum of a file is wrong.
    """
    folder, skipped = Path(path), () if check_flag("open_topology", "verify", verify) else ("pages",)
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["kind"] != KIND or manifest["format"] != VERSION:
            raise ValueError(f"kind {manifest['kind']!r}, format {manifest['format']!r}")
        form = PageFormat(manifest["page_bytes"], manifest["p"], manifest["q"], manifest["weighted"])
        arrays = {
            name: _map_part(folder / name, manifest["parts"][name], dtype, name not in skipped)
            for name, dtype in PARTS.items()
        }
        pages = arrays.pop("pages")
        if pages.shape != (arrays["ranges"].shape[0], form.page_bytes):
            raise ValueError(f"pages have the shape {pages.shape}")
        directed, least = manifest["directed"], float(manifest["least_weight"])
        if not isinstance(directed, bool):
            raise TypeError(f"directed is {directed!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SavedGraphError(f"open_topology: {folder} is no saved topology: {error}") from error
    return PagedTopology(form, pages, **{name: np.array(part) for name, part in arrays.items()}, directed=directed,
                         least_weight=least)  # fmt: skip


def _map_part(path: Path, part: dict[str, Any], dtype: str | None, compare: bool) -> np.ndarray:
    """Return a file's array, mapped; refuse a dtype, a size or, if it is compared, a checksum that is not as said."""
    if (dtype is not None and part["dtype"] != dtype) or part["dtype"] not in ("|u1", "<i4", "<i8"):
        raise ValueError(f"{path.name} has the dtype {part['dtype']!r}")
    shape = tuple(int(size) for size in part["shape"])
    wanted = int(np.prod(shape)) * np.dtype(part["dtype"]).itemsize
    if path.stat().st_size != wanted:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes; wanted {wanted}")
    if not wanted:
        return np.empty(shape, dtype=part["dtype"])
    found = np.memmap(path, dtype=part["dtype"], mode="r", shape=shape)
    content: Any = found.reshape(-1).view(np.uint8)
    if compare and zlib.crc32(content) != part["checksum"]:
        raise ValueError(f"{path.name} has another checksum than when it was written")
    return found
