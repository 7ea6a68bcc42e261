"""All experiments of the papers: ``python -m benchmarks.papers``. What this build lacks is left out and named."""

from __future__ import annotations

from benchmarks.papers import gpma, graphvine, gts, lpma, slab_hash
from benchmarks.papers.figures.show import PapersSuite

__all__ = ["EXPERIMENTS", "SUITE"]

EXPERIMENTS = (
    *gpma.EXPERIMENTS,
    *lpma.EXPERIMENTS,
    *slab_hash.EXPERIMENTS,
    *graphvine.EXPERIMENTS,
    *gts.EXPERIMENTS,
)
SUITE = PapersSuite("papers", EXPERIMENTS, skip_missing=True)
