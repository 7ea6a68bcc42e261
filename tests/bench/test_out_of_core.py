"""The comparison of ways out of core runs on small sizes, and writes what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rmat_pieces
from benchmarks.out_of_core import ALGORITHMS, USUAL, USUAL_WAYS, WAYS, main
from benchmarks.out_of_core import contest as out_of_core_contest
from benchmarks.out_of_core.slotted import SLOTTED_ALGORITHMS, SlottedPages, make_format
from benchmarks.rmat_pieces import INTO, ORDERS, OUT, RmatGraph
from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError


def keys_of(graph: RmatGraph, kind: int) -> np.ndarray:
    """Return all edges as row * V + destination, and check that pieces fit together."""
    pieces = [tuple(map(graph.backend.to_host, piece)) for piece in graph.pieces(kind)]
    degrees, indices = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    assert degrees.shape == (graph.num_vertices,)
    return np.repeat(np.arange(graph.num_vertices), degrees) * graph.num_vertices + indices


def test_rows_are_a_sorted_graph_by_falling_degree() -> None:
    graph = RmatGraph(get_backend("cpu"), 8, 8, 3)
    keys = keys_of(graph, OUT)
    assert (np.diff(keys) > 0).all()
    rows, columns = keys // 256, keys % 256
    assert (rows != columns).all()
    degrees = np.bincount(rows, minlength=256) + np.bincount(columns, minlength=256)
    assert degrees[:16].min() > degrees[128:].max() + 5
    assert degrees[0] > 5 * np.median(degrees)
    assert keys_of(graph, INTO).tolist() == np.sort(columns * 256 + rows).tolist()
    assert keys_of(RmatGraph(get_backend("cpu"), 8, 8, 4), OUT).tolist() != keys.tolist()


def test_orders_number_the_same_graph(backend: Backend) -> None:
    """A search from the most connected vertex reaches as many vertices, and degrees are the same ones."""
    degrees, hubs = {}, {}
    for order in ORDERS:
        graph = RmatGraph(backend, 6, 6, 3, order=order)
        keys = keys_of(graph, OUT)
        assert keys.tolist() == keys_of(RmatGraph(get_backend("cpu"), 6, 6, 3, order=order), OUT).tolist()
        ends = np.bincount(keys // 64, minlength=64) + np.bincount(keys % 64, minlength=64)
        degrees[order], hubs[order] = ends, graph.hub
    assert hubs["degree"] == 0
    assert len({ends[hubs[order]] for order, ends in degrees.items()}) == 1
    assert len({tuple(np.sort(ends)) for ends in degrees.values()}) == 1
    assert len({tuple(ends) for ends in degrees.values()}) == 3
    with pytest.raises(InputError, match="unknown order 'random'"):
        RmatGraph(backend, 6, 6, 3, order="random")


def test_a_graph_is_the_same_on_every_device_and_in_pieces(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    for symmetric in (False, True):
        whole = RmatGraph(get_backend("cpu"), 5, 4, 3, symmetric)
        monkeypatch.setattr(rmat_pieces, "PIECE_EVENTS", 40)
        parts = RmatGraph(backend, 5, 4, 3, symmetric)
        assert len(list(parts.pieces(OUT))) > 2
        for kind in (OUT, INTO):
            assert keys_of(parts, kind).tolist() == keys_of(whole, kind).tolist()
        monkeypatch.undo()
    keys = keys_of(whole, OUT)
    assert np.sort(keys % 32 * 32 + keys // 32).tolist() == keys.tolist()


def test_more_than_2_to_the_32_events_are_not_the_same_ones_again(backend: Backend) -> None:
    """The upper half of an event's number once only permuted 2^32 events: R-MAT 30 had a quarter of its edges."""
    low, inverse = 0xFFFFFFFF, pow(0x45D9F3B, -1, 1 << 32)

    def mix(bits: int, factor: int) -> int:
        for _ in range(2):
            bits = ((bits ^ (bits >> 16)) * factor) & low
        return bits ^ (bits >> 16)

    def draw(event: int) -> tuple[int, int]:
        ends = backend.empty(1, np.int32), backend.empty(1, np.int32)
        backend.kernels("benchmarks.rmat_pieces").draw_rows(event, 30, 5, *ends)
        return int(ends[0][0]), int(ends[1][0])

    assert mix(mix(1234567, 0x45D9F3B), inverse) == 1234567
    for high in (1, 2, 3):
        for event in range(40, 44):
            same_state_before = (high << 32) | mix(mix(event, 0x45D9F3B) ^ high, inverse)
            assert len({draw(event), draw((high << 32) | event), draw(same_state_before)}) == 3


