"""The measurement of several ranks runs on small sizes, and compares its answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.ranks import __main__ as command
from benchmarks.ranks import algorithms, updates
from benchmarks.ranks.__main__ import main
from benchmarks.ranks.bench import distinct_keys, edge_sums, key_sums
from benchmarks.ranks.engines import run_by_nccl, run_ranks
from benchmarks.rmat_pieces import make_rows
from dynstore import distributed
from dynstore.backend import get_backend
from dynstore.bench.schema import check_document
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError, RankError

SMALL = ["--scale", "7", "--batches", "40", "--slide-scale", "6", "--page-scale", "7", "--steps", "2"]
SMALL += ["--edges", "1000", "2000", "3000"]


def test_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ranks.json"
    assert main([*SMALL, "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    for text in (
        "right: the edges of 2 ranks after all batches",
        "right: pagerank as on one graph",
        "right: sssp as on one graph",
        "right: triangle_count as on one graph",
        "right: weakly_connected_components on 1 and 2 ranks",
        "right: bfs: Strategy-S, 2 ranks as on one device",
        "right: ranks add up to 1",
        "right: edges that left are not, unless they came back",
        "right: ranks add up to 1, after slides",
    ):
        assert text in shown
    document = json.loads(path.read_text())
    check_document(document)
    assert document["agree"]
    stores = {row["store"] for row in document["rows"]}
    assert {"weak: 1 rank", "weak: 2 ranks", "weak: DynamicGraph", "slides: 2 ranks"} <= stores
    assert {row["steps"] for row in document["rows"] if row["store"].startswith("weak")} == {2}


def test_a_part_that_fails_does_not_end_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algorithms.distributed, "bfs", lambda G, start: distributed.sssp(G, start))
    path = tmp_path / "ranks.json"
    assert main(["own", "pages", *SMALL, "--json", str(path)]) == 1
    shown = capsys.readouterr()
    assert re.search(r"FAILED own: RankError: run: rank \d raised UnweightedGraphError", shown.err)
    assert "pages: 6 rows" in shown.out
    assert not json.loads(path.read_text())["agree"]


def test_a_run_that_is_ended_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SIGTERM ends it: rows are in a file while a part runs, and then in the JSON, which says that it failed."""
    path = tmp_path / "ranks.json"

    def ended(engine: str, device: str, ranks: int, *given: Any, limit: float) -> None:
        run_ranks(engine, device, ranks, *given, limit=limit)
        assert len((tmp_path / "ranks.json.rows").read_text().splitlines()) == 6
        sys.exit(143)

    monkeypatch.setattr(command, "run_ranks", ended)
    with pytest.raises(SystemExit):
        main(["weak", *SMALL, "--json", str(path)])
    document = json.loads(path.read_text())
    check_document(document)
    assert len(document["rows"]) == 6
    assert not document["agree"]
    assert [each.name for each in tmp_path.iterdir()] == ["ranks.json"]


def test_graphs_that_do_not_fit_are_left_out() -> None:
    host = get_backend("cpu")
    assert updates._does_not_fit(host, 1_200_000_000) == ""
    assert "int32 offsets go to 2147483647" in updates._does_not_fit(host, 1_800_000_000)


def test_unknown_parts() -> None:
    with pytest.raises(InputError, match="unknown part 'strong'; known: weak, own"):
        main(["strong"])


@pytest.mark.parametrize(
    ("option", "shown"), [("--steps 0", "0"), ("--ranks -1", "-1"), ("--scale 0", "0"), ("--batches 5 0", r"\[5, 0\]")]
)
def test_numbers_below_1(option: str, shown: str) -> None:
    name, *numbers = option.split()
    with pytest.raises(InputError, match=f"ranks: {name} is {shown}; wanted 1 or more"):
        main([name, *numbers])


@pytest.mark.parametrize("scale", ["-1", "0", "31"])
def test_the_largest_graph_has_ids_of_int32(scale: str) -> None:
    with pytest.raises(InputError, match=f"ranks: --largest-scale is {scale}; wanted 1 to 30"):
        main(["largest", "--largest-scale", scale])


def test_rows_are_the_same_on_all_devices(backend) -> None:
    host = get_backend("cpu")
    whole = make_rows(host, 5, 50, 3)
    part = make_rows(backend, 5, 30, 3, 20)
    for column, expected in zip(part, whole, strict=True):
        assert backend.to_host(column).tolist() == expected[20:].tolist()
    assert make_rows(host, 5, 50, 4)[0].tolist() != whole[0].tolist()


@pytest.mark.parametrize("directed", [True, False])
def test_sums_of_edges_are_those_of_their_rows(directed: bool) -> None:
    def program(comm: Communicator) -> tuple[tuple[int, int], tuple[int, int]]:
        rows = [make_rows(get_backend("cpu"), 6, 300, rank) for rank in range(2)]
        G = ShardedGraph(comm, directed=directed)
        G.insert_edges(rows[comm.rank])
        expected = key_sums(distinct_keys(G.backend, rows, not directed))
        found = edge_sums(comm, G)
        src, dst, _ = G.shard.core.numbered_edges(once=False)
        G.delete_edges((np.asarray(src[:1]), np.asarray(dst[:1])))
        assert edge_sums(comm, G) != found
        return found, expected

    for found, expected in distributed.run(program, 2, "cpu"):
        assert found == expected


def test_a_process_that_raises_is_named() -> None:
    with pytest.raises(RankError, match=r"run_by_nccl: rank \d raised .*(CuPy|CUDA|NCCL|NotImplementedError)"):
        run_by_nccl(_fail, 2, limit=60.0)


def test_new_processes_find_the_parts() -> None:
    """They do not import the command's own module, whose name they do not know."""
    command = [sys.executable, "-m", "benchmarks.ranks", "weak", "--engine", "nccl", *SMALL]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    if find_spec("cupy") is None:
        assert (
            "FAILED weak: RankError: run_by_nccl: rank 0 raised MissingDependencyError: new_identifier" in done.stderr
        )
    else:
        assert "AttributeError" not in done.stderr


def _fail(comm: Communicator) -> None:
    raise NotImplementedError
