"""How a stream is cut: a sliding window counts multiplicity, explicit changes are netted out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynstore.bench.stream import Edges, SlidingStream, cut_stream, edge_keys, parse_batch, sorted_unique
from dynstore.errors import InputError
from dynstore.io import OP_DELETE, OP_INSERT, OP_REWEIGHT, EventTable

Pair = tuple[int, int]


def pairs_of(edges: Edges, directed: bool) -> list[Pair]:
    rows = zip(edges.src.tolist(), edges.dst.tolist(), strict=True)
    return [pair if directed else (min(pair), max(pair)) for pair in rows]


def unpack(keys: np.ndarray) -> list[Pair]:
    return [(int(key) >> 32, int(key) & 0xFFFFFFFF) for key in keys]


@st.composite
def streams(draw: st.DrawFn) -> tuple[EventTable, float, int, int, bool, bool]:
    """Return events with many repetitions, and a cut that fits them."""
    size = draw(st.integers(4, 60))
    ids = st.integers(0, draw(st.integers(0, 4)))
    column = st.lists(ids, min_size=size, max_size=size)
    weight = np.array(draw(st.lists(st.integers(-5, 5), min_size=size, max_size=size)), np.float64)
    events = EventTable(np.array(draw(column), np.int64), np.array(draw(column), np.int64), weight=weight)
    length = draw(st.integers(1, size - 1))
    batch = draw(st.integers(1, min(length, size - length)))
    slides = draw(st.integers(1, (size - length) // batch))
    return events, length / size, batch, slides, draw(st.booleans()), draw(st.booleans())


@given(streams())
def test_a_window_follows_a_naive_counter(case: tuple[EventTable, float, int, int, bool, bool]) -> None:
    events, window, batch, num_slides, directed, weighted = case
    stream = cut_stream(events, window, batch, num_slides, directed, weighted)
    assert len(stream.slides) == num_slides
    all_pairs = pairs_of(Edges(events.src, events.dst), directed)
    length = round(window * len(events))
    inside = all_pairs[:length]
    graph = dict.fromkeys(inside)
    assert events.weight is not None
    graph.update(zip(inside, events.weight.tolist(), strict=False))
    for step, slide in enumerate(stream.slides):
        count = Counter(all_pairs[step * batch : length + step * batch])
        count.subtract(all_pairs[step * batch : step * batch + batch])
        gone = {pair for pair, number in count.items() if number == 0}
        leaving = pairs_of(slide.leaving, directed)
        assert len(leaving) == len(set(leaving))
        assert set(leaving) == gone
        entering = pairs_of(slide.entering, directed)
        rows = slice(length + step * batch, length + (step + 1) * batch)
        assert entering == all_pairs[rows]
        for pair in gone:
            del graph[pair]
        graph.update(zip(entering, events.weight[rows].tolist(), strict=True))
        keys, weights = stream.expected(slide)
        assert unpack(keys) == sorted(graph)
        assert (slide.low, slide.high) == ((step + 1) * batch, length + (step + 1) * batch)
        if weighted:
            assert weights is not None
            assert weights.tolist() == [graph[pair] for pair in sorted(graph)]
        else:
            assert weights is None
            assert slide.entering.weight is None


@given(streams(), st.data())
def test_explicit_changes_follow_a_naive_dictionary(
    case: tuple[EventTable, float, int, int, bool, bool], data: st.DataObject
) -> None:
    events, window, batch, num_slides, directed, _ = case
    codes = st.sampled_from([OP_INSERT, OP_DELETE, OP_REWEIGHT])
    op = np.array(data.draw(st.lists(codes, min_size=len(events), max_size=len(events))), np.uint8)
    assert events.weight is not None
    weight = np.where(op == OP_DELETE, np.nan, events.weight)
    stream = cut_stream(
        EventTable(events.src, events.dst, weight=weight, op=op), window, batch, num_slides, directed, weighted=True
    )
    assert stream.replayed
    pairs = pairs_of(Edges(events.src, events.dst), directed)

    def replayed(high: int) -> dict[Pair, float]:
        graph = {}
        for pair, code, value in zip(pairs[:high], op[:high].tolist(), weight[:high].tolist(), strict=True):
            if code == OP_DELETE:
                graph.pop(pair, None)
            else:
                graph[pair] = value
        return graph

    graph: dict[Pair, float] = {}
    for slide in (stream.first, *stream.slides):
        for pair in pairs_of(slide.leaving, directed):
            graph.pop(pair, None)
        assert slide.entering.weight is not None
        graph.update(zip(pairs_of(slide.entering, directed), slide.entering.weight.tolist(), strict=True))
        assert graph == replayed(slide.high)
        keys, weights = stream.expected(slide)
        assert weights is not None
        assert dict(zip(unpack(keys), weights.tolist(), strict=True)) == graph


@given(st.lists(st.integers(0, 20)))
def test_sorted_unique(keys: list[int]) -> None:
    assert sorted_unique(np.array(keys, np.int64)).tolist() == sorted(set(keys))


def test_keys_order_as_pairs_do_and_hold_the_largest_ids() -> None:
    largest = 2**31 - 2
    src, dst = np.array([0, 0, largest], np.int32), np.array([1, largest, 0], np.int32)
    assert unpack(edge_keys(src, dst, directed=True)) == [(0, 1), (0, largest), (largest, 0)]
    assert unpack(edge_keys(src, dst, directed=False)) == [(0, 1), (0, largest), (0, largest)]


@pytest.mark.parametrize(
    ("text", "events"),
    [("1%", 5066), ("0.1%", 507), ("100%", 506_550), ("0.00001%", 1), ("500", 500), (" 7 ", 7), (3, 3)],
)
def test_batches_are_counts_or_shares_of_the_whole_dataset(text: str | int, events: int) -> None:
    assert parse_batch(text, 506_550) == events


@pytest.mark.parametrize("text", ["", "%", "0", "-1", "0%", "101%", "1.5", "nan%", "inf%", "many", 0])
def test_other_batches_are_refused(text: str | int) -> None:
    with pytest.raises(InputError, match="wanted a count such as 500, or a share of all events such as 1%"):
        parse_batch(text, 1000)


@pytest.mark.parametrize(
    ("window", "batch", "slides", "message"),
    [
        (0.0, 1, 1, "--window is 0; wanted a share"),
        (1.0, 1, 1, "--window is 1; wanted a share"),
        (float("nan"), 1, 1, "--window is nan; wanted a share"),
        (0.01, 1, 1, "has no event"),
        (0.5, 6, 1, "--batch has 6 events, the window 5"),
        (0.5, 1, 0, "--steps is 0; wanted at least 1"),
        (
            0.5,
            2,
            3,
            "2 steps and one to warm up need 6 events behind a window of 5; the stream has 10 events, enough for 1",
        ),
    ],
)
def test_cuts_that_do_not_fit_are_refused(window: float, batch: int, slides: int, message: str) -> None:
    events = EventTable(np.arange(10), np.arange(10))
    with pytest.raises(InputError) as caught:
        cut_stream(events, window, batch, slides)
    assert message in str(caught.value)


def test_raw_rows_are_views() -> None:
    stream: SlidingStream = cut_stream(EventTable(np.arange(10), np.arange(10)), 0.5, 1, 2)
    assert np.shares_memory(stream.rows(0, 5).src, stream.rows(2, 7).src)
