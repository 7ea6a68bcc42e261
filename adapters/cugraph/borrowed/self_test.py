"""The test of a built library: the layout of cuGraph's struct, then searches and degrees of small graphs.

It runs in a separate process, as it may crash: ``python -m dynstore.adapters.cugraph.borrowed.self_test LIBRARY``.
"""

from __future__ import annotations

import importlib.util
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dynstore.adapters.libraries import require

__all__ = ["COULD_NOT_RUN", "main", "open_library", "problem_of"]

COULD_NOT_RUN = 3
CALLER = "self-test"


def open_library(path: Path) -> Any:
    """Import the built library, which has the classes ``BorrowedGraph`` and ``BorrowedMGGraph``."""
    require(CALLER, "pylibcugraph")  # loads the libraries that ours needs
    _load_cuda_runtime()
    spec = importlib.util.spec_from_file_location("borrowed_graph", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_cuda_runtime() -> None:
    """Load libcudart if NVIDIA's finder finds it; otherwise it must be in the loader's search path."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.pathfinder") is None:
        return
    finder = importlib.import_module("cuda.pathfinder")
    try:
        finder.load_nvidia_dynamic_lib("cudart")
    except Exception:  # not found, or another version of the finder: opening the library will show
        return


def problem_of(borrowed_graph: Any) -> str | None:
    """Run a tiny graph through ``BorrowedGraph``; return what is wrong, or None.

    0 -> 1 (weight 0.5), 1 -> 2 (weight 1.5), as out-edges and as in-edges, both id types, both weight types. Each time
    the numbers of vertices and edges are checked, then the hops (or, with weights, the distances) from 0. cuGraph
    transposes one of the last graphs; the others have rows in segments.
    """
    cupy = require(CALLER, "cupy")
    plc = require(CALLER, "pylibcugraph")
    handle = plc.ResourceHandle()
    problem = _problem_of_layout(borrowed_graph, cupy, plc, handle)
    if problem is not None:
        return problem
    for ids, weight_type in (("int32", None), ("int64", None), ("int32", "float32"), ("int64", "float64")):
        number_map = cupy.arange(3, dtype=ids)
        offsets, indices = cupy.asarray([0, 1, 2, 2], dtype=ids), cupy.asarray([1, 2], dtype=ids)
        weights = None if weight_type is None else cupy.asarray([0.5, 1.5], dtype=weight_type)
        cupy.cuda.get_current_stream().synchronize()
        graph = borrowed_graph(offsets, indices, weights, number_map, symmetric=False, transposed=False)
        sizes = graph.number_of_vertices(), graph.number_of_edges(handle)
        if sizes != (3, 2):
            return f"{ids}: {sizes[0]} vertices and {sizes[1]} edges; wanted 3 and 2"
        if weights is None:
            found, _, vertices = plc.bfs(handle, graph, cupy.asarray([0], dtype=ids), False, -1, True, False)
            wanted = [0.0, 1.0, 2.0]
        else:
            vertices, found, _ = plc.sssp(handle, graph, 0, float("inf"), True, False)
            wanted = [0.0, 0.5, 2.0]
        got = [value for _, value in sorted(zip(vertices.tolist(), found.tolist(), strict=True))]
        if got != wanted:
            return f"{ids}, {weight_type or 'no weights'}: distances {got}; wanted {wanted}"
    return _problem_of_transposed(borrowed_graph, cupy, plc, handle) or _problem_of_segments(
        borrowed_graph, cupy, plc, handle
    )


def _problem_of_layout(borrowed_graph: Any, cupy: Any, plc: Any, handle: Any) -> str | None:
    """Compare the struct of graphs of one edge that cuGraph has made with the one that the library writes."""
    for ids, weight_type in product(("<i4", "<i8"), ("<f4", "<f8")):
        for is_weighted, transposed in product((False, True), repeat=2):
            ends = cupy.asarray([0], dtype=ids), cupy.asarray([1], dtype=ids)
            weights = cupy.asarray([0.5], dtype=weight_type) if is_weighted else None
            cupy.cuda.get_current_stream().synchronize()
            made = plc.SGGraph(
                handle,
                plc.GraphProperties(is_symmetric=False, is_multigraph=False),
                *ends,
                weight_array=weights,
                store_transposed=transposed,
                renumber=True,
                do_expensive_check=False,
            )
            problem = borrowed_graph.problem_of_layout(made, ids, weight_type, is_weighted, transposed)
            if problem is not None:
                return f"cuGraph's graphs have changed: {problem}"
    return None


def _problem_of_transposed(borrowed_graph: Any, cupy: Any, plc: Any, handle: Any) -> str | None:
    """Check the in-degrees of 0 -> 2, 1 -> 2 lent as in-edges, with rows in segments by degree."""
    offsets, indices = cupy.asarray([0, 2, 2, 2], dtype="int32"), cupy.asarray([1, 2], dtype="int32")
    number_map = cupy.asarray([2, 0, 1], dtype="int32")  # row 0 is vertex 2
    cupy.cuda.get_current_stream().synchronize()
    graph = borrowed_graph(
        offsets, indices, None, number_map, symmetric=False, transposed=True, end_of_wide=0, end_of_medium=0
    )
    vertices, degrees = plc.in_degrees(handle, graph, None, False)
    got = dict(zip(vertices.tolist(), degrees.tolist(), strict=True))
    if got != {0: 0, 1: 0, 2: 2}:
        return f"in-degrees {got}; wanted 2 for vertex 2, 0 else"
    # A search wants out-edges: cuGraph transposes the graph, and frees what it has not allocated.
    graph = borrowed_graph(offsets, indices, None, number_map, symmetric=False, transposed=True)
    found, _, vertices = plc.bfs(handle, graph, cupy.asarray([0], dtype="int32"), False, -1, True, False)
    hops = dict(zip(vertices.tolist(), found.tolist(), strict=True))
    return None if (hops[0], hops[2]) == (0, 1) else f"hops {hops} after a transposition; wanted 0 for 0, 1 for 2"


def _problem_of_segments(borrowed_graph: Any, cupy: Any, plc: Any, handle: Any) -> str | None:
    """Check hops and degrees of a graph with a row for a block, rows for a warp, and short rows, in these segments.

    0 -> 1 .. 1500; 1, 2 and 3 -> the 40 vertices from 1501 on; 1501 -> 1541.
    """
    degrees = np.zeros(1542, np.int32)
    degrees[0], degrees[1:4], degrees[1501] = 1500, 40, 1
    offsets = np.concatenate((np.zeros(1, np.int32), np.cumsum(degrees, dtype=np.int32)))
    middle = np.arange(1501, 1541, dtype=np.int32)
    indices = np.concatenate((np.arange(1, 1501, dtype=np.int32), middle, middle, middle, np.array([1541], np.int32)))
    wanted = np.repeat(np.array([0, 1, 2, 3]), (1, 1500, 40, 1))
    for wide, medium in ((-1, -1), (1, 4), (4, 60)):
        columns = [cupy.asarray(column) for column in (offsets, indices, np.arange(1542, dtype=np.int32))]
        cupy.cuda.get_current_stream().synchronize()
        places = {"symmetric": False, "transposed": False, "end_of_wide": wide, "end_of_medium": medium}
        graph = borrowed_graph(*columns[:2], None, columns[2], **places)
        found, _, vertices = plc.bfs(handle, graph, cupy.asarray([0], dtype="int32"), False, -1, True, False)
        hops = [hop for _, hop in sorted(zip(vertices.tolist(), found.tolist(), strict=True))]
        if hops != wanted.tolist():
            return f"segments ({wide}, {medium}): {sum(a != b for a, b in zip(hops, wanted, strict=True))} wrong hops"
        graph = borrowed_graph(*columns[:2], None, columns[2], **places)
        vertices, found = plc.out_degrees(handle, graph, None, False)
        if [degree for _, degree in sorted(zip(vertices.tolist(), found.tolist(), strict=True))] != degrees.tolist():
            return f"segments ({wide}, {medium}): wrong degrees"
    return None


def _can_run() -> bool:
    """Whether cuGraph itself works here; if not, a failure does not concern the library."""
    try:
        cupy, plc = require(CALLER, "cupy"), require(CALLER, "pylibcugraph")
        ends = cupy.asarray([0, 1], dtype="int32"), cupy.asarray([1, 2], dtype="int32")
        handle, properties = plc.ResourceHandle(), plc.GraphProperties(is_symmetric=False, is_multigraph=False)
        graph = plc.SGGraph(handle, properties, *ends)
        plc.bfs(handle, graph, ends[0][:1], False, -1, True, False)
    except Exception as error:  # no memory left, no device for a second process, ...
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return False
    return True


def main(arguments: list[str]) -> int:
    """Return 0 if the library works, 1 if it does not, :data:`COULD_NOT_RUN` if cuGraph does not work."""
    if not _can_run():
        return COULD_NOT_RUN
    problem = problem_of(open_library(Path(arguments[0])).BorrowedGraph)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
