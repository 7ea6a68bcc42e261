"""Cases of graphs of events that random calls reach seldom, each as small as it can be."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import StaleSnapshotError
from dynstore.graph.events.core import MultiCore
from dynstore.graph.events.layout import BLOCK
from dynstore.typing import UpdateReport
from tests.graph.events.driver import DEVICES, same, shown

LEAST, GREATEST = -(2**63), 2**63 - 1
every_device = pytest.mark.parametrize("device", DEVICES)


def make(device: str, **options: Any) -> DynamicGraph:
    """Make an empty graph of events."""
    return DynamicGraph(multigraph=True, device=device, **options)


def ids_of(G: Any) -> list[int]:
    """Return the ids of all events, in the order of the table."""
    return [row[-1] for row in shown(G.edge_table(), True)]


def weights_of(G: Any) -> list[float]:
    """Return the weights of a graph of pairs."""
    return [row[-1] for row in shown(G.edge_table(), True)]


@every_device
def test_a_pair_comes_back_while_pinned(device: str) -> None:
    """A pair that has lost all events, and that a pin shows, is one like others."""
    G = make(device)
    G.insert_edges([(0, 1), (0, 1)])
    pin = G.pin()
    G.delete_edges([(0, 1)])
    same(G.delete_edges([(0, 1)]), UpdateReport(absent=1))
    same(G.delete_edges([(0, 1)], which="oldest"), UpdateReport(absent=1))
    G.insert_edges([(0, 1), (2, 3)])
    assert (G.neighbors(0).tolist(), ids_of(G)) == ([1], [2, 3])
    assert ids_of(pin) == [row[-1] for row in shown(pin.events(0, 1), True)] == [0, 1]
    pin.release()
    G.insert_edges([(4, 5), (0, 1)])
    assert (G.neighbors(0).tolist(), ids_of(G)) == ([1], [2, 5, 3, 4])
    assert weights_of(G.simple("count")) == [2, 1, 1]


@every_device
def test_a_view_of_a_pin_is_asked_for_new_pairs(device: str) -> None:
    """Pairs that came after a pin are none of its, also in views of it."""
    G = make(device, timestamps="int64")
    G.insert_vertices([99])
    G.insert_edges((np.arange(30), np.arange(30) + 1, np.arange(30)))
    pin = G.pin()
    view, some = pin.window(0, 100), pin.where(edge_id=[3, 4])
    for first in range(0, 90, 9):
        G.insert_edges((np.arange(9) + first, np.arange(9) + first, np.arange(9)))
    for shows in (pin, view, some):
        assert [len(shows.events(*pair)) for pair in ((3, 4), (60, 60), (4, 4))] == [1, 0, 0]


@every_device
def test_what_reads_no_weights_of_a_window_adds_none_up(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Components do without the sums of a window's pairs; what reads them gets them, also once they were left out."""
    G = make(device, weighted=True, timestamps="int64")
    G.insert_edges(([0, 1, 0, 3], [1, 2, 1, 4], [1.0, 2.0, 4.0, 8.0], [5, 6, 7, 50]))
    made: list[str] = []
    aggregated = MultiCore.aggregated

    def watched(core: MultiCore, name: str) -> Any:
        made.append(name)
        return aggregated(core, name)

    monkeypatch.setattr(MultiCore, "aggregated", watched)
    window = G.window(0, 10)
    assert dynstore.weakly_connected_components(window)["labels"].nunique() == 3
    S = window.simple("sum")
    assert dynstore.bfs(S, 0)["distance"].to_numpy()[:3].tolist() == [0, 1, 2]
    assert made == []
    assert weights_of(S) == [5.0, 2.0]
    assert weights_of(S) == [5.0, 2.0]
    assert made == ["sum"]
    late = G.window(0, 10).simple("sum")
    G.insert_edges(([0], [1], [16.0], [8]))
    with pytest.raises(StaleSnapshotError):
        weights_of(late)


