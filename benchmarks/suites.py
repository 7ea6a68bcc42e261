"""The suites of ``dynstore bench --suite``, by name; each is imported on request."""

from __future__ import annotations

import importlib

from dynstore.benchmarks.suite_parts import Suite
from dynstore.errors import unknown_name

__all__ = ["SUITES", "get_suite"]

# name -> module with the suite as SUITE
SUITES = {
    "gpma": "dynstore.benchmarks.papers.gpma",
    "graphvine": "dynstore.benchmarks.papers.graphvine",
    "gts": "dynstore.benchmarks.papers.gts",
    "lpma": "dynstore.benchmarks.papers.lpma",
    "papers": "dynstore.benchmarks.papers.all_papers",
    "slab-hash": "dynstore.benchmarks.papers.slab_hash",
    "slides": "dynstore.benchmarks.slide_suite",
    "tracked": "dynstore.benchmarks.tracked_suite",
    "updates": "dynstore.benchmarks.update_suite",
    "window": "dynstore.benchmarks.window_suite",
}


def get_suite(name: str) -> Suite:
    """Return a suite.

    Raises
    ------
    InputError
        For an unknown name, with the list of known ones.
    """
    if name not in SUITES:
        raise unknown_name("bench", "suite", name, SUITES)
    suite: Suite = importlib.import_module(SUITES[name]).SUITE
    return suite
