"""A pytest plugin for :mod:`tests.compatibility.run`: cuGraph's tests, with the drop-in as ``cugraph``.

``DYNSTORE_COMPATIBILITY`` is "drop-in", or "cugraph" to change nothing. ``DYNSTORE_COMPATIBILITY_OUT`` is the file for
the outcomes, a line each. Tests run in processes of pytest-xdist; the controlling process writes their reports, as it
survives a crash. ``DYNSTORE_COMPATIBILITY_TEST_LIMIT`` is in seconds: a test that takes longer fails, and if it does
not stop, its process ends.

After collection the tests' names for cuGraph are replaced. So is the function with which cuGraph's example data sets
make graphs, as these would otherwise be cuGraph's own. In both runs a data set in ``RAPIDS_DATASET_ROOT_DIR`` is copied
where a test would load it from cuGraph's server.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dynstore.adapters import cugraph as drop_in
from dynstore.adapters.libraries import require
from dynstore.errors import MissingDependencyError
from tests.compatibility.page import NOT_RUN, WHILE_IT_RAN

__all__ = [
    "gpubenchmark",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
    "pytest_sessionstart",
]

CALLER = "compatibility"
GRACE_S = 15  # at most, between the end of a test's time and the end of its process


class _Writer:
    """Writes a line for each event at once; the last line of a test counts."""

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
        """Write the list of tests, when the first process has found them."""
        if not self._listed:
            self._listed = True
            for name in ids:
                self._write(name, NOT_RUN, "")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write that a test has begun, so that a hanging test is known."""
        self._write(nodeid, NOT_RUN, WHILE_IT_RAN)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: Any) -> None:
        """Report a test that crashed its process in the same words for all processes."""
        report.longrepr = "its process crashed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write how a test ended, and the last line of the reason; for a failed test, the first failure."""
        if (report.when != "call" and report.outcome == "passed") or report.nodeid in self._failed:
            return
        if report.failed:
            self._failed.add(report.nodeid)
        self._write(report.nodeid, report.outcome, _reason(report))


def pytest_configure(config: Any) -> None:
    """Write outcomes, unless this is a worker process."""
    out = os.environ.get("DYNSTORE_COMPATIBILITY_OUT")
    if out and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(Path(out)))


@pytest.fixture
def gpubenchmark() -> Callable[..., Any]:
    """Replaces the benchmark plugin's fixture: only calls the function."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Let a test fail that takes too long; end its process if it does not return to Python."""
    limit_s = int(os.environ.get("DYNSTORE_COMPATIBILITY_TEST_LIMIT", "0"))
    if not limit_s:
        return (yield)

    def fail(*_: object) -> None:
        pytest.fail(f"took longer than {limit_s} s", pytrace=False)

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(limit_s)
    faulthandler.dump_traceback_later(limit_s + min(limit_s, GRACE_S), exit=True, file=2)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Undo what a test has set for all: the folders of data sets and of stored results."""
    with contextlib.suppress(MissingDependencyError, AttributeError):
        require(CALLER, "cugraph.datasets.dataset").default_download_dir.reset()
        require(CALLER, "cugraph.testing.resultset").default_resultset_download_dir.reset()


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


def pytest_sessionstart(session: Any) -> None:
    """Load the expected results of traversals: tests of ``sssp`` rely on those of ``bfs`` to have done it."""
    if not hasattr(session.config, "workerinput"):
        return  # no test runs in the controlling process, so it does without cuGraph
    with contextlib.suppress(MissingDependencyError, AttributeError):
        downloads = require(CALLER, "cugraph.datasets.download_utils")
        downloads.urlretrieve = _serve(downloads.urlretrieve)
    try:
        results = require(CALLER, "cugraph.testing.resultset")
        results.load_resultset("traversal", results.RESULTSET_DOWNLOAD_URL)
    except (MissingDependencyError, AttributeError, OSError):
        pass  # the tests that need them will fail


def _serve(original: Callable[..., Any]) -> Callable[..., Any]:
    """Copy a data set from the folder that has it, as tests load data sets into folders of their own."""

    def urlretrieve(url: str, filename: str) -> Any:
        root = os.environ.get("RAPIDS_DATASET_ROOT_DIR")
        held = Path(root or ".") / Path(filename).name
        if root is None or not held.is_file():
            return original(url, filename)
        shutil.copyfile(held, filename)
        return filename, None

    return urlretrieve


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