@every_device
def test_views_of_a_released_pin_cannot_be_read(device: str) -> None:
    """As those of other pins."""
    G = make(device, timestamps="int64")
    G.insert_edges(([0], [1], [5]))
    pin = G.pin()
    view, simple = pin.window(0, 9), pin.simple("count")
    assert (view.number_of_edges(), simple.number_of_edges()) == (1, 1)
    pin.release()
    for released in (pin, view, simple):
        with pytest.raises(StaleSnapshotError):
            released.edge_table()


@every_device
def test_an_id_comes_again_in_the_update_that_deletes_it(device: str) -> None:
    """A correction: the same id with another amount."""
    G = make(device, weighted=True, timestamps="int64")
    G.insert_edges(([0, 0], [1, 1], [5.0, 6.0], [1, 9]), edge_id=[7, 3])
    same(G.update(([0], [2], [8.0], [9]), edge_ids=[7], edge_id=[7]), UpdateReport(inserted=1, deleted=1))
    same(G.update(([0], [2], [9.0], [9]), [(0, 1)], edge_id=[3]), UpdateReport(inserted=1, deleted=1))
    assert shown(G.edge_table(), True) == [(0, 2, 8.0, 9, 7), (0, 2, 9.0, 9, 3)]
    same(G.update(([1], [1], [1.0], [20]), expire_before=10, edge_id=[7]), UpdateReport(inserted=1, expired=2))
    assert G.simple("sum").edge_weights([(1, 1)]).tolist() == [1.0]


@every_device
def test_ids_that_are_absent_count_once(device: str) -> None:
    """As pairs do: others repeat them."""
    G = make(device)
    G.insert_edges([(0, 1)])
    same(G.delete_edges(edge_ids=[99, 0, 99, 0, -1]), UpdateReport(deleted=1, absent=2, duplicates=2))
    same(G.delete_edges([(0, 1), (0, 1), (5, 6), (5, 6)]), UpdateReport(absent=2, duplicates=2))


@every_device
@pytest.mark.parametrize(
    ("times", "which", "wanted", "left"),
    [
        ([1, 2, 9], "all", UpdateReport(expired=2, deleted=1), []),
        ([1, 2, 9, 9], "oldest", UpdateReport(expired=2, deleted=1), [3]),
        ([1, 2, 3], "all", UpdateReport(expired=3, absent=1), []),
        ([1, 2, 3], "newest", UpdateReport(expired=3, absent=1), []),
    ],
)
def test_what_expires_is_not_deleted_again(
    times: list[int], which: str, wanted: UpdateReport, left: list[int], device: str
) -> None:
    """An update expires before it deletes."""
    G = make(device, timestamps="int64")
    G.insert_edges(([0] * len(times), [1] * len(times), times))
    same(G.update(delete=[(0, 1)], which=which, expire_before=5), wanted)
    assert ids_of(G) == left


@every_device
def test_what_comes_as_others_expire_is_of_its_time(device: str) -> None:
    """The bounds of times that are known of rows are those of new rows, too."""
    G = make(device, timestamps="int64")
    G.insert_edges(([0], [1], [1]))
    same(G.update(([0], [2], [9]), expire_before=5), UpdateReport(inserted=1, expired=1, first_id=1))
    assert ids_of(G.window(0, 20)) == ids_of(G.window(9, 10)) == ids_of(G.window(9)) == [1]
    same(G.expire(10), UpdateReport(expired=1))


@every_device
def test_late_rows_of_a_tuple(device: str) -> None:
    """Columns and times at the end of a tuple, or of rows, are no weights."""
    for options, row in (({}, ()), ({"weighted": True}, (2.5,)), ({"edge_columns": {"kind": "int8"}}, (3,))):
        for form in (list, lambda rows: tuple(map(list, zip(*rows, strict=True)))):
            G = make(device, timestamps="int64", **options)
            rows = form([(0, 1, *row, 9), (8, 9, *row, 1)])
            same(G.update(rows, expire_before=5), UpdateReport(inserted=1, late=1, first_id=0))
            assert shown(G.edge_table(), True) == [(0, 1, *row, 9, 0)]
            assert G.number_of_vertices() == 2


