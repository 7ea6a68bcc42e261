"""GPMA+ as in its paper: level by level, each window written by a warp, a block or the whole device.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 5.2,
algorithm 4. The windows are those of ``store="gpma+"``, which chooses them all at once and writes each once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynstore.stores.pma.store import PackedArrayStore, WindowOptions

__all__ = ["GPMALevelOptions", "GPMALevelStore"]


@dataclass(frozen=True)
class GPMALevelOptions(WindowOptions):
    """Densities; ``merge_cost=0`` never merges everything to save time, as in the paper."""

    caller = "store 'gpma_level'"


class GPMALevelStore(PackedArrayStore):
    """Edges in a gapped sorted array; a batch climbs level by level to the segments that can take it."""

    name = "gpma_level"
    package = "dynstore.stores.papers.gpma_level"
    Options = GPMALevelOptions
