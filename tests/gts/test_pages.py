"""Slotted pages: the format byte by byte, round trips, limits, and folders."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph, gts
from dynstore.errors import InputError, InputTypeError, LimitError, SavedGraphError, UnweightedGraphError

FORMATS = [
    {"p": 2, "q": 2, "page_bytes": 128},
    {"p": 1, "q": 1, "page_bytes": 64},
    {"p": 3, "q": 3, "page_bytes": 160},
    {"p": 1, "q": 2, "page_bytes": 96},
    {"p": 2, "q": 4, "page_bytes": 4096},
]


def draw_edges(rng: np.random.Generator, num_vertices: int = 60, num_edges: int = 150) -> tuple[np.ndarray, ...]:
    """Return edges; vertex 3 has edges to all vertices."""
    src = rng.integers(0, num_vertices, num_edges)
    dst = rng.integers(0, num_vertices, num_edges)
    src[:num_vertices], dst[:num_vertices] = 3, np.arange(num_vertices)
    return src, dst, rng.random(num_edges).astype(np.float32)


def read_number(page: np.ndarray, at: int, size: int) -> int:
    return int.from_bytes(page[at : at + size].tobytes(), "little")


def test_the_graph_of_the_papers_figure() -> None:
    """Figure 1: v0 to v2 share a small page, v3 has two large pages. Figure 12: their RVT."""
    topology = gts.build(([0, 1, 1, 2] + [3] * 17, [1, 2, 3, 3, *range(17)]), page_bytes=52)
    assert topology.starts.tolist() == [0, 3, 3, 4, 8, 12, 16, 17]
    assert topology.ranges.tolist() == [-1, 1, 0, -1, -1, -1, -1]
    assert (topology.num_small, topology.num_large) == (5, 2)
    # On LP1 of v3 the neighbour r2 is (page 0, slot 2): behind ADJLIST_SZ and two record ids.
    assert [read_number(topology.pages[1], at, 2) for at in (12, 14)] == [0, 2]
    assert [read_number(topology.pages[pid], 0, 4) for pid in (1, 2)] == [10, 7]  # ADJLIST_SZ


def test_bytes_are_where_the_paper_has_them() -> None:
    topology = gts.build(([0, 0, 1] + [2] * 9, [1, 2, 2, *range(9)]), page_bytes=40)
    # v0 takes 8 bytes of slot, 4 of ADJLIST_SZ and 4 a neighbour; v1 fits behind it; v2 has two large pages.
    assert topology.starts[:4].tolist() == [0, 2, 2, 3]
    page = topology.pages[0]
    assert [read_number(page, at, 4) for at in (32, 36)] == [0, 0]  # slot 0: VID, OFF
    assert [read_number(page, at, 4) for at in (24, 28)] == [1, 12]  # slot 1
    assert read_number(page, 0, 4) == 2  # ADJLIST_SZ of v0
    assert [read_number(page, at, 2) for at in (4, 6)] == [0, 1]  # v1: page 0, slot 1
    assert [read_number(page, at, 2) for at in (8, 10)] == [1, 0]  # v2: its first page, slot 0


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("weights", [False, True])
def test_pages_hold_the_graph(form: dict[str, int], weights: bool, rng: np.random.Generator) -> None:
    graph = DynamicGraph(weighted=True, device="cpu")
    graph.insert_edges(draw_edges(rng))
    topology = gts.build(graph, weights=weights, **form)
    offsets, indices, values = topology.rows()
    expected = graph.snapshot().compact()
    np.testing.assert_array_equal(offsets, expected.offsets)
    np.testing.assert_array_equal(indices, expected.indices)
    assert (values is not None) == weights
    if weights:
        np.testing.assert_array_equal(values, expected.weights)
    assert topology.num_small + topology.num_large == topology.num_pages
    assert topology.nbytes == topology.num_pages * form["page_bytes"]
    assert form["page_bytes"] > 160 or topology.num_large > 1


def test_vids_ascend_within_and_across_pages(rng: np.random.Generator) -> None:
    topology = gts.build(draw_edges(rng)[:2], page_bytes=128)
    large = topology.ranges >= 0
    counts = np.where(large, topology.ranges == 0, np.diff(topology.starts))
    assert counts.sum() == topology.num_vertices
    assert (np.diff(topology.starts) >= 0).all()
    assert (counts[~large] <= topology.format.max_slots).all()


def test_a_page_has_no_more_slots_than_q_numbers() -> None:
    topology = gts.build(([0], [700]), page_bytes=3072, p=1, q=1)
    assert topology.starts.tolist() == [0, 256, 512, 701]


def test_pages_of_vertices() -> None:
    src, dst = [0] + [2] * 20 + [5], [1, *range(20), 0]
    topology = gts.build((src, dst), page_bytes=64)
    assert topology.ranges.tolist() == [-1, 1, 0, -1, -1, -1, -1]
    assert topology.starts.tolist() == [0, 2, 2, 3, 8, 13, 18, 20]
    assert topology.pages_of(np.array([2])).tolist() == [1, 2]
    assert [topology.pages_of(np.array([vertex])).tolist() for vertex in (0, 1, 3, 7, 8, 19)] == [
        [0], [0], [3], [3], [4], [6],
    ]  # fmt: skip
    assert topology.pages_of(np.array([19, 2, 0, 2])).tolist() == [0, 1, 2, 6]


def test_table_2() -> None:
    """The largest pages of 6-byte record ids; OFF has 4 bytes, so 80 GB cannot be reached."""
    assert gts.PageFormat(64, 3, 3).max_page_bytes == 320 << 20
    assert gts.PageFormat(64, 4, 2).max_page_bytes == 5 << 18
    assert gts.PageFormat(64, 2, 4).max_page_bytes == 1 << 32
    assert gts.PageFormat(64, 2, 2).max_page_bytes == 1 << 20
    assert (gts.PageFormat(64, 3, 3).max_pages, gts.PageFormat(64, 3, 3).max_slots) == (1 << 24, 1 << 24)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"p": 0}, InputError, "PageFormat: p is 0; wanted 1 to 4 bytes"),
        ({"q": 5}, InputError, "PageFormat: q is 5; wanted 1 to 4 bytes"),
        ({"q": "2"}, InputTypeError, "PageFormat: q is '2'; wanted an integer"),
        ({"page_bytes": 12}, InputError, "page_bytes is 12; wanted a multiple of 4, at least 16"),
        ({"page_bytes": 130}, InputError, "page_bytes is 130; wanted a multiple of 4"),
        ({"page_bytes": 1 << 21}, LimitError, "with p=2, q=2 a page has at most 1048576 bytes"),
        ({"page_bytes": 64, "p": 1, "q": 1}, LimitError, "the graph needs 1000 pages of 64 bytes; p=1 numbers 256"),
        ({"weights": True}, UnweightedGraphError, "weights=True, and the graph has no weights"),
        ({"weights": 1}, InputTypeError, "build: weights is 1; wanted True or False"),
    ],
)
def test_limits_say_what_was_wanted(options: dict[str, int], error: type[Exception], message: str) -> None:
    graph = DynamicGraph(device="cpu")
    graph.insert_edges((np.repeat(np.arange(1000), 25), np.tile(np.arange(25), 1000)))
    with pytest.raises(error, match=message):
        gts.build(graph, **options)


def test_input_that_is_no_graph() -> None:
    with pytest.raises(InputTypeError, match="build: edges is a NoneType"):
        gts.build(None)
    named = DynamicGraph(renumber=True, device="cpu")
    named.insert_edges((["a"], ["b"]))
    with pytest.raises(InputError, match="the graph has ids of its own"):
        gts.build(named)


def test_an_empty_graph_has_no_pages() -> None:
    topology = gts.build(DynamicGraph(device="cpu"))
    assert (topology.num_vertices, topology.num_pages, topology.starts.tolist()) == (0, 0, [0])
    assert topology.rows()[0].tolist() == [0]


def test_a_folder_gives_the_same_pages(tmp_path: Path, rng: np.random.Generator) -> None:
    topology = gts.build(draw_edges(rng), page_bytes=128, weights=True)
    topology.save(tmp_path / "pages")
    opened = gts.open_topology(tmp_path / "pages")
    assert isinstance(opened.pages, np.memmap)
    assert (opened.format, opened.directed) == (topology.format, True)
    for name in ("pages", "starts", "ranges", "degrees"):
        np.testing.assert_array_equal(getattr(opened, name), getattr(topology, name))
    with pytest.raises(FileExistsError):
        topology.save(tmp_path / "pages")


def test_weights_of_a_graph_have_to_fit_float32() -> None:
    graph = DynamicGraph(weighted=True, weight_dtype="float64", device="cpu")
    graph.insert_edges(([0, 1, 2], [1, 2, 3], [np.inf, 1e-300, 2.5]))
    values = gts.build(graph, page_bytes=64, weights=True).rows()[2]
    assert values is not None
    assert values.tolist() == [np.inf, 0.0, 2.5]
    graph.insert_edges([(1, 3, -1e300)])
    with pytest.raises(LimitError, match=r"build: an edge has the weight -1e\+300; that does not fit float32"):
        gts.build(graph, page_bytes=64, weights=True)


def test_sizes_may_be_integers_of_numpy(tmp_path: Path) -> None:
    edges: Any = ([0, 1], [1, 2], [1.0, 2.0])
    wanted = gts.build(edges, page_bytes=64, p=2, q=3, weights=True)
    sizes: dict[str, Any] = {"page_bytes": np.int8(64), "p": np.int8(2), "q": np.uint8(3), "weights": np.bool_(True)}
    made = gts.build(edges, **sizes)
    made.save(tmp_path / "pages")
    assert gts.open_topology(tmp_path / "pages").format == made.format == wanted.format
    assert (made.pages == wanted.pages).all()


@pytest.mark.parametrize("wrong", [{"directed": 1}, {"directed": None}, {"least_weight": None}, {"least_weight": "x"}])
@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_manifest_is_checked(tmp_path: Path, wrong: dict[str, Any], is_left_out: bool) -> None:
    gts.build(([0], [1]), page_bytes=64).save(tmp_path / "pages")
    path = tmp_path / "pages" / "manifest.json"
    manifest = json.loads(path.read_text()) | wrong
    if is_left_out:
        for name in wrong:
            del manifest[name]
    path.write_text(json.dumps(manifest))
    with pytest.raises(SavedGraphError, match="is no saved topology"):
        gts.open_topology(tmp_path / "pages")


def test_a_folder_that_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(SavedGraphError, match="is no saved topology"):
        gts.open_topology(tmp_path)
    gts.build(([0], [1]), page_bytes=64).save(tmp_path / "pages")
    with (tmp_path / "pages" / "pages").open("ab") as file:
        file.write(b"x")
    with pytest.raises(SavedGraphError, match="pages has 65 bytes; wanted 64"):
        gts.open_topology(tmp_path / "pages")
    for name in ("pages", "starts"):
        folder = tmp_path / f"damaged {name}"
        gts.build(([0], [1]), page_bytes=64).save(folder)
        content = bytearray((folder / name).read_bytes())
        content[0] ^= 1
        (folder / name).write_bytes(content)
        with pytest.raises(SavedGraphError, match=f"{name} has another checksum than when it was written"):
            gts.open_topology(folder, verify=True)
    with pytest.raises(SavedGraphError, match="starts has another checksum"):
        gts.open_topology(folder)
    gts.build(DynamicGraph(device="cpu")).save(tmp_path / "none")
    assert gts.open_topology(tmp_path / "none").num_pages == 0


@pytest.mark.parametrize("value", [gts.build, gts.GTS], ids=lambda value: value.__name__)
def test_the_examples_of_docstrings_print_what_they_show(value: object) -> None:
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder(recurse=False).find(value):
        runner.run(example)
    assert runner.tries > 1
    assert runner.summarize().failed == 0
