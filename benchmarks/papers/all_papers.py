"""All experiments of the papers: ``dynstore bench --suite papers``. What this build lacks is left out and named."""

from __future__ import annotations

from dynstore.benchmarks.papers import gpma, graphvine, gts, lpma, slab_hash
from dynstore.benchmarks.papers.show import papers_suite

__all__ = ["EXPERIMENTS", "SUITE"]

EXPERIMENTS = (
    *gpma.EXPERIMENTS,
    *lpma.EXPERIMENTS,
    *slab_hash.EXPERIMENTS,
    *graphvine.EXPERIMENTS,
    *gts.EXPERIMENTS,
)
SUITE = papers_suite("papers", EXPERIMENTS, skip_missing=True)
