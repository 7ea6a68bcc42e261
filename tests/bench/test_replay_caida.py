"""A real stream with real deletions: CAIDA's AS relationships, 122 dated snapshots as changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynstore.backend import get_backend
from dynstore.bench.contestants import DeviceSlide, StoreRun
from dynstore.bench.stream import cut_stream
from dynstore.bench.suite_parts import WindowJob
from dynstore.bench.window_suite import run_window
from dynstore.io import OP_DELETE, OP_INSERT, OP_REWEIGHT, EventTable, read_events
from dynstore.stores import STORES
from tests.shared_data import shared_data

EDGES = 105_722
LABELS = {-1: 48_994, 1: 48_994, 0: 7_276, 2: 458}


@pytest.fixture(scope="module")
def events() -> EventTable:
    return read_events(shared_data("as-caida.events.tsv.xz"), time=0, op=1, source=2, destination=3, weight=4)


def test_the_file_has_its_counts(events: EventTable) -> None:
    assert events.op is not None
    counts = np.bincount(events.op)
    assert (counts[OP_INSERT], counts[OP_DELETE], counts[OP_REWEIGHT]) == (628_010, 522_288, 86_006)
    assert np.unique(np.concatenate((events.src, events.dst))).shape[0] == 31_379
    assert events.num_vertices == 65_536


@pytest.mark.parametrize("store", sorted(STORES))
@pytest.mark.parametrize("batch", [pytest.param(1_000, marks=pytest.mark.thorough), 100_000])
def test_replayed_to_the_end_it_leaves_the_published_edges(events: EventTable, store: str, batch: int) -> None:
    first = 36_304 + 200_000
    stream = cut_stream(events, first / len(events), batch, (len(events) - first) // batch, weighted=True)
    backend = get_backend("cpu")
    run = StoreRun(store, backend, directed=True, weighted=True, options={})
    for slide in (stream.first, *stream.slides):
        run.update(DeviceSlide(backend, slide))
    assert stream.slides[-1].high == len(events)
    table = run.graph.edge_table()
    assert run.graph.number_of_edges() == len(table) == EDGES
    assert table["weight"].value_counts().to_dict() == LABELS
    keys, weights = stream.expected(stream.slides[-1])
    held, held_weights = run.edges()
    assert np.array_equal(held, keys)
    assert np.array_equal(held_weights, weights)


def test_the_engine_replays_it(events: EventTable) -> None:
    columns = ("src", "dst", "time", "weight", "op")
    short = replace(events, **{name: getattr(events, name)[:100_000] for name in columns})
    job = WindowJob(stores=("gpma+", "merge"), algorithms=("bfs",), batch=1000, steps=5, device="cpu", weighted=True)
    result = run_window(short, job)
    assert result.disagreement is None
    assert result.replayed
