"""``dynstore warmup`` compiles what the default path needs, keeps it, and finds it again."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynstore.cli import warmup
from dynstore.cli.warmup import WarmupStep, run_steps, warmup_steps
from tests.adapters.cugraph.stand_ins import rapids
from tests.conftest import DEVICES

__all__ = ["rapids"]  # a fixture

ROOT = Path(__file__).resolve().parents[2]
# What a user might do first, not as the warm-up does it.
PROGRAM = """
import pandas as pd
import dynstore
from dynstore.compilations import compilations

frame = pd.DataFrame({"payer": ["ann", "bob", "cat"], "payee": ["bob", "cat", "ann"], "amount": [1.0, 2.0, 3.0]})
G = dynstore.DynamicGraph(directed=False, weighted=True, renumber=True, device="cpu")
G.insert_edges(frame, source="payer", destination="payee", weight="amount")
triangles = G.track("triangle_count")
G.delete_edges(frame[:1], source="payer", destination="payee")
assert triangles.result()["counts"].sum() == 0
dynstore.sssp(G, "ann")

G = dynstore.DynamicGraph(device="cpu")
G.insert_edges(([0, 1, 2, 3], [1, 2, 0, 0]))
ranks = G.track("pagerank")
G.insert_edges(([3], [2]))
G.delete_edges(([0], [1]))
assert abs(ranks.result()["pagerank"].sum() - 1) < 1e-3
dynstore.bfs(G, 1), dynstore.pagerank(G), dynstore.betweenness_centrality(G)
print(compilations.count)
"""


def python(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in the root of the tree, with a cache of its own."""
    environment = {**os.environ, "DYNSTORE_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )


@pytest.mark.thorough
def test_a_second_run_and_a_first_program_compile_nothing(tmp_path: Path) -> None:
    command = ("-m", "dynstore", "warmup", "--device", "cpu")
    first = python(*command, cache=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert len(kept) > 40
    assert first.stderr == ""
    lines = first.stdout.splitlines()
    assert any(line.startswith("updates and queries: directed, unweighted, vertex numbers: ") for line in lines)
    assert int(lines[-1].split()[0]) >= len(kept)

    again = python(*command, cache=tmp_path)
    assert again.stdout.splitlines()[-1].startswith("0 kernels compiled in ")
    program = python("-c", PROGRAM, cache=tmp_path)
    assert (program.stdout, program.stderr) == ("0\n", "")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == kept


@pytest.mark.parametrize(
    "device",
    [pytest.param(name, marks=pytest.mark.thorough if name == "cuda-sim" else ()) for name in DEVICES],
)
def test_a_long_program_compiles_nothing_after_the_warm_up(device: str) -> None:
    """More than 500 updates in streams, windows, growth and merges, with monitors and the drop-in, in a new process.

    The warm-up runs in that process, too, so a kernel that is on disk by chance counts as well. The simulator compiles
    nothing: there the kernels that are launched, and for which types, are compared.
    """
    program = str(Path(__file__).with_name("warm_program.py"))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_ENABLE_CUDASIM": "01"[device == "cuda-sim"]}
    done = subprocess.run(
        [sys.executable, program, device, "--warm-up"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["updates"] >= 500
    assert said["by"] == {}, json.dumps(said["by"], indent=1)
    assert (said["compiled"], said["loaded"]) == (0, 0)


def test_the_kernels_for_cuda_are_used_too() -> None:
    """The first of the steps, in the simulator."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        pytest.skip("the simulator and CUDA exclude each other in one process")
    pytest.importorskip("greenlet", reason="the simulator needs greenlet")
    for step in islice(warmup_steps("cuda-sim"), 3):
        assert step.run() == 0  # the simulator compiles nothing


def test_the_drop_in_is_filled_updated_and_used(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuGraph's functions are stand-ins here; they run on a GPU in ``dynstore warmup``."""
    called: list[tuple[str, bool, int]] = []

    def note(name: str) -> Any:
        return lambda G, *args, **options: called.append((name, G.is_directed(), G.number_of_edges()))

    anywhere = {"bfs", "sssp", "pagerank", "betweenness_centrality"}
    undirected = {"weakly_connected_components", "triangle_count", "louvain"}
    for name in anywhere | undirected:
        monkeypatch.setattr(rapids.cugraph, name, note(name), raising=False)
    monkeypatch.setitem(sys.modules, "cudf", rapids.modules["cudf"])
    steps = list(warmup._drop_in_steps(200))
    assert len({step.name for step in steps}) == len(steps) == 12
    for step in steps:
        step.run()
    assert {name for name, directed, _ in called if directed} == anywhere
    assert {name for name, directed, _ in called if not directed} == anywhere | undirected
    assert min(number for *_, number in called) > 100


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_share_the_steps(jobs: int) -> None:
    steps = [WarmupStep(name, partial(int, name)) for name in "123"]  # a step returns how many kernels it has compiled
    assert sorted((done.name, done.compiled) for done in run_steps(steps, jobs)) == [("1", 1), ("2", 2), ("3", 3)]
    with pytest.raises(ValueError, match="invalid literal"):
        list(run_steps([*steps, WarmupStep("bad", partial(int, "bad"))], jobs))


def test_every_step_can_go_to_another_process() -> None:
    steps = [*warmup_steps("cpu"), *warmup._drop_in_steps(200)]
    assert [pickle.loads(pickle.dumps(step)) for step in steps]


def test_the_steps_cover_each_kind_of_graph() -> None:
    names = [step.name for step in warmup_steps("cpu")]
    assert len(set(names)) == len(names) == 4 * (3 + 4) + 1
    for word in (
        "directed",
        "undirected",
        "unweighted",
        "weighted",
        "int64 ids",
        "string ids",
        "tracked answers",
        "windows",
    ):
        assert any(word in name for name in names)