@every_device
def test_the_least_and_the_greatest_times(device: str) -> None:
    """Bounds at the ends of int64 do not overflow."""
    G = make(device, timestamps="int64")
    G.insert_edges(([0, 0, 0], [1, 1, 1], [LEAST, 0, GREATEST]))
    for bounds, ids in (
        ((None, None), [0, 1, 2]),
        ((LEAST, GREATEST), [0, 1]),
        ((GREATEST, None), [2]),
        ((None, LEAST), []),
        ((-math.inf, None), [0, 1, 2]),
        ((0, math.inf), [1, 2]),
        ((None, -math.inf), []),
    ):
        assert ids_of(G.window(*bounds)) == ids, bounds
        assert [row[-1] for row in shown(G.events(0, 1, *bounds), True)] == ids, bounds
    same(G.expire(LEAST), UpdateReport())
    same(G.expire(GREATEST), UpdateReport(expired=2))


@every_device
@pytest.mark.parametrize("view", ["graph", "window", "pin", "where"])
def test_sums_that_cancel(view: str, device: str, rng: np.random.Generator) -> None:
    """The sum of great weights of both signs is that of the small rest."""
    weights = np.concatenate((rng.normal(size=400) * 1e9, [0.1]))
    weights = rng.permutation(np.concatenate((weights, -weights[:-1])))
    G = make(device, weighted=True, timestamps="int64")
    count = len(weights)
    G.insert_edges((np.zeros(count, int), np.ones(count, int), weights, np.arange(count)))
    views: dict[str, Callable[[], Any]] = {
        "graph": lambda: G,
        "window": lambda: G.window(None, count),
        "pin": G.pin,
        "where": lambda: G.where(edge_id=np.arange(count)),
    }
    found = weights_of(views[view]().simple("sum"))
    assert found == pytest.approx([math.fsum(weights)], rel=count * 2**-52)


@every_device
@pytest.mark.parametrize("view", ["graph", "pin"])
def test_sums_of_whole_numbers_are_exact(view: str, device: str) -> None:
    """The nearest float64 of the sum of int64, which adding up floats does not give."""
    G = make(device, weighted=True, weight_dtype="int64")
    G.insert_edges(([0] * 4, [1] * 4, [2**60 + 1, 1, 1, -(2**60)]))
    assert weights_of((G if view == "graph" else G.pin()).simple("sum")) == [3.0]


@every_device
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int16", "int32"])
def test_sums_of_small_types_are_wide(dtype: str, device: str) -> None:
    """Amounts in the smallest type that holds each of them are added up in the type of the weights."""
    most = int(np.iinfo(dtype).max)
    rows = np.zeros(3, np.int32), np.ones(3, np.int32), np.full(3, most, dtype)
    for weight_dtype in ("float64", "int64"):
        G = make(device, weighted=True, weight_dtype=weight_dtype, timestamps="int64")
        G.insert_edges(rows, time=[1, 2, 3])
        assert weights_of(G.simple("sum")) == weights_of(G.window(1, 4).simple("sum")) == [3.0 * most]
        assert weights_of(G.window(2, 4).simple("sum")) == [2.0 * most]
    pairs = DynamicGraph(weighted=True, weight_dtype="float64", device=device)
    dynstore.Window(pairs, 10, keep="sum").slide(rows)
    assert weights_of(pairs) == [3.0 * most]
    pairs.insert_edges(rows, on_duplicate="add")
    assert weights_of(pairs) == [6.0 * most]


