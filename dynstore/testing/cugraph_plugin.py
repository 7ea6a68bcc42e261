"""A pytest plugin for :mod:`dynstore.testing.compatibility`: cuGraph's tests, with ``cugraph`` being the drop-in.

``DYNSTORE_COMPATIBILITY`` is "drop-in", or "cugraph" to leave everything as it is; ``DYNSTORE_COMPATIBILITY_OUT`` is
the file that gets the outcomes, a line each. The tests' own names for cuGraph are replaced once they are collected; so
is the function by which cuGraph's example data sets make graphs, else those would be cuGraph's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynstore.adapters import cugraph as drop_in
from dynstore.adapters.libraries import require
from dynstore.errors import MissingDependencyError
from dynstore.testing.compatibility import NOT_RUN

__all__ = [
    "gpubenchmark",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_collectreport",
    "pytest_runtest_logreport",
    "pytest_sessionstart",
]

WHO = "compatibility"
FIRST_WORKER = "gw0"  # as pytest-xdist calls it
_failed: set[str] = set()


@pytest.fixture
def gpubenchmark() -> Callable[..., Any]:
    """Stands for the plugin that measures: here a call is a call."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Replace ``cugraph`` in the modules of all tests."""
    if os.environ.get("DYNSTORE_COMPATIBILITY") != "drop-in":
        return
    real = require(WHO, "cugraph")
    helpers = require(WHO, "cugraph.testing.utils")
    for module in {item.module for item in items} | {helpers}:
        if vars(module).get("cugraph") is real:
            module.cugraph = drop_in
    datasets = require(WHO, "cugraph.datasets.dataset")
    datasets.Dataset.get_graph = _get_graph(datasets.Dataset.get_graph, real.Graph)


def pytest_collection_finish(session: Any) -> None:
    """Write which tests there are; of several processes the first one does."""
    if getattr(session.config, "workerinput", {}).get("workerid", FIRST_WORKER) != FIRST_WORKER:
        return
    for item in session.items:
        _write(item.nodeid, NOT_RUN, "")


def pytest_sessionstart() -> None:
    """Load the results that traversals are compared with: tests of ``sssp`` count on ``bfs`` to have done it."""
    try:
        results = require(WHO, "cugraph.testing.resultset")
        results.load_resultset("traversal", results.RESULTSET_DOWNLOAD_URL)
    except (MissingDependencyError, AttributeError, OSError):
        pass  # the tests that need them say so


def _get_graph(original: Callable[..., Any], real_graph: Any) -> Callable[..., Any]:
    def get_graph(
        self: Any,
        download: bool = False,
        create_using: Any = real_graph,
        ignore_weights: bool = False,
        store_transposed: bool = False,
    ) -> Any:
        plain = create_using is None or create_using == drop_in.Graph or type(create_using) is real_graph
        if not plain:
            return original(self, download, create_using, ignore_weights, store_transposed)
        directed = type(create_using) is real_graph and create_using.is_directed()
        graph = drop_in.Graph(directed=directed)
        names = self.metadata["col_names"]
        graph.from_cudf_edgelist(
            self.get_edgelist(download=download),
            source=names[0],
            destination=names[1],
            edge_attr=names[2] if len(names) > 2 and not ignore_weights else None,
            store_transposed=store_transposed,
        )
        return graph

    return get_graph


def pytest_runtest_logreport(report: Any) -> None:
    """Write how a test ended, and the last line of why; of a test that failed, the first failure."""
    if (report.when != "call" and report.outcome == "passed") or report.nodeid in _failed:
        return
    if report.failed:
        _failed.add(report.nodeid)
    _write(report.nodeid, report.outcome, _reason(report))


def pytest_collectreport(report: Any) -> None:
    """Write that a module could not be collected."""
    if report.failed:
        _write(report.nodeid, "failed", f"not collected: {_reason(report)}")


def _write(name: str, outcome: str, reason: str) -> None:
    """Append a line, so that a process that is stopped leaves what it has done."""
    out = os.environ.get("DYNSTORE_COMPATIBILITY_OUT")
    if out:
        with Path(out).open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, outcome, reason]) + "\n")


def _reason(report: Any) -> str:
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(getattr(crash, "message", "") or report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if crash is not None else lines[-1])[:300] if lines else ""
