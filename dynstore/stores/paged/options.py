"""Options of the store of pages."""

from __future__ import annotations

from dataclasses import dataclass

from dynstore.arguments import check_count, check_flag, check_integer
from dynstore.config import check_share
from dynstore.errors import LimitError
from dynstore.stores.base import StoreOptions
from dynstore.stores.paged.layout import MAX_PAGE_BITS, MIN_PAGE_BITS

__all__ = ["CALLER", "PagedOptions"]

CALLER = "store 'paged'"


@dataclass(frozen=True)
class PagedOptions(StoreOptions):
    """When new pages are written, what they hold, and how many of them stay on the GPU.

    Attributes
    ----------
    delta_share : float
        An insertion writes new pages if the delta would have more edges than this share of the edges in pages, and
        more than ``delta_edges``.
    delta_edges : int
        See ``delta_share``. A deletion leaves up to this many slots of deleted edges in pages.
    density : float
        A deletion that would leave more writes new pages if fewer than this share of the slots would hold edges.
    encode : bool
        If True, pages hold the gaps between neighbours, in as many bits as each leaf needs. If False, they hold ids.
    page_bits : int
        A page has ``2**page_bits`` leaves of 32 slots; 5 to 15.
    resident_share : float
        Pages that algorithms copy to the GPU stay there until new pages are written, or memory runs out. They take at
        most this share of the GPU memory that is free when the first page is added. The share applies once to pages
        without weights and once to pages with weights, of out-edges and of in-edges.
    """

    delta_share: float = 1 / 2
    delta_edges: int = 1 << 20
    density: float = 0.97
    encode: bool = True
    page_bits: int = MAX_PAGE_BITS
    resident_share: float = 1 / 4

    def __post_init__(self) -> None:
        check_share(CALLER, "delta_share", self.delta_share, 0.0, 1.0)
        check_share(CALLER, "density", self.density, 0.0, 1.0)
        check_share(CALLER, "resident_share", self.resident_share, 0.0, 1.0)
        check_count(CALLER, "delta_edges", check_integer(CALLER, "delta_edges", self.delta_edges))
        check_flag(CALLER, "encode", self.encode)
        if not MIN_PAGE_BITS <= (check_count(CALLER, "page_bits", self.page_bits) or 0) <= MAX_PAGE_BITS:
            raise LimitError(f"{CALLER}: page_bits is {self.page_bits}; wanted {MIN_PAGE_BITS} to {MAX_PAGE_BITS}")
