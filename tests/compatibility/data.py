"""Makes the folder of data that cuGraph's tests read: ``python -m tests.compatibility.data FOLDER --from SOURCE``.

``SOURCE`` is the folder ``datasets`` of cuGraph's repository; its files are copied. Tests of traversals compare with
stored results, which cuGraph's project keeps on a server. They are made here, with NetworkX, in the same form. Then set
``RAPIDS_DATASET_ROOT_DIR`` to ``FOLDER``.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.bench.module_command import run_as_command
from dynstore.errors import InputError

__all__ = ["main", "write_results"]

CALLER = "cugraph_data"
RESULTS = Path("tests", "resultsets")
# Data set -> the vertex where its searches begin.
BFS_STARTS = {"dolphins": 16, "karate": 7, "karate-disjoint": 19, "netscience": 1237}
BFS_DEPTHS = (None, 1, 5, 18)
SSSP_DATA, SSSP_START = ("karate", "dolphins", "polbooks"), 1
# The edges of test_paths; NetworkX reads vertices of such files as strings.
PATHS = ((1, 5, 3), (1, 4, 1), (1, 2, 1), (1, 6, 2), (1, 7, 2), (4, 5, 1), (2, 3, 1), (7, 6, 2), (8, 9, 4))

Result = tuple[dict[str, str], Mapping[str, list[Any]]]


def write_results(folder: Path) -> int:
    """Write the stored results of traversals for the data sets in ``folder``.

    Parameters
    ----------
    folder : Path
        With ``karate.csv`` and the others of cuGraph's example data sets.

    Returns
    -------
    int
        How many results.

    Raises
    ------
    InputError
        If a data set is not there, with the list.
    """
    missing = [name for name in sorted({*BFS_STARTS, *SSSP_DATA}) if not (folder / f"{name}.csv").is_file()]
    if missing:
        raise InputError(f"{CALLER}: no {', '.join(f'{name}.csv' for name in missing)} in {str(folder)!r}; see --from")
    results = [*_searches(folder), *_shortest_paths(folder)]
    (folder / RESULTS).mkdir(parents=True, exist_ok=True)
    widest = max(len(arguments) for arguments, _ in results)
    lines = [" ".join(["#UUID", *(f"arg{i} arg{i}val" for i in range(widest))])]
    for number, (arguments, columns) in enumerate(results):
        words = [word for pair in arguments.items() for word in pair]
        lines.append(" ".join([str(number), *words, *[""] * (2 * widest - len(words))]))
        rows = [columns, *zip(*columns.values(), strict=True)]
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        (folder / RESULTS / f"{number}.csv").write_text(text, encoding="utf-8")
    (folder / RESULTS / "traversal_mappings.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(results)


def _searches(folder: Path) -> Iterator[Result]:
    networkx = require(CALLER, "networkx")
    for name, start in BFS_STARTS.items():
        for directed in (True, False):
            graph = _read(folder / f"{name}.csv", directed)
            for depth in BFS_DEPTHS:
                lengths = networkx.single_source_shortest_path_length(graph, start, cutoff=depth)
                yield (
                    {
                        **_of(name, directed, "single_source_shortest_path_length"),
                        "start_vertex": str(start),
                        "cutoff": str(depth),
                    },
                    _distances(lengths),
                )
    for directed in (True, False):
        graph = _read(folder / "karate.csv", directed)
        yield {**_of("karate", directed, "bfs_edges"), "source": "7"}, _tree(graph, 7, None)


def _shortest_paths(folder: Path) -> Iterator[Result]:
    networkx = require(CALLER, "networkx")
    start = {"source": str(SSSP_START)}
    for name in SSSP_DATA:
        graph = _read(folder / f"{name}.csv", directed=True)
        found = _distances(networkx.single_source_dijkstra_path_length(graph, SSSP_START))
        of_all = {**_of(name, True, "single_source_dijkstra_path_length"), **start}
        yield of_all, found
        # with integer weights; these data sets have no others
        yield {**of_all, "test": "data_type_conversion"}, found
    for directed in (True, False):
        graph = _read(folder / "karate.csv", directed)
        yield {**_of("karate", directed, "sssp_nonnative"), **start}, _tree(graph, SSSP_START, "weight")
    line = networkx.Graph()
    line.add_weighted_edges_from([(0, 1, 10.0), (1, 2, 20.0)])
    yield {"algo": "sssp_nonnative", "test": "network_edge_attr"}, _tree(line, 0, "weight")
    paths = networkx.Graph()
    paths.add_weighted_edges_from(PATHS)
    yield (
        {
            **_of("DISCONNECTED", True, "shortest_path_length"),
            "source": "1",
            "weight": "weight",
        },
        _distances(networkx.single_source_dijkstra_path_length(paths, 1)),
    )


def _of(name: str, directed: bool, algorithm: str) -> dict[str, str]:
    return {"algo": algorithm, "graph_dataset": name, "graph_directed": str(directed)}


def _read(path: Path, directed: bool) -> Any:
    networkx = require(CALLER, "networkx")
    kind = networkx.DiGraph if directed else networkx.Graph
    return networkx.read_weighted_edgelist(path, create_using=kind, nodetype=int)


def _distances(lengths: Mapping[Any, Any]) -> dict[str, list[Any]]:
    return {"vertex": list(lengths), "distance": list(lengths.values())}


def _tree(graph: Any, start: int, weight: str | None) -> dict[str, list[Any]]:
    """Return distances and predecessors, -1 for the start."""
    networkx = require(CALLER, "networkx")
    before, lengths = networkx.dijkstra_predecessor_and_distance(graph, start, weight=weight or (lambda *_: 1))
    return {
        **_distances(lengths),
        "predecessor": [before[vertex][0] if before[vertex] else -1 for vertex in lengths],
    }


def main(arguments: list[str] | None = None) -> int:
    """Copy the data sets, make the results, and print what to do next."""
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility.data", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to fill")
    parser.add_argument("--from", dest="source", type=Path, help="cuGraph's datasets; by default FOLDER has them")
    chosen = parser.parse_args(arguments)
    if chosen.source is not None:
        if not chosen.source.is_dir():
            raise InputError(f"{CALLER}: --from is {str(chosen.source)!r}, which is no folder")
        shutil.copytree(chosen.source, chosen.folder, dirs_exist_ok=True)
    count = write_results(chosen.folder)
    print(f"{count} results in {chosen.folder / RESULTS}; next: export RAPIDS_DATASET_ROOT_DIR={chosen.folder}")
    return 0


if __name__ == "__main__":
    run_as_command(main)
