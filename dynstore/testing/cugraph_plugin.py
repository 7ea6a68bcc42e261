"""A pytest plugin for :mod:`dynstore.testing.compatibility`: cuGraph's tests, with ``cugraph`` being the drop-in.

``DYNSTORE_COMPATIBILITY`` is "drop-in", or "cugraph" to leave everything as it is; ``DYNSTORE_COMPATIBILITY_OUT`` is
the file that gets the outcomes, a line each. Tests run in processes of pytest-xdist; the process that shares them out
writes what they report, for it outlives a crash. The tests' own names for cuGraph are replaced once they are collected;
so is the function by which cuGraph's example data sets make graphs, else those would be cuGraph's own.
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
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_sessionstart",
]

CALLER = "compatibility"


class _Writer:
    """Writes a line at once for all that happens; the last line of a test counts."""

    def __init__(self, out: Path) -> None:
        self._file = out.open("a", encoding="utf-8")
        self._listed = False
        self._failed: set[str] = set()

    def _write(self, name: str, outcome: str, reason: str) -> None:
        self._file.write(json.dumps([name, outcome, reason]) + "\n")
        self._file.flush()

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def pytest_collectreport(self, report: Any) -> None:
        """Write that a module could not be collected."""
        if report.failed:
            self._write(report.nodeid, "failed", f"not collected: {_reason(report)}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Write which tests there are, when the first process has found them."""
        if not self._listed:
            self._listed = True
            for name in ids:
                self._write(name, NOT_RUN, "")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write that a test has begun, so that one that hangs is known."""
        self._write(nodeid, NOT_RUN, "while it ran")

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: Any) -> None:
        """Say of a test that ended its process the same in whichever process it ran."""
        report.longrepr = "its process crashed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write how a test ended, and the last line of why; of a test that failed, the first failure."""
        if (report.when != "call" and report.outcome == "passed") or report.nodeid in self._failed:
            return
        if report.failed:
            self._failed.add(report.nodeid)
        self._write(report.nodeid, report.outcome, _reason(report))


def pytest_configure(config: Any) -> None:
    """Write outcomes, unless another process shares the tests out."""
    out = os.environ.get("DYNSTORE_COMPATIBILITY_OUT")
    if out and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(Path(out)))


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
    real = require(CALLER, "cugraph")
    helpers = require(CALLER, "cugraph.testing.utils")
    for module in {item.module for item in items} | {helpers}:
        if vars(module).get("cugraph") is real:
            module.cugraph = drop_in
    datasets = require(CALLER, "cugraph.datasets.dataset")
    datasets.Dataset.get_graph = _get_graph(datasets.Dataset.get_graph, real.Graph)


def pytest_sessionstart() -> None:
    """Load the results that traversals are compared with: tests of ``sssp`` count on ``bfs`` to have done it."""
    try:
        results = require(CALLER, "cugraph.testing.resultset")
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


def _reason(report: Any) -> str:
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(getattr(crash, "message", "") or report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if crash is not None else lines[-1])[:300] if lines else ""