def test_each_way_and_algorithm_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ways.json"
    sizes = ["--scale", "9", "--edge-factor", "8", "--repeats", "2", "--iterations", "3", "--device", "cpu"]
    main([*sizes, "--resident", "0,1", "--json", str(path)])
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert rows[0]["store"] == "link"
    assert len(rows) == 1 + 2 * len(USUAL_WAYS) * len(USUAL)
    for row in rows[1:]:
        assert (row["bytes"] == 0) == row["store"].endswith("resident 1")
    ranked = {row["store"]: row["bytes"] for row in rows if row["algorithm"] == "pagerank"}
    assert ranked["raw, resident 0"] == ranked["zero-copy, resident 0"] == -(-rows[1]["edges"] // 32) * 128
    assert ranked["codec, resident 0"] < 0.4 * ranked["raw, resident 0"]
    assert "bytes an edge in pages" in capsys.readouterr().out


def test_each_other_algorithm_has_a_row(tmp_path: Path) -> None:
    path, others = tmp_path / "others.json", ALGORITHMS[len(USUAL) :]
    sizes = ["--scale", "8", "--edge-factor", "8", "--repeats", "1", "--symmetric", "--device", "cpu"]
    ways = ["--ways", ",".join(WAYS)]
    assert main([*sizes, *ways, "--algorithms", ",".join(others), "--resident", "0,1", "--json", str(path)]) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = document["rows"][1:]
    assert len(rows) == 2 * len(WAYS) * len(others)
    assert {row["algorithm"] for row in rows} == {"sssp", "triangle_count", "betweenness_centrality"}
    for row in rows:
        assert (row["bytes"] == 0) == row["store"].endswith("resident 1")
    moved = {(row["algorithm"], row["store"]): row["bytes"] for row in rows}
    whole = -(-rows[0]["edges"] // 32) * 128
    assert moved["triangle_count", "raw, resident 0"] == whole
    assert moved["sssp", "raw, resident 0"] % (2 * whole) == 0  # ids and weights
    main([*sizes, "--algorithms", "triangles", "--ways", "raw", "--triangle-bytes", "30000", "--json", str(path)])
    assert json.loads(path.read_text(encoding="utf-8"))["rows"][1]["bytes"] > 3 * whole


def test_weights_are_those_of_both_directions(backend: Backend) -> None:
    graph = RmatGraph(backend, 5, 4, 3)
    found = []
    for kind in (OUT, INTO):
        ((degrees, indices, weights),) = (map(backend.to_host, piece) for piece in graph.pieces(kind, weighted=True))
        rows = np.repeat(np.arange(32), degrees).tolist()
        found.append(dict(zip(zip(rows, indices.tolist(), strict=True), weights.tolist(), strict=True)))
    assert found[0] == {(row, other): weight for (other, row), weight in found[1].items()}
    assert 1 <= min(found[0].values()) < 20 < 80 < max(found[0].values()) <= 100


@pytest.mark.parametrize("symmetric", [False, True])
def test_slotted_pages_are_measured_beside_the_other_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], symmetric: bool
) -> None:
    path = tmp_path / "gts.json"
    sizes = ["--scale", "9", "--repeats", "2", "--iterations", "3", "--device", "cpu", "--resident", "0,1"]
    ways = ["--ways", "raw,gts,gts-paper", "--algorithms", ",".join(SLOTTED_ALGORITHMS)]
    assert main([*sizes, *ways, "--json", str(path), *(["--symmetric"] if symmetric else [])]) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["agree"]
    rows = document["rows"][1:]
    assert len(rows) == 2 * 3 * len(SLOTTED_ALGORITHMS)
    moved = {(row["algorithm"], row["store"]): row["bytes"] for row in rows}
    for algorithm in ("bfs", "sssp", "pagerank", "weakly_connected_components"):
        if algorithm in ("pagerank", "weakly_connected_components"):  # one pass over all pages
            assert moved[algorithm, "gts, resident 0"] >= moved[algorithm, "raw, resident 0"]
        assert moved[algorithm, "gts, resident 1"] <= 2 * 4 * 2**9  # no page, but perhaps attributes
    shown = capsys.readouterr()
    assert "pagerank     gts-paper          1.00" in shown.out
    assert "building slotted pages" in shown.err


