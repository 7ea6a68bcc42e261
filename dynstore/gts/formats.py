"""The slotted page: what is where in it, and its limits.

Kim et al., "GTS: A Fast and Scalable Graph Processing Method based on Streaming Topology to GPUs", SIGMOD 2016,
sections 2 and 6.1, appendix A::

    small page  | record 0 | record 1 | ...     free     ...  | slot 1 | slot 0 |
    large page  | record                        free                   | slot 0 |
    record      | ADJLIST_SZ, 4 bytes | record ids, p + q bytes each | weights, 4 bytes each |
    record id   | ADJ_PID, p bytes | ADJ_OFF, q bytes |
    slot        | VID, p + q bytes | OFF, 4 bytes |

All numbers are little-endian. Weights are ours: the paper does not say where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from dynstore.arguments import check_flag, check_integer
from dynstore.errors import InputError, LimitError

__all__ = ["PageFormat"]

SIZE_BYTES = OFFSET_BYTES = WEIGHT_BYTES = 4
MAX_ID_PART = 4  # bytes of a page id or of a slot number


@dataclass(frozen=True, slots=True)
class PageFormat:
    """The sizes of a page's parts.

    Parameters
    ----------
    page_bytes : int
        The size of a page, a multiple of 4.
    p, q : int
        Bytes of a page id and of a slot number, 1 to 4 each.
    weighted : bool
        Whether each neighbour has a weight, float32.

    Raises
    ------
    InputError, LimitError
        If a page is too small for one neighbour, or larger than its slot numbers serve.
    """

    page_bytes: int = 1 << 20
    p: int = 2
    q: int = 2
    weighted: bool = False

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            if not 1 <= check_integer("PageFormat", name, getattr(self, name)) <= MAX_ID_PART:
                raise InputError(f"PageFormat: {name} is {getattr(self, name)}; wanted 1 to {MAX_ID_PART} bytes")
        check_flag("PageFormat", "weighted", self.weighted)
        check_integer("PageFormat", "page_bytes", self.page_bytes)
        for name in ("page_bytes", "p", "q"):  # narrow integers of NumPy's would overflow, and JSON takes none
            object.__setattr__(self, name, int(getattr(self, name)))
        object.__setattr__(self, "weighted", bool(self.weighted))
        size, least = self.page_bytes, self.least_page_bytes
        if size % 4 or size < least:
            raise InputError(f"PageFormat: page_bytes is {size}; wanted a multiple of 4, at least {least}")
        if size > self.max_page_bytes:
            raise LimitError(
                f"PageFormat: page_bytes is {size}; with p={self.p}, q={self.q} a page has at most "
                f"{self.max_page_bytes} bytes"
            )

    @property
    def id_bytes(self) -> int:
        """Bytes of a record id, and of a VID."""
        return self.p + self.q

    @property
    def entry_bytes(self) -> int:
        """Bytes of a neighbour: its record id and its weight."""
        return self.id_bytes + (WEIGHT_BYTES if self.weighted else 0)

    @property
    def vertex_bytes(self) -> int:
        """Bytes of a vertex without neighbours: its slot and ADJLIST_SZ."""
        return self.id_bytes + OFFSET_BYTES + SIZE_BYTES

    @property
    def least_page_bytes(self) -> int:
        """Bytes of a page with one vertex and one neighbour, as a multiple of 4."""
        return -(-(self.vertex_bytes + self.entry_bytes) // 4) * 4

    @property
    def max_page_bytes(self) -> int:
        """The largest page (Table 2): all slot numbers are in use if each vertex has one neighbour.

        OFF has 4 bytes, so no page is larger than 4 GiB; with q = 4 the paper's table has 80 GB.
        """
        slots: int = 1 << (8 * self.q)
        return min(slots * (self.vertex_bytes + self.entry_bytes), 1 << (8 * OFFSET_BYTES))

    @property
    def max_pages(self) -> int:
        """How many pages their ids can number."""
        count: int = 1 << (8 * self.p)
        return count

    @property
    def max_slots(self) -> int:
        """How many slots of a page its slot numbers can number."""
        count: int = 1 << (8 * self.q)
        return count

    @property
    def large_capacity(self) -> int:
        """How many neighbours a large page holds."""
        return (self.page_bytes - self.vertex_bytes) // self.entry_bytes

    @property
    def unit(self) -> np.dtype[Any]:
        """The largest unsigned integer, at most 4 bytes, of which every part has a whole number: what kernels read."""
        return np.dtype(f"u{gcd(4, self.id_bytes)}")

    @property
    def layout(self) -> np.ndarray:
        """Return what kernels need to know, int64: units of a page, of a record id and of 4 bytes, and bits of p."""
        size = self.unit.itemsize
        return np.array([self.page_bytes // size, self.id_bytes // size, 4 // size, 8 * self.p], dtype=np.int64)