@every_device
@pytest.mark.filterwarnings("ignore:overflow encountered in scalar")  # of the simulator
def test_a_sum_that_was_too_large(device: str) -> None:
    """A sum beyond float64 is infinite, and is right again once great weights are gone."""
    G = make(device, weighted=True)
    G.insert_edges(([0, 0, 0], [1, 1, 1], [1e308, 1e308, 2.0]))
    S = G.simple("sum")
    assert weights_of(S) == [math.inf]
    G.delete_edges(edge_ids=[1])
    assert weights_of(S) == [1e308]
    G.delete_edges(edge_ids=[0])
    assert weights_of(S) == [2.0]


@every_device
def test_a_sum_whose_great_weights_leave(device: str) -> None:
    """Two floats do not hold three magnitudes; what is left of a sum is made anew."""
    G = make(device, weighted=True)
    G.insert_edges(([0, 0, 0], [1, 1, 1], [1.0, 1e20, 1e40]))
    S = G.simple("sum")
    G.delete_edges(edge_ids=[2])
    assert weights_of(S) == [1e20]
    G.delete_edges(edge_ids=[1])
    assert weights_of(S) == [1.0]


@every_device
@pytest.mark.parametrize("weight_dtype", ["float64", "int64"])
@pytest.mark.parametrize("directed", [True, False])
def test_pairs_with_few_and_with_many_rows_in_a_batch(
    directed: bool, weight_dtype: str, device: str, rng: np.random.Generator
) -> None:
    """From one row to more than a thread goes through alone, twice: sums, order, and rows that are named twice."""
    G = make(device, directed=directed, weighted=True, weight_dtype=weight_dtype)
    sizes = [1, 2, 31, 32, 33, 34, 63, 64, 65, 150]
    pair = np.concatenate([np.repeat(np.arange(len(sizes)), sizes)] * 2)
    half = len(pair) // 2
    pair[:half], pair[half:] = rng.permutation(pair[:half]), rng.permutation(pair[half:])
    weights: Any = rng.integers(-(2**40), 2**40, len(pair))
    weights = weights / 128 if weight_dtype == "float64" else weights
    ends = np.where(rng.random(len(pair)) < (0.0 if directed else 0.5), [pair + 20, pair], [pair, pair + 20])
    left = np.ones(len(pair), np.bool_)
    for batch in (slice(half), slice(half, None)):
        G.insert_edges((*ends[:, batch], weights[batch]))
    for _ in range(3):
        for number in range(len(sizes)):
            rows = np.nonzero(left & (pair == number))[0]
            assert [row[-1] for row in shown(G.events(number, number + 20), True)] == rows.tolist()
        counts, sums = (weights_of(G.simple(name)) for name in ("count", "sum"))
        there = sorted(set(pair[left].tolist()))
        assert counts == [np.count_nonzero(left & (pair == number)) for number in there]
        assert sums == [math.fsum(weights[left & (pair == number)]) for number in there]
        gone = rng.choice(np.nonzero(left)[0], 350)
        report = G.delete_edges(edge_ids=np.concatenate((gone, gone[:99])))
        assert report.deleted == len(set(gone.tolist())) == 449 - report.duplicates
        left[gone] = False


@every_device
def test_rows_that_are_used_again_are_in_order_of_arrival(device: str) -> None:
    """Of equal times, those that came first are the first, although their rows are the last ones."""
    G = make(device, weighted=True, timestamps="int64")
    for time, first, last in ((0, 0, BLOCK - 10), (1, BLOCK - 10, BLOCK + 10)):
        ids, pair = np.arange(first, last), np.ones(last - first, int)
        G.expire(time)
        G.insert_edges((0 * pair, pair, ids.astype(float), time * pair))
    assert G.core.events.log.capacity == BLOCK
    view = G.window(1, 2)
    assert ids_of(view) == ids.tolist()
    assert weights_of(view.simple("first")) == [BLOCK - 10]
    assert weights_of(view.simple("last")) == [BLOCK + 9]


