"""Leaves hold what was packed into them: all widths, rows that change inside a leaf, rows without edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.rmat_pieces import OUT, RmatGraph
from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError
from dynstore.stores.paged import building
from dynstore.stores.paged.building import pack_pieces, pack_rows
from dynstore.stores.paged.layout import LEAF, WIDTH_MASK, PagedRows
from tests.stores.paged.searches import decode_rows, find_slots

MOST = 2**31 - 1


def pack(backend: Backend, rows: list[list[int]], encode: bool = True, page_bits: int = 5) -> PagedRows:
    offsets = np.cumsum([0, *map(len, rows)])
    indices = np.array([each for row in rows for each in row], np.int32)
    return pack_rows(backend, backend.asarray(offsets), backend.asarray(indices), encode=encode, page_bits=page_bits)


def check(packed: PagedRows, rows: list[list[int]]) -> None:
    """Compare what the leaves and the directory say with the rows that were packed."""
    to_host = packed.backend.to_host
    wanted = [each for row in rows for each in row]
    assert decode_rows(packed).tolist() == wanted
    ranks, marks, sources = to_host(packed.ranks), to_host(packed.marks), []
    for leaf in range(packed.num_leaves):
        rank = int(ranks[leaf])
        for slot in range(min(LEAF, len(wanted) - leaf * LEAF)):
            rank += slot > 0 and int(marks[leaf]) >> slot & 1
            sources.append(int(to_host(packed.rows)[rank]))
    assert sources == [number for number, row in enumerate(rows) for _ in row]


@pytest.mark.parametrize("encode", [True, False])
def test_rows_of_any_shape_come_back(backend: Backend, encode: bool) -> None:
    rng = np.random.default_rng(5)
    lengths = [0, 0, 1, 40, 3, 0, 31, 32, 33, 200, 0, 1, 1, 1, 0]
    rows = [sorted(rng.choice(900, length, replace=False).tolist()) for length in lengths]
    rows += [[] for _ in range(900 - len(rows))]
    packed = pack(backend, rows, encode)
    check(packed, rows)
    assert packed.num_pages == 1
    assert packed.num_edges == sum(lengths)
    assert packed.is_encoded == encode
    usage = packed.memory_usage()
    assert usage["pages"] == 4 * packed.places_on_host[-1] == packed.page_bytes().sum()
    if not encode:
        assert usage["pages"] == 128 * packed.num_leaves


@pytest.mark.parametrize("encode", [True, False])
def test_edges_are_found_at_their_slots(backend: Backend, encode: bool) -> None:
    rng = np.random.default_rng(6)
    lengths = [0, 5, 150, 0, 20, 70, 1, 32, 0]
    rows = [sorted((2 * rng.choice(120, min(length, 120), replace=False)).tolist()) for length in lengths]
    rows += [[] for _ in range(240 - len(rows))]
    packed = pack(backend, rows, encode)
    present = [(row, each) for row, others in enumerate(rows) for each in others]
    some = range(0, len(present), 1 if backend.family == "cpu" else 9)
    src, dst = np.array([present[i] for i in some]).T
    assert find_slots(packed, src, dst) == list(some)
    absent = [(row, other) for row in range(len(lengths)) for other in (0, 1, 77, 238, 239)]
    absent = [pair for pair in absent if pair not in present]
    src, dst = np.array(absent).T
    assert set(find_slots(packed, src, dst)) == {-1}


def widths_of(packed: PagedRows) -> list[int]:
    return (packed.backend.to_host(packed.heads) & WIDTH_MASK).tolist()


def test_a_leaf_is_as_wide_as_its_widest_gap(backend: Backend) -> None:
    run = list(range(100, 132))  # no gap at all
    assert widths_of(pack(backend, [run, *[[]] * 200])) == [0]
    assert widths_of(pack(backend, [[0, 2], [2], *[[]] * 200])) == [2]  # the second row begins 2 above the base
    assert widths_of(pack(backend, [[0, 129], *[[]] * 200])) == [8]
    assert widths_of(pack(backend, [list(range(64)), [63], *[[]] * 200])) == [0, 0, 0]


def test_the_widest_leaves_come_back(backend: Backend) -> None:
    """Ids up to 2^31 - 1 are tried without offsets, which would take 16 GB."""
    kernels = backend.kernels("dynstore.stores.paged")
    rng = np.random.default_rng(3)
    values = np.concatenate([[0], np.sort(rng.choice(MOST - 1, 40, replace=False) + 1), [5, MOST - 1, 0, MOST - 1]])
    indices = backend.asarray(values.astype(np.int32))
    for encode in (True, False):
        marks = backend.zeros(2, np.uint32)
        kernels.mark_starts(backend.asarray(np.array([0, 41, 43])), marks)
        bases, widths, wrong = backend.zeros(2, np.uint32), backend.empty(2, np.uint8), backend.zeros(1, np.int32)
        kernels.measure_leaves(indices, 0, marks, MOST, bases, widths, wrong)
        assert int(wrong[0]) == 0
        assert int(widths[1]) == 31
        if not encode:
            widths.fill(32)
        heads, places = building._lay_out(backend, widths, 5)
        heads |= np.uint32(0 if encode else 64)
        leaves = heads, bases, marks, backend.zeros(2, np.uint32), backend.xp.arange(3, dtype=np.int32)
        words = backend.zeros(int(places[-1]), np.uint32)
        kernels.encode_leaves(indices, 0, leaves, places, 0, 5, words)
        out = backend.empty(values.shape[0], np.int64)
        pages = backend.zeros(1, np.int32)
        kernels.decode_keys(leaves, (words, places, 0, 5), values.shape[0], pages, 0, out)
        rows = np.repeat(np.arange(3), [41, 2, 2])
        assert backend.to_host(out).tolist() == (rows << 32 | values).tolist()


@given(st.data())
@settings(max_examples=20)
def test_random_rows_come_back(data: st.DataObject) -> None:
    num_vertices = data.draw(st.sampled_from([1, 5, 70, 3000]))
    row = st.lists(st.integers(0, num_vertices - 1), unique=True, max_size=90).map(sorted)
    rows = data.draw(st.lists(row, min_size=num_vertices if num_vertices < 9 else 0, max_size=min(num_vertices, 40)))
    rows += [[] for _ in range(num_vertices - len(rows))]
    packed = pack(get_backend("cpu"), rows, data.draw(st.booleans()))
    check(packed, rows)


def test_pieces_make_the_same_pages(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    rows = [sorted(rng.choice(64, 40, replace=False).tolist()) for _ in range(64)]
    whole = pack(backend, rows)
    monkeypatch.setattr(building, "PIECE_LEAVES", 32)
    pieces = pack(backend, rows)
    assert whole.num_pages == 3
    assert whole.words_on_host.tolist() == pieces.words_on_host.tolist()
    check(pieces, rows)


@pytest.mark.parametrize("row", [[3, 2], [4, 4], [-1, 2], [2, 9]], ids=["falls", "repeats", "negative", "no vertex"])
def test_wrong_rows_are_refused(backend: Backend, row: list[int]) -> None:
    with pytest.raises(InputError, match=r"pack_rows: the rows do not ascend, or ids are not below 9; wanted sorted"):
        pack(backend, [[0, 1], row, *[[]] * 7])


def test_wrong_rows_are_seen_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "PIECE_LEAVES", 32)
    backend, row = get_backend("cpu"), np.arange(1500)
    assert pack(backend, [row.tolist(), *[[]] * 1499]).num_pages == 2
    with pytest.raises(InputError, match="pack_rows: the rows do not ascend"):
        pack(backend, [np.sort(np.append(row[:-1], 1023)).tolist(), *[[]] * 1499])
    halves = [row[:1024].tolist(), row[:476].tolist()]
    assert pack(backend, [*halves, *[[]] * 1498]).num_pages == 2


def test_wrong_degrees_are_refused() -> None:
    backend = get_backend("cpu")
    with pytest.raises(
        InputError, match=r"pack_rows: the rows end at edge 3 of vertex 2; wanted 2 edges of 2 vertices"
    ):
        pack_rows(backend, np.array([0, 1, 3]), np.array([0, 1], np.int32))
    with pytest.raises(
        InputError, match=r"pack_rows: the rows end at edge 1 of vertex 1; wanted 1 edges of 2 vertices"
    ):
        pack_pieces(backend, 2, lambda: iter([(np.array([1]), np.array([1], np.int32))]))


def test_wrong_pages_are_refused() -> None:
    with pytest.raises(InputError, match="pack_rows: page_bits is 4; wanted 5 to 15"):
        pack(get_backend("cpu"), [[0]], page_bits=4)


def test_a_graph_without_edges_has_no_pages(backend: Backend) -> None:
    packed = pack(backend, [[], []])
    assert (packed.num_pages, packed.num_leaves, packed.memory_usage()["pages"]) == (0, 0, 0)
    assert decode_rows(packed).shape == (0,)
    assert packed.bytes_an_edge() == {"pages": 0.0, "leaves": 0.0}


def test_encoded_rows_are_as_small_as_the_codec_promises() -> None:
    """1.41 bytes an edge of R-MAT 16 in order of degree, with 5 bytes for each leaf's width and base."""
    graph = RmatGraph(get_backend("cpu"), 16, 16, 1)
    packed = pack_pieces(graph.backend, graph.num_vertices, lambda: graph.pieces(OUT))
    assert packed.bytes_an_edge()["pages"] + 5 / LEAF == pytest.approx(1.41, abs=0.02)
