"""What type checkers say of the public names: results are typed, and wrong calls are found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAME = "dynstore.typing.Frame"
GRAPH = "dynstore.graph.dynamic.DynamicGraph"
ARRAYS = "tuple[Any, Any]"

# An expression, and its type.
TYPES = {
    'dynstore.bfs(G, 0)["distance"]': "Any",
    "dynstore.bfs(G, 0)": FRAME,
    "dynstore.sssp(G, 0)": FRAME,
    "dynstore.pagerank(G)": FRAME,
    "dynstore.pagerank(G, warm_start=True)": FRAME,
    "dynstore.pagerank(G, fail_on_nonconvergence=False)": f"tuple[{FRAME}, bool]",
    "dynstore.triangle_count(G)": FRAME,
    "dynstore.weakly_connected_components(G)": FRAME,
    "dynstore.betweenness_centrality(G)": FRAME,
    "G.degree()": FRAME,
    "G.degree([0, 1])": FRAME,
    "G.degree(0)": "int",
    "G.in_degree('ann')": "int",
    "G.out_degree()": FRAME,
    "G.edge_table()": FRAME,
    "G.k_hop(0, 2)": FRAME,
    "G.neighbors(0, weights=True)": ARRAYS,
    "G.successors(0, weights=True)": ARRAYS,
    "G.predecessors(0, weights=True)": ARRAYS,
    "len(dynstore.bfs(G, 0))": "int",
    "dynstore.bfs(G, 0).shape": "tuple[int, int]",
    "dynstore.bfs(G, 0).merge(dynstore.bfs(G, 1))": "Any",
    "len(G)": "int",
    "0 in G": "bool",
    "G.pin()": "dynstore.graph.versions.pinned.PinnedGraph",
    "G.window(1, 2)": "dynstore.graph.versions.view.GraphView",
    "dynstore.bfs(G.pin(), 0)": FRAME,
    "dynstore.pagerank(G.window(1, 2))": FRAME,
    "G.pin().degree(0)": "int",
    "G.subgraph([0])": GRAPH,
    "G.copy()": GRAPH,
    "copy.copy(G)": GRAPH,
    "copy.deepcopy(G)": GRAPH,
    "dynstore.load('graph')": GRAPH,
}
WRONG = {
    "dynstore.bfs(G, 0) + 1": "Unsupported operand types",
    "dynstore.bfs(G, 0)()": "not callable",
    "G.save(3)": 'Argument 1 to "save"',
    "G.pin().insert_edges([(0, 1)])": 'has no attribute "insert_edges"',
    "dynstore.DynamicGraph(frames='excel')": 'Argument "frames"',
    "dynstore.load('graph', frames='excel')": 'Argument "frames"',
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of each line, all expressions checked at once."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("types")
    lines = ["import copy", "import dynstore", "G = dynstore.DynamicGraph()"]
    lines += [f"reveal_type({expression})" for expression in TYPES] + list(WRONG)
    (folder / "program.py").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports",
         f"--cache-dir={folder / 'cache'}", "--no-error-summary", "program.py"],
        cwd=folder, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    found = re.findall(r"^program\.py:(\d+): \w+: (.*)$", done.stdout, flags=re.MULTILINE)
    return {int(line): message for line, message in reversed(found)}


@pytest.mark.parametrize("expression", TYPES)
def test_the_type_of_a_result(expression: str, said: dict[int, str]) -> None:
    line = 4 + list(TYPES).index(expression)
    revealed = re.fullmatch(r'Revealed type is "(.*)"', said[line])
    assert revealed is not None, said[line]
    assert revealed[1].replace("builtins.", "").replace("?", "") == TYPES[expression]


@pytest.mark.parametrize("expression", WRONG)
def test_a_mistake_is_found(expression: str, said: dict[int, str]) -> None:
    line = 4 + len(TYPES) + list(WRONG).index(expression)
    assert WRONG[expression] in said[line]