@every_device
def test_values_of_where_may_be_numbers_of_numpy(device: str) -> None:
    """A number of NumPy is one value."""
    G = make(device, weighted=True, timestamps="int64", edge_columns={"kind": "int8"})
    G.insert_edges(([0, 0, 1], [1, 1, 2], [1.5, 2.5, 1.5], [3, 4, 3], [30, 20, 10]))
    for value in (3, np.int8(3), np.int64(3), [3], {3}, (3, 3), np.array([3, 99])):
        assert ids_of(G.where(kind=value)) == [0, 2], value
    assert ids_of(G.where(kind=3, weight=np.float64(1.5), time=[10, 20])) == [2]
    assert ids_of(G.where(kind=300)) == ids_of(G.where(kind=[])) == []
    assert ids_of(G.where(edge_id=np.int64(2))) == [2]
    assert shown(G.edges_by_id(np.int64(2)), True) == [(1, 2, 1.5, 3, 10, 2)]


@every_device
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("renumber", [False, True])
def test_copies_keep_ids(renumber: bool, directed: bool, device: str) -> None:
    """Copies of a graph, a view or a pin have the events with their ids, and go on by themselves."""
    G = make(device, directed=directed, renumber=renumber, weighted=True, timestamps="int64")
    u, v = ("a", "b") if renumber else (0, 1)
    G.insert_edges(([u, v, u], [v, u, v], [1.0, 2.0, 3.0], [3, 2, 1]), edge_id=[9, 5, 7])
    G.delete_edges(edge_ids=[9])
    copies: dict[str, Any] = {
        "copy": G.copy(),
        "pickle": pickle.loads(pickle.dumps(G)),
        "subgraph": G.subgraph([u, v]),
        "view": G.window(0, 9).copy(),
        "pin": G.pin().copy(),
        "where": G.where(edge_id=[5, 7]).subgraph([v, u]),
        "graph": DynamicGraph.from_edges(G, frames="pandas"),
    }
    for name, twin in copies.items():
        assert sorted(shown(twin.edge_table(), directed)) == sorted(shown(G.edge_table(), directed)), name
        first = twin.insert_edges(([u], [v], [1.0], [0])).first_id
        assert first is not None
        assert first > 7, name
        assert twin.number_of_edges() == 3
    assert sorted(ids_of(G)) == [5, 7]


@every_device
def test_a_table_of_a_graph_makes_an_equal_graph(device: str) -> None:
    """The table has the options of its graph, and the ids."""
    G = make(device, weighted=True, timestamps="int64")
    G.insert_edges(([0, 0], [1, 1], [1.0, 2.0], [3, 2]), edge_id=[9, 5])
    twin = DynamicGraph.from_edges(G.to_pandas(), device=device)
    assert twin.is_multigraph()
    assert shown(twin.edge_table(), True) == shown(G.edge_table(), True)


@every_device
@pytest.mark.parametrize("directed", [True, False])
def test_the_first_batch_under_ids_of_ones_own(directed: bool, device: str) -> None:
    """It is put into order of falling degree; events are those of the right vertices."""
    G = make(device, directed=directed, renumber=True)
    G.insert_edges((["a", "b", "c"], ["b", "c", "c"]))
    assert sorted(shown(G.edge_table(), directed)) == [("a", "b", 0), ("b", "c", 1), ("c", "c", 2)]
    assert shown(G.events("c", "c"), directed) == [("c", "c", 2)]
    assert shown(G.events_of("b"), directed)[-1] == ("b", "c", 1)


@every_device
def test_a_refused_insertion_leaves_the_deletions_of_its_update(device: str) -> None:
    """Nothing of an update stays where a row of it is wrong."""
    G = make(device, weighted=True, timestamps="int64")
    G.insert_edges(([0, 0, 1], [1, 1, 2], [1.0, 2.0, 3.0], [1, 2, 3]))
    S, pin, view = G.simple("sum"), G.pin(), G.window(0, 9)
    wrong = pd.DataFrame({"source": [0, 5], "destination": [1, 5], "weight": [1.0, math.inf], "time": [8, 8]})
    for leaving in ({"delete": [(0, 1)]}, {"edge_ids": [0, 2]}, {"expire_before": 3}):
        with pytest.raises(ValueError, match="update: `weight` is inf at row 1"):
            G.update(wrong, **leaving)
        assert ids_of(G) == ids_of(pin) == ids_of(view) == [0, 1, 2]
        assert weights_of(S) == [3.0, 3.0]
        assert G.version == 1
    assert G.insert_edges(([5], [5], [1.0], [4])).first_id == 3


