"""A slide that fails, for whatever reason, leaves the graph and the window as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph, Window
from dynstore.errors import InputError, LimitError, OutOfMemoryError
from dynstore.testing.faults import let_fail
from dynstore.testing.invariants import check_graph, named_edges
from tests.conftest import DEVICES
from tests.crossed import crossed, thorough

KINDS = [("count", "latest", False), ("count", "latest", True), ("time", "latest", True), ("count", "count", True)]
KINDS += [("count", "sum", True), ("time", "sum", True)]
EXTRA = {"edge_columns": {"id": "int64"}}
MADE: list[tuple[str, str, bool, dict[str, Any]]] = [(*kind, {}) for kind in KINDS]
MADE += [("time", keep, True, EXTRA) for keep in ("latest", "count", "sum")]
FAILING = [
    (device, what) for device in DEVICES for what in ("empty", "array", "kernel") if (device, what) != ("cpu", "kernel")
]
# In the simulator the two kinds of allocations share the windows; kernels are different ones in each.
CASES = [
    (pytest.param if device == "cpu" or what == "kernel" or number % 2 == (what == "array") else thorough)(
        *made, device, what
    )
    for number, made in enumerate(MADE)
    for device, what in FAILING
]
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def state_of(window: Window) -> Any:
    """Return the graph's edges, the window's rows, and the pairs that have rows, with what the table holds of them."""
    G, pairs, rows = window.graph, window._pairs, window._rows
    assert pairs is not None
    assert rows is not None
    held = [np.asarray(G.core.backend.to_host(array)) for array in (pairs.keys, pairs.counts, pairs.table.held)]
    used = np.flatnonzero(held[1])
    table = {int(held[0][slot]): (int(held[1][slot]), *held[2][slot : slot + 1].tolist()) for slot in used}
    columns = {name: G.core.backend.to_host(rows.column(name)).tolist() for name in rows.columns}
    columns["slots"] = [int(held[0][slot]) for slot in columns["slots"]]
    if pairs.latest is not None:
        latest = G.core.backend.to_host(pairs.latest)
        columns["latest"] = sorted((int(held[0][slot]), int(latest[slot])) for slot in used)
    ids = [G.core.backend.to_host(column).tolist() for name, column in G.edge_columns().items() if name == "id"]
    return named_edges(G), G.version, G.number_of_vertices(), len(window), window._newest, table, columns, ids


class Stream:
    """A window that is filled by half, and the batches that come next."""

    def __init__(self, by: Any, keep: Any, weighted: bool, device: Any, **options: Any) -> None:
        self.G = DynamicGraph(weighted=weighted, device=device, **options)
        self.window = Window(self.G, 12, by, keep)
        self.rng, self.clock = np.random.default_rng(8), 0
        for _ in range(3):
            self.slide(*self.batch())

    def batch(self, size: int = 9) -> Columns:
        src, dst = self.rng.integers(0, 6, (2, size)).astype(np.int32)
        return src, dst, self.rng.random(size).astype(np.float32)

    def on_device(self, src: np.ndarray, dst: np.ndarray, weights: np.ndarray) -> tuple[Any, ...]:
        columns = [src, dst]
        if self.G.is_weighted() and self.window.keep != "count":
            columns.append(weights)
        if self.G.edge_dtypes:
            columns.append(np.arange(src.size) + self.clock)
        return tuple(self.G.core.backend.asarray(column) for column in columns)

    def slide(self, *columns: np.ndarray) -> None:
        self.slide_edges(self.on_device(*columns), columns[0])

    def slide_edges(self, edges: tuple[Any, ...], src: np.ndarray) -> None:
        given = {"time": self.clock + np.arange(src.size)} if self.window.by == "time" else {}
        self.window.slide(edges, **given)
        self.clock += src.size


@pytest.mark.parametrize(("by", "keep", "weighted", "options", "device", "what"), CASES)
def test_an_allocation_or_a_kernel_that_fails(
    monkeypatch: pytest.MonkeyPatch, device: str, by: str, keep: str, weighted: bool, options: Any, what: str
) -> None:
    stream = Stream(by, keep, weighted, device, directed=False, **options)
    before, batch, backend = state_of(stream.window), stream.batch(), stream.G.core.backend
    edges = stream.on_device(*batch)
    for n in range(300):
        with monkeypatch.context() as patch:
            let_fail(patch, backend, what, n)
            try:
                stream.slide_edges(edges, batch[0])
            except OutOfMemoryError:
                pass
            else:
                break
        assert state_of(stream.window) == before, f"call {n}"
        check_graph(stream.G)
    twin = Stream(by, keep, weighted, device, directed=False, **options)
    twin.slide(*twin.batch())
    after, expected = state_of(stream.window), state_of(twin.window)
    assert after[0] == pytest.approx(expected[0])
    assert after[1:4] == expected[1:4]
    assert after[7] == expected[7]


@crossed(
    device=DEVICES,
    kind=KINDS,
    wrong=[
        ((-1, 2, 1.0), InputError, "slide: `src` has -1 at row 4; vertex ids must not be negative"),
        ((2, -7, 1.0), InputError, "slide: `dst` has -7 at row 4; vertex ids must not be negative"),
        ((1, 2**30, 1.0), LimitError, "slide: id 1073741824 would make rows"),
        ((0, 2**31 - 1, 1.0), LimitError, "slide: `dst` has 2147483647 at row 4; int32 ids go to 2147483646"),
        ((1, 2, np.nan), InputError, "slide: `weights` is NaN at row 4"),
        ((1, 2, np.inf), InputError, "slide: the weight of row 4 is infinite; keep='sum' wants finite weights"),
    ],
)
def test_rows_that_the_kernels_find_to_be_wrong(
    device: str, kind: tuple[str, str, bool], wrong: tuple[Any, type, str]
) -> None:
    (by, keep, weighted), (row, error, message) = kind, wrong
    if not np.isfinite(row[2]) and (not weighted or keep == "count" or (keep == "latest" and np.isinf(row[2]))):
        pytest.skip("the weights are not read, or may be infinite")
    stream = Stream(by, keep, weighted, device)
    before, batch = state_of(stream.window), stream.batch()
    columns = tuple(column.copy() for column in batch)
    for column, value in zip(columns, row, strict=True):
        column[4] = value
    with pytest.raises(error, match=message):
        stream.slide(*columns)
    assert state_of(stream.window) == before
    stream.slide(*batch)
    check_graph(stream.G)


@pytest.mark.parametrize("device", DEVICES)
def test_ids_of_another_dtype(device: str) -> None:
    G = DynamicGraph(device=device)
    window = Window(G, 3)
    for rows in (([0, 2**40], [1, 1]), ([0, 2], [1, -1])):
        with pytest.raises((InputError, LimitError)):
            window.slide(tuple(G.core.backend.asarray(np.array(column)) for column in rows))
    window.slide(tuple(G.core.backend.asarray(np.array(column)) for column in ([0, 2], [1, 1])))
    assert sorted(named_edges(G)) == [(0, 1), (2, 1)]


@pytest.mark.parametrize("device", DEVICES)
def test_marks_begin_again_when_their_numbers_end(device: str) -> None:
    stream, twin = (Stream("count", "sum", True, device) for _ in range(2))
    pairs = stream.window._pairs
    assert pairs is not None
    assert pairs.marks is not None
    pairs.slides = 2**31 - 1
    pairs.marks.fill(1)
    for number in (1, 2):
        for each in (stream, twin):
            each.slide(*each.batch())
        assert named_edges(stream.G) == pytest.approx(named_edges(twin.G))
        assert pairs.slides == number
