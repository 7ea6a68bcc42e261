"""The suites of ``dynstore bench --suite``, by name; each is imported on request."""

from __future__ import annotations

import importlib

from dynstore.bench.suite_parts import Suite
from dynstore.errors import InputError, unknown_name

__all__ = ["OF_PAPERS", "SUITES", "WHERE_PAPERS_ARE", "get_suite"]

# name -> module with the suite as SUITE
SUITES = {
    "slides": "dynstore.bench.slide_suite",
    "tracked": "dynstore.bench.tracked_suite",
    "updates": "dynstore.bench.update_suite",
    "window": "dynstore.bench.window_suite",
}
# Suites that repeat the experiments of papers: they are in the checkout, and no part of the package.
OF_PAPERS = ("gpma", "graphvine", "gts", "lpma", "papers", "slab-hash")
WHERE_PAPERS_ARE = "the experiments of papers run in a checkout of the repository: python -m benchmarks.papers"


def get_suite(name: str) -> Suite:
    """Return a suite.

    Raises
    ------
    InputError
        For an unknown name, with the list of known ones; for a paper's, with the command that runs it.
    """
    if name in OF_PAPERS:
        raise InputError(f"bench: {WHERE_PAPERS_ARE} --suite {name}")
    if name not in SUITES:
        raise unknown_name("bench", "suite", name, SUITES)
    suite: Suite = importlib.import_module(SUITES[name]).SUITE
    return suite
