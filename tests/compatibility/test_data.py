"""The command that makes the data that cuGraph's tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynstore.errors import InputError
from tests.compatibility.data import RESULTS, main

pytest.importorskip("networkx")

NAMES = ("dolphins", "karate", "karate-disjoint", "netscience", "polbooks")


def test_results_are_written_and_found_by_their_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, folder = tmp_path / "datasets", tmp_path / "data"
    source.mkdir()
    for name in NAMES:  # 1 - 2 - 3, and each vertex where a search begins
        ends = [(1, 2), (2, 3), *((start, 1) for start in (7, 16, 19, 1237))]
        (source / f"{name}.csv").write_text("".join(f"{u} {v} 1.0\n{v} {u} 1.0\n" for u, v in ends))
    assert main([str(folder), "--from", str(source)]) == 0
    assert f"RAPIDS_DATASET_ROOT_DIR={folder}" in capsys.readouterr().out
    assert (folder / "karate.csv").read_text() == (source / "karate.csv").read_text()
    head, *lines = (folder / RESULTS / "traversal_mappings.csv").read_text().splitlines()
    assert {len(line.split(" ")) for line in (head, *lines)} == {11}
    found = {}
    for line in lines:
        number, *words = line.split(" ")
        arguments = {key: value for key, value in zip(words[::2], words[1::2], strict=True) if key}
        found[tuple(sorted(arguments.items()))] = (folder / RESULTS / f"{number}.csv").read_text().split()
    assert len(found) == len(lines) == len(list((folder / RESULTS).glob("[0-9]*.csv")))

    def find(**arguments: str) -> list[str]:
        return found[tuple(sorted(arguments.items()))]

    near = find(
        algo="single_source_shortest_path_length",
        graph_dataset="netscience",
        graph_directed="True",
        start_vertex="1237",
        cutoff="1",
    )
    assert near == ["vertex,distance", "1237,0", "1,1"]
    tree = find(algo="bfs_edges", graph_dataset="karate", graph_directed="False", source="7")
    assert sorted(tree) == sorted(
        ["vertex,distance,predecessor", "7,0,-1", "1,1,7", "2,2,1", "3,3,2", "16,2,1", "19,2,1", "1237,2,1"]
    )
    line = find(algo="sssp_nonnative", test="network_edge_attr")
    assert line == ["vertex,distance,predecessor", "0,0,-1", "1,10.0,0", "2,30.0,1"]
    paths = find(
        algo="shortest_path_length", graph_dataset="DISCONNECTED", graph_directed="True", source="1", weight="weight"
    )
    assert sorted(paths[1:]) == ["1,0", "2,1", "3,2", "4,1", "5,2", "6,2", "7,2"]


def test_missing_data_sets_are_named(tmp_path: Path) -> None:
    (tmp_path / "karate.csv").write_text("")
    with pytest.raises(InputError, match=r"no dolphins.csv, karate-disjoint.csv, netscience.csv, polbooks.csv in"):
        main([str(tmp_path)])
    assert not (tmp_path / "tests").exists()
    with pytest.raises(InputError, match=r"--from is '.*nowhere', which is no folder"):
        main([str(tmp_path), "--from", str(tmp_path / "nowhere")])
