"""Programs of many updates, which must compile nothing after ``dynstore warmup``: ``python warm_program.py DEVICE``.

Each is what a user's program may be: not what the warm-up does, but graphs of the kinds that it promises. It prints a
line of JSON: the updates made, and the kernels that were compiled or loaded meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import dynstore
from dynstore import DynamicGraph, Stream, Window
from dynstore.cli.warmup import BATCHES, BUILT, EDGES_PER_VERTEX, MIN_VERTICES
from dynstore.streams import FileSource
from tests.cli.launched import launches

__all__ = ["PROGRAMS", "Program"]

TURNS = 12  # updates of each kind in a program
# The kinds of graphs of the drop-in that are used here. On a GPU the other eight steps take minutes in one process.
DROP_IN_KINDS = ("no weights, int64 ids", "float64 weights, int64 ids")


class Program:
    """Random edges for a device, of the sizes that its graphs are built of."""

    def __init__(self, device: str) -> None:
        self.device: Any = device
        self.rng = np.random.default_rng(17)
        self.built, self.updates = BUILT[device], 0
        # Powers of two between a row and the largest batch of the warm-up.
        self.sizes = [1 << bits for bits in range(BATCHES[device][-1].bit_length())]
        self.num_vertices = max(self.built // EDGES_PER_VERTEX, MIN_VERTICES)

    def edges(self, size: int, weighted: bool = False) -> tuple[Any, ...]:
        ends = self.rng.integers(0, self.num_vertices, (2, size))
        # Host arrays of both dtypes, in turn: what a user passes.
        columns = [end.astype((np.int64, np.int32)[self.updates % 2]) for end in ends]
        return (*columns, self.rng.random(size).astype(np.float32)) if weighted else tuple(columns)

    def any_size(self) -> int:
        return int(self.rng.choice(self.sizes)) + int(self.rng.integers(0, 2))

    def graph(self, **options: Any) -> DynamicGraph:
        return DynamicGraph(device=self.device, **options)


def stream_into_windows(program: Program) -> None:
    """Streams of rows fill windows; answers are kept up to date."""
    for by, directed in product(("count", "time"), (True, False)):
        G = program.graph(directed=directed)
        rows = max(program.sizes[-1] // 2, 8)
        window = Window(G, 4 * rows, by)
        batches = [program.edges(rows) for _ in range(2 * TURNS)]
        clock = np.arange(rows * len(batches)).reshape(len(batches), rows)
        frames: list[Any] = [
            {"source": source, "destination": destination, **({"time": times} if by == "time" else {})}
            for (source, destination), times in zip(batches, clock, strict=True)
        ]
        stream = Stream(G, frames, window, batch_edges=rows)
        for name in ("pagerank", "weakly_connected_components") if not directed else ("pagerank",):
            stream.monitor(name, every=3)
        program.updates += stream.run().batches


def slide_windows(program: Program) -> None:
    """Windows of other kinds slide by batches of any size."""
    for by, keep in product(("count", "time"), ("latest", "count", "sum")):
        G = program.graph(weighted=True)
        window = Window(G, program.built // 4, by, keep)
        newest = 0
        for _ in range(TURNS):
            size = program.any_size()
            rows = program.edges(size, weighted=keep != "count")
            times = np.arange(newest, newest + size)
            window.slide(rows, time=times if by == "time" else None)
            newest += size
            program.updates += 1


def grow_and_shrink(program: Program) -> None:
    """A graph grows from nothing past its room again and again, then loses its edges; hubs are among its vertices."""
    for directed, weighted in product((True, False), (False, True)):
        G = program.graph(directed=directed, weighted=weighted)
        kept = []
        for _ in range(TURNS):
            rows = program.edges(max(program.built // 6, 4), weighted)
            if len(kept) % 3 == 2:
                rows = (np.full_like(rows[0], 3), *rows[1:])  # a hub
            G.insert_edges(rows)
            kept.append(rows[:2])
            program.updates += 1
        for rows in kept:
            G.delete_edges(rows)
            program.updates += 1


def answer_meanwhile(program: Program) -> None:
    """Tracked answers and functions between updates of any size."""
    for directed, weighted in product((True, False), (False, True)):
        G = program.graph(directed=directed, weighted=weighted)
        G.insert_edges(program.edges(program.built, weighted))
        monitors = [G.track("bfs", start=0), G.track("pagerank")]
        if not directed:
            monitors += [G.track("triangle_count"), G.track("weakly_connected_components")]
        if weighted:
            monitors.append(G.track("sssp", source=0))
        for turn in range(TURNS):
            rows = program.edges(program.any_size(), weighted)
            G.insert_edges(rows)
            G.delete_edges(program.edges(program.any_size()))
            G.update(insert=program.edges(program.any_size(), weighted), delete=rows[:2])
            program.updates += 3
            for monitor in monitors:
                monitor.result()
            if turn % 4 == 0:
                dynstore.bfs(G, 1)
                dynstore.pagerank(G, max_iter=500)
                G.degree()
                G.has_edges(rows[:2])


def use_ids(program: Program) -> None:
    """Graphs whose ids are integers or strings of the user's own."""
    for directed, text in product((True, False), (False, True)):
        G = program.graph(directed=directed, renumber=True)
        for turn in range(2 * TURNS):
            ends = program.edges(program.any_size() if not text else min(program.any_size(), 20_000))
            rows = [end.astype(str).astype(object) if text else end.astype(np.int64) * 10**10 for end in ends]
            G.insert_edges(tuple(rows))
            program.updates += 1
            if turn % 3 == 2:
                G.delete_edges(tuple(row[: len(row) // 2 + 1] for row in rows))
                dynstore.bfs(G, rows[0][0])
                dynstore.pagerank(G, max_iter=500)
                program.updates += 1


def read_files(program: Program) -> None:
    """Streams of files that grow."""
    with TemporaryDirectory() as folder:
        for number, (delimiter, end) in enumerate(product((", ", "\t", "  "), ("\n", "\r\n"))):
            path = Path(folder) / f"{number}.csv"
            rows = zip(*(column.tolist() for column in program.edges(program.built)), strict=True)
            path.write_text(end.join(f"{source}{delimiter}{destination}" for source, destination in rows))
            stream = Stream(program.graph(), FileSource(path, follow=False), batch_edges=program.built // TURNS)
            program.updates += stream.run().batches


def use_the_drop_in(program: Program) -> None:
    """Graphs of the drop-in for cuGraph."""
    import cudf

    from dynstore.adapters import cugraph

    def frame(size: int, weights: bool) -> Any:
        ends = 3 * program.rng.integers(0, program.num_vertices, (2, size))
        columns = {"source": ends[0], "destination": ends[1]}
        return cudf.DataFrame({**columns, "weight": program.rng.random(size)} if weights else columns)

    for directed, weights in product((True, False), (False, True)):
        G = cugraph.Graph(directed=directed)
        edges = frame(program.built, weights)
        G.from_cudf_edgelist(edges, edge_attr="weight" if weights else None)
        start = int(edges["source"].iloc[0])
        for _ in range(TURNS):
            rows = frame(program.any_size(), weights)
            G.insert_edges(rows)
            cugraph.bfs(G, start)
            cugraph.pagerank(G, max_iter=500)
            if not directed:
                cugraph.weakly_connected_components(G)
                cugraph.triangle_count(G)
            G.delete_edges(rows)
            program.updates += 2


PROGRAMS: tuple[Callable[[Program], None], ...] = (
    stream_into_windows,
    slide_windows,
    grow_and_shrink,
    answer_meanwhile,
    use_ids,
    read_files,
)


@contextmanager
def compiled_by_cupy() -> Iterator[list[str]]:
    """Collect the sources that CuPy compiles; it keeps kernels of its own on disk."""
    found: list[str] = []
    if "cupy" not in sys.modules:
        yield found
        return
    from cupy.cuda import compiler

    compile_source = compiler.compile_using_nvrtc

    def note(source: str, *args: Any, **options: Any) -> Any:
        found.append(source[:2000])
        return compile_source(source, *args, **options)

    compiler.compile_using_nvrtc = note
    try:
        yield found
    finally:
        compiler.compile_using_nvrtc = compile_source


def main() -> None:
    device, warm_up = sys.argv[1], "--warm-up" in sys.argv
    from dynstore.cli.warmup import warmup_steps
    from dynstore.compilations import compilations

    compilations.announced = True
    in_simulator = device == "cuda-sim"
    with launches() if in_simulator else nullcontext(set()) as warm:
        if warm_up:  # in this process, so that the program may not even load a kernel
            for step in warmup_steps(device):
                if not step.name.startswith("cuGraph's drop-in") or step.name.endswith(DROP_IN_KINDS):
                    step.run()
    program = Program(device)
    by_program: dict[str, Any] = {}
    programs = PROGRAMS + ((use_the_drop_in,) if device == "cuda" else ())
    compilations.kernels.clear()
    before = compilations.count, compilations.loaded
    for one in programs:
        with launches() if in_simulator else nullcontext(set()) as used, compiled_by_cupy() as sources:
            one(program)
        found = [*compilations.kernels, *sources, *sorted(used - warm, key=str)]
        if found:
            by_program[one.__name__] = [str(each) for each in found]
        compilations.kernels.clear()
    counts = compilations.count - before[0], compilations.loaded - before[1]
    print(json.dumps({"updates": program.updates, "compiled": counts[0], "loaded": counts[1], "by": by_program}))


if __name__ == "__main__":
    main()