@every_device
def test_undirected_self_loops_are_there_once(device: str) -> None:
    """An event is seen from both ends, a self-loop once."""
    G = make(device, directed=False)
    G.insert_edges([(1, 0), (0, 1), (2, 2)])
    assert shown(G.edge_table(), True) == [(0, 1, 0), (0, 1, 1), (2, 2, 2)]
    assert [G.out_degree(u) for u in range(3)] == [2, 2, 1]
    for direction in ("out", "in", "both"):
        assert shown(G.events_of(2, direction=direction), True) == [(2, 2, 2)]
        assert [row[-1] for row in shown(G.events_of(1, direction=direction), True)] == [0, 1]
    loop = make(device)
    loop.insert_edges([(2, 2), (2, 0)])
    assert [row[-1] for row in shown(loop.events_of(2, direction="both"), True)] == [0, 1]
    assert loop.degree(2) == 3


@every_device
def test_a_cleared_graph_counts_ids_on(device: str) -> None:
    """A pin, and a view of it, still show what was there."""
    G = make(device, timestamps="int64")
    G.insert_edges(([0, 1], [1, 0], [5, 6]))
    pin = G.pin()
    view = pin.window(5, 6)
    G.clear()
    assert (G.number_of_edges(), G.number_of_vertices()) == (0, 0)
    assert G.insert_edges(([0], [1], [1])).first_id == 2
    assert (ids_of(pin), ids_of(view), ids_of(G)) == ([0, 1], [0], [2])


@every_device
def test_edges_may_lie_in_host_memory(device: str) -> None:
    """The columns of the log lie where the pairs do."""
    G = make(device, memory="host", weighted=True, timestamps="int64")
    for first in range(0, 6000, 1500):
        rows = np.arange(1500) % 7
        G.insert_edges((rows, rows + 1, np.ones(1500), np.arange(1500) + first))
    twin, left = G.copy(), np.bincount(np.arange(2000, 6000) % 1500 % 7)
    for graph in (G, twin):
        assert graph.expire(2000).expired == 2000
        assert weights_of(graph.simple("sum")) == left.tolist()
        used = graph.memory_usage()
        assert device == "cpu" or used["host"] > used["log"] > 6000 * 33


def test_a_pin_that_is_dropped_ends_at_once() -> None:
    """Its rows are used again, without a collection of garbage."""
    G = make("cpu", timestamps="int64")
    G.insert_edges(([0, 1], [1, 2], [1, 2]))
    pin = G.pin()
    pin.edge_table()
    dynstore.bfs(pin, 0)
    pin.simple("count").edge_table()
    core: Any = G.core
    assert len(core.events.holders) == 1
    del pin
    assert len(core.events.holders) == 0


def test_a_pin_waits_for_the_update_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread reads it meanwhile: it does not see half of an update."""
    G = make("cpu", weighted=True)
    G.insert_edges(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0]))
    pin = G.pin()
    core: Any = G.core
    write, found = core.events.log.write, []
    reader = threading.Thread(target=lambda: found.append(ids_of(pin)))

    def read_meanwhile(*given: Any) -> None:
        reader.start()
        reader.join(0.2)
        assert not found
        write(*given)

    monkeypatch.setattr(core.events.log, "write", read_meanwhile)
    G.update(([5], [6], [1.0]), edge_ids=[0, 2])
    reader.join(10)
    assert found == [[0, 1, 2]]
    assert ids_of(G) == [1, 3]
