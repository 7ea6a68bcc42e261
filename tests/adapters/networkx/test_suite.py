"""NetworkX's own tests, run with every call dispatched to the backend, and a count of what the backend ran."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import dynstore
from dynstore.adapters import networkx as adapter
from dynstore.adapters.networkx_info import FUNCTIONS
from tests.adapters.networkx.nx_backend import GONE

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = ("networkx.backends", "networkx.backend_info")

# The tests of all functions offered, and those of their neighbours, which call them.
MODULES = [
    "networkx.algorithms.centrality",
    "networkx.algorithms.components",
    "networkx.algorithms.link_analysis",
    "networkx.algorithms.shortest_paths",
    "networkx.algorithms.tests.test_cluster",
    "networkx.algorithms.traversal",
]
MIN_PASSED = 500

# Why the backend may leave a call to NetworkX: reason -> functions.
REFUSED = {
    "between two nodes NetworkX searches from both ends, which may give another path": {"shortest_path"},
    "clustering of directed graphs is not offered": {"average_clustering", "clustering", "transitivity"},
    "dangling differs from personalization": {"pagerank"},
    "method 'bellman-ford' is not offered": {"shortest_path", "shortest_path_length"},
    "multigraphs are not offered for this function": {"pagerank"},
    "neighbors is a function": {"generic_bfs_edges"},
    "sort_neighbors is a function that orders every row anew": {"bfs_edges"},
    "weight is a function; wanted the name of an edge attribute": {
        *(name for name in FUNCTIONS if "dijkstra" in name),
        "shortest_path",
        "shortest_path_length",
    },
    "weighted betweenness is not offered": {"betweenness_centrality"},
    "weighted clustering is not offered": {"average_clustering", "clustering"},
}
NEGATIVE = re.compile("edge attribute '.*' has negative values")
# NetworkX's tests call it with `neighbors` only.
NEVER_CALLED = {"generic_bfs_edges"}


def installed(folder: Path) -> Path:
    """Make the folder say that dynstore is installed, with the entry points of this tree's pyproject.toml."""
    info = folder / f"dynstore-{dynstore.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dynstore\nVersion: {dynstore.__version__}\n")
    lines = []
    for group in GROUPS:
        lines += [
            f"[{group}]",
            *(f"{name} = {value}" for name, value in PROJECT["project"]["entry-points"][group].items()),
        ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def environment(folder: Path, **variables: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "NETWORKX"))}
    paths = [str(folder), str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return inherited | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | variables


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = installed(tmp_path_factory.mktemp("suite"))
    written = folder / "calls.json"
    variables = {
        "NETWORKX_TEST_BACKEND": "dynstore",
        "NETWORKX_FALLBACK_TO_NX": "1",  # for the functions that are not offered
        "DYNSTORE_NETWORKX_CALLS": str(written),
    }
    command = [sys.executable, "-m", "pytest", "-p", "networkx_calls", "-p", "no:cacheprovider", "-q", "--pyargs"]
    done = subprocess.run(
        [*command, *MODULES], cwd=folder, env=environment(folder, **variables), capture_output=True, text=True
    )
    assert written.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(written.read_text(encoding="utf-8")) | {"output": done.stdout, "rc": done.returncode}


def test_networkx_tests_pass(report: dict[str, Any]) -> None:
    assert report["failed"] == [], report["output"][-5000:]
    assert report["rc"] == 0
    assert report["outcomes"].get("passed", 0) >= MIN_PASSED
    assert set(report["outcomes"]) <= {"passed", "skipped"}


def test_the_backend_really_ran(report: dict[str, Any]) -> None:
    assert set(FUNCTIONS) - set(report["calls"]) == NEVER_CALLED | GONE
    assert sum(report["calls"].values()) > 400


def test_it_left_to_networkx_only_what_it_says(report: dict[str, Any]) -> None:
    for name, reason, _ in report["refused"]:
        allowed = REFUSED.get(reason, ()) if name in FUNCTIONS else {name} if reason == adapter.NOT_OFFERED else ()
        assert name in allowed, (name, reason)
    for name, reason, _ in report["raised"]:
        assert NEGATIVE.fullmatch(reason), (name, reason)


def test_networkx_finds_the_backend_and_loads_nothing_for_it(tmp_path: Path) -> None:
    code = (
        "import sys, networkx as nx\n"
        "watched = {'dynstore', 'numba', 'numpy', 'pandas'}\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in watched))\n"
        "print(nx.utils.backends.backends['dynstore'].value, nx.config.backends.dynstore.device)\n"
        "print(nx.utils.backends.backend_info['dynstore']['short_summary'] in nx.pagerank.__doc__)\n"
        "print(nx.pagerank(nx.path_graph(2), backend='dynstore'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=environment(installed(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded, found, documented, result = done.stdout.splitlines()
    assert loaded.split() == ["dynstore", "dynstore.adapters", "dynstore.adapters.networkx_info", "dynstore.lookup"]
    assert found == "dynstore.adapters.networkx:backend auto"
    assert documented == "True"
    assert result == "{0: 0.5, 1: 0.5}"


def test_the_suite_is_of_a_version_that_is_offered() -> None:
    (wanted,) = PROJECT["project"]["optional-dependencies"]["networkx"]
    lowest = tuple(int(part) for part in wanted.removeprefix("networkx>=").split("."))
    assert tuple(int(part) for part in nx.__version__.split(".")[:2]) >= lowest
