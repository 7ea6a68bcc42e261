"""All experiments of the papers: ``dynstore bench --suite papers``. What this build lacks is left out and named."""

from __future__ import annotations

from dynstore.benchmarks import papers_gpma, papers_graphvine, papers_lpma, papers_slab_hash
from dynstore.benchmarks.papers_show import papers_suite

__all__ = ["EXPERIMENTS", "SUITE"]

EXPERIMENTS = (
    *papers_gpma.EXPERIMENTS,
    *papers_lpma.EXPERIMENTS,
    *papers_slab_hash.EXPERIMENTS,
    *papers_graphvine.EXPERIMENTS,
)
SUITE = papers_suite("papers", EXPERIMENTS, skip_missing=True)