def test_a_way_that_differs_is_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SlottedPages.measure

    def measure(self: SlottedPages, way: str, *arguments: object) -> object:
        answer, *more = whole(self, way, *arguments)  # type: ignore[arg-type]
        return answer * (1 + (way == "gts-paper")), *more

    monkeypatch.setattr(SlottedPages, "measure", measure)
    path = tmp_path / "differs.json"
    sizes = ["--scale", "8", "--repeats", "1", "--iterations", "3", "--device", "cpu", "--json", str(path)]
    assert main([*sizes, "--ways", "raw,gts,gts-paper", "--algorithms", "bfs,pagerank"]) == 1
    assert not json.loads(path.read_text(encoding="utf-8"))["agree"]
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("DISAGREEMENT")]
    assert lines == [
        "DISAGREEMENT: bfs by gts-paper gives another answer than by raw",
        "DISAGREEMENT: pagerank by gts-paper gives another answer than by raw",
    ]


def test_what_does_not_fit_is_left_out_and_the_rest_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: SlottedPages, *arguments: object) -> object:
        raise MemoryError("no room\nfor it")

    monkeypatch.setattr(SlottedPages, "measure", refuse)
    path = tmp_path / "part.json"
    sizes = ["--scale", "8", "--repeats", "1", "--device", "cpu", "--json", str(path)]
    assert main([*sizes, "--ways", "raw,gts", "--algorithms", "bfs"]) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [row["store"] for row in document["rows"]] == ["link", "raw, resident 0"]
    assert "left out: bfs by gts, resident 0: no room\n" in capsys.readouterr().out


def test_what_comes_too_late_is_left_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr(out_of_core_contest, "read_clock", lambda: next(clock))
    sizes = ["--scale", "8", "--repeats", "1", "--device", "cpu", "--limit-seconds", "35"]
    assert main([*sizes, "--ways", "raw,codec,gts", "--algorithms", "bfs"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left out")]
    assert lines == [
        "left out: bfs by raw, resident 0: the time was up",
        "left out: what reads encoded pages: the time was up",
        "left out: slotted pages: the time was up",
    ]


@pytest.mark.parametrize(
    ("scale", "weighted", "wanted"),
    [
        (8, False, (304, 2, 2)),
        (28, False, (1 << 20, 2, 2)),
        (28, True, (1 << 20, 2, 2)),
        (30, False, (64 << 20, 3, 3)),
    ],
)
def test_a_graph_of_any_size_has_pages(scale: int, weighted: bool, wanted: tuple[int, int, int]) -> None:
    form = make_format(1 << scale, 16 << scale, weighted)
    pages = ((1 << scale) * form.vertex_bytes + (16 << scale) * form.entry_bytes) / form.page_bytes
    assert 32 < pages < form.max_pages / 1.3
    assert (form.page_bytes, form.p, form.q) == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--ways", "fax"],
            "out_of_core: unknown way 'fax'; known: 'codec', 'codec-in-place', 'gts', "
            "'gts-paper', 'hybrid', 'plain-hybrid', 'raw', 'zero-copy'",
        ),
        (["--algorithms", "sort"], "out_of_core: unknown algorithm 'sort'"),
        (
            ["--ways", "gts", "--algorithms", "triangles", "--symmetric"],
            "out_of_core: gts do not have triangles; wanted",
        ),
        (["--algorithms", "triangles"], "out_of_core: triangles of a directed graph; wanted --symmetric"),
        (["--resident", "half"], "out_of_core: --resident is 'half'; wanted numbers by comma"),
        (["--scale", "31"], "out_of_core: --scale is 31; wanted 1 to 30"),
        (["--iterations", "0"], "out_of_core: --iterations is 0; wanted 1 or more"),
        (["--repeats", "0"], "out_of_core: --repeats is 0; wanted 1 or more"),
        (["--edge-factor", "-1"], "out_of_core: --edge-factor is -1; wanted 0 or more"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        main([*arguments, "--device", "cpu"])
