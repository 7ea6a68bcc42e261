"""The algorithm that ``docs/internals/new-algorithm.md`` adds: five files change, and it works wherever others do."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DEVICES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "new-algorithm.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```py\n# ([\w/.]+)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))
TOPS = ("adapters", "algorithms", "dynstore")
NAME = "degree_centrality"
PROGRAM = '''
"""The new algorithm on both devices, tracked, and in the drop-in."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import dynstore
from dynstore.algorithms.registry import ALGORITHMS
from dynstore.cli import warmup
from tests.adapters.cugraph.stand_ins import rapids
from tests.conftest import take_changes
from tools import pages

EDGES = np.array([0, 0, 1, 2, 3, 5, 5]), np.array([1, 2, 2, 3, 4, 6, 7])


def graph(device, directed):
    G = dynstore.DynamicGraph(directed, device=device)
    G.insert_edges(EDGES)
    G.delete_edges((EDGES[0][:2], EDGES[1][:2]))  # so that there are gaps
    return G


def oracle(G):
    found = nx.degree_centrality(G.to_networkx())
    return [found[vertex] for vertex in range(G.number_of_vertices())]


def test_it_is_this_copy():
    assert dynstore.__file__.startswith({copy!r})


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("device", {devices!r})
def test_the_function_and_the_tracked_answer(device, directed, take_changes):
    G = graph(device, directed)
    assert dynstore.degree_centrality(G)["degree_centrality"].to_numpy().tolist() == pytest.approx(oracle(G))
    monitor = G.track("degree_centrality")
    paths = set()
    for step in range(8):
        G.insert_edges(([step], [8 + step]))
        G.delete_edges(([2], [3]))
        assert monitor.result()["degree_centrality"].to_numpy().tolist() == pytest.approx(oracle(G))
        paths.add(monitor.path)
    assert paths == {"incremental"}


def test_its_name_is_known_everywhere():
    record = ALGORITHMS["degree_centrality"]
    assert record.family == "centrality" and record.parameters == ("normalized",)
    for module in (dynstore, dynstore.algorithms):
        assert "degree_centrality" in module.__all__ and module.degree_centrality is record.function
    used = warmup._Example("cpu", True, False, warmup.ID_KINDS[0])._suitable()
    assert record in used
    assert "| `degree_centrality` | " in pages.PARTS["docs/algorithms.md"]["served"]()
    assert ".. autofunction:: degree_centrality" in pages.PARTS["docs/reference/algorithms.md"]["functions"]()


@pytest.mark.skipif("cuda-sim" not in {devices!r}, reason="on a GPU the drop-in asks cuGraph, not the stand-ins")
def test_the_drop_in(rapids: SimpleNamespace):
    rapids.cugraph.degree_centrality = lambda G, normalized=True: "cuGraph ran"
    G = graph("cuda-sim", False)
    frame = rapids.drop_in.degree_centrality(G)
    assert dynstore.explain(G).path == "own kernel"
    assert frame["degree_centrality"].to_numpy().tolist() == pytest.approx(oracle(G))
    assert rapids.drop_in.degree_centrality(G, normalized=1) == "cuGraph ran"
    monitor = G.track("degree_centrality")
    assert rapids.drop_in.degree_centrality(G)["degree_centrality"].to_numpy().tolist() == pytest.approx(oracle(G))
    assert "tracked" in dynstore.explain(G).reason and not monitor.is_closed
'''


def add(copy: Path) -> None:
    """Change the files of a copy of the tree as the page says."""
    for name, block in BLOCKS.items():
        path = copy / name
        if not path.exists():
            path.write_text(block, encoding="utf-8")
            continue
        text = path.read_text(encoding="utf-8")
        head, _, rest = block.partition("\n\n\n") if block.startswith("__all__") else ("", "", block)
        if head:
            text, count = re.subn(r"^__all__ = \[.*?\]$", head, text, count=1, flags=re.DOTALL | re.MULTILINE)
            assert count == 1
        above = "\n\ndef _degrees("
        if name.startswith("adapters"):
            assert text.count(above) == 1
            text = text.replace(above, f"\n\n{rest}{above}")
        else:
            text = f"{text}\n\n{rest}"
        path.write_text(text, encoding="utf-8")


def changed_files(copy: Path) -> list[str]:
    """Return what differs from the tree, as paths from its root."""
    found = (path.relative_to(copy) for path in sorted(copy.rglob("*")) if path.is_file())
    paths = [path for path in found if "__pycache__" not in path.parts]  # compiled, where the copy has run before
    return [
        str(path)
        for path in paths
        if not (ROOT / path).exists() or not filecmp.cmp(ROOT / path, copy / path, shallow=False)
    ]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("added")
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc", "data")
    for top in TOPS:
        shutil.copytree(ROOT / top, copy / top, symlinks=True, ignore=ignored)
    assert changed_files(copy) == []
    add(copy)
    return copy


def test_five_files_change(copy: Path) -> None:
    changed = changed_files(copy)
    assert changed == sorted(BLOCKS)
    assert len(changed) == 5
    said = re.findall(r"^\| `(\w+/[\w/]+\.py)`", PAGE, flags=re.MULTILINE)
    assert sorted(path.replace("FAMILY", "centrality") for path in said) == changed


def test_it_works_wherever_algorithms_do(copy: Path, tmp_path: Path) -> None:
    file = tmp_path / "test_added.py"
    file.write_text(PROGRAM.replace("{copy!r}", repr(str(copy))).replace("{devices!r}", repr(DEVICES)), "utf-8")
    path = os.pathsep.join([str(copy), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "-c", os.devnull, f"--rootdir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(file)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{2 * len(DEVICES) + 2 + ('cuda-sim' in DEVICES)} passed" in done.stdout
