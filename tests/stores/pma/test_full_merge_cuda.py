"""Merges of packed memory arrays into fresh slots on CUDA: slot for slot what the host writes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.errors import LimitError
from dynstore.stores.base import MAX_SPREAD
from dynstore.stores.gpma_plus.cpu import update
from dynstore.stores.gpma_plus.store import GPMAPlusStore
from dynstore.testing.faults import for_every_allocation, for_every_kernel
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import Pair, same_arrays
from tests.crossed import in_turn
from tests.stores.planned import plan_updates
from tests.stores.tuned import BY_ROWS

# Options, and how many slots an element has: about one, one or two, two to four, and more than a thread writes.
DENSITIES = {
    "dense": {"build_density": 0.98, "root_upper": 0.99, "leaf_upper": 1.0},
    "usual": {},
    "thin": {"build_density": 0.3, "root_lower": 0.1, "leaf_lower": 0.05},
    "thinner": {"build_density": 0.06, "root_lower": 0.05, "leaf_lower": 0.05},
}
DIRECT = ["k_list_new", "k_merge_all", "k_write_bits_and_rows"]
# What lists the keys where they have been sorted leaf by leaf.
IN_LISTS = "k_order_lists"


@pytest.fixture
def fresh_slots(monkeypatch):
    """On the host, too, a merge of everything goes to fresh slots, and each leaf that gets a key counts."""
    plan = update.plan_insert

    def plan_insert(*batch):
        located, windows = plan(*batch)
        if windows is not None:
            windows = replace(windows, num_leaves=windows.num_leaves + (windows.num_pending > 0))
        return located, windows

    monkeypatch.setattr(GPMAPlusStore, "_widen", lambda store, windows: None)
    monkeypatch.setattr(update, "plan_insert", plan_insert)


@in_turn(density=list(DENSITIES), weighted=[False, True])
@pytest.mark.usefixtures("fresh_slots")
def test_slots_are_those_of_the_host(device, launches, density, weighted):
    """Leaves without keys, with one, and with many; dead keys, edges that are there, keys behind all; deletions."""
    graphs = [
        DynamicGraph(device=name, weighted=weighted, merge_cost=1e9, **DENSITIES[density]) for name in (device, "cpu")
    ]
    rng = np.random.default_rng(5)
    keys = rng.choice(2500, 700, replace=False)
    hub = 50 * 20 + rng.permutation(50)
    batches = (
        ("insert", keys), ("delete", keys[:60]), ("insert", np.r_[keys[40:80], 3]), ("insert", hub),
        ("insert", 2500 + np.arange(40)), ("delete", np.r_[hub[:30], keys[100:400]]),
    )  # fmt: skip
    started = []
    for step, (method, batch) in enumerate(batches):
        columns = (batch // 50).astype(np.int32), (batch % 50).astype(np.int32)
        weights = (rng.random(batch.size).astype(np.float32),) if weighted and method == "insert" else ()
        options = {"on_duplicate": "add"} if weighted and step == 2 else {}
        launches.clear()
        reports = [getattr(graph, f"{method}_edges")((*columns, *weights), **options) for graph in graphs]
        started.append([name for name in launches if name in (*DIRECT, IN_LISTS)])
        assert reports[0] == reports[1]
        assert same_arrays(*(host_arrays(graph.snapshot()) for graph in graphs))
        check_graph(graphs[0])
    listing, *wanted = DIRECT
    lists = {names[-1 - len(wanted)] for names in started if names[-len(wanted) :] == wanted}
    assert lists == ({listing} if weighted else {listing, IN_LISTS})


@in_turn(seed=range(4), kernels=["one", "several", "planned"])
@pytest.mark.usefixtures("fresh_slots")
def test_keys_come_in_order_from_the_lists_of_leaves(device, launches, seed, kernels):
    """Edges that come back, some of them neighbours or at the edges of leaves, and new ones between them."""
    rng = np.random.default_rng(seed)
    thin = {"leaf_lower": 0.02, "root_lower": 0.02}  # nothing is packed
    options = {"merge_cost": 1e9, "build_density": (0.5, 0.65, 0.8, 0.98)[seed], "root_upper": 0.99, **thin}
    options["tuning"] = BY_ROWS if kernels == "several" else {}
    graphs = [plan_updates(DynamicGraph(device=name, **options), kernels == "planned") for name in (device, "cpu")]
    keys = np.sort(rng.choice(6000, 1500, replace=False))
    gone = keys[rng.random(keys.size) < 0.3]
    near = rng.choice(gone, 60)
    back = np.r_[rng.choice(gone, 120), near, near + 1, near - 1, rng.choice(6000, 50), keys[:20], 6000 + near[:10]]
    for method, batch in (("insert", keys), ("delete", gone), ("insert", rng.permutation(back))):
        launches.clear()
        columns = (batch // 80).astype(np.int32), (batch % 80).astype(np.int32)
        reports = [getattr(graph, f"{method}_edges")(columns) for graph in graphs]
        assert reports[0] == reports[1]
        assert same_arrays(*(host_arrays(graph.snapshot()) for graph in graphs))
    check_graph(graphs[0])
    assert launches[-3:] == [IN_LISTS, *DIRECT[1:]]


@pytest.mark.parametrize(("directed", "dtype"), [(True, np.int32), (False, np.int64)])
@pytest.mark.usefixtures("fresh_slots")
def test_in_edges_grow_with_their_out_edges(device, directed, dtype):
    """Both are to be merged, from a batch that is not checked yet, in which some edges stand twice."""
    graphs = [DynamicGraph(device=name, directed=directed, vertex_dtype=dtype) for name in (device, "cpu")]
    src, dst = np.divmod(7 * np.arange(900, dtype=dtype), 90)
    for first, end in ((0, 600), (600, 606), (606, 900)):
        batch = np.r_[src[first:end], src[first : first + 2]], np.r_[dst[first:end], dst[first : first + 2]]
        for graph in graphs:
            graph.snapshot(transposed=True)
            grown = graph.insert_edges(batch).grown
        check_graph(graphs[0])
    assert grown
    for transposed in (False, True):
        assert same_arrays(*(host_arrays(graph.snapshot(transposed=transposed)) for graph in graphs))


@pytest.mark.parametrize("hub", [False, True])
def test_a_growth_that_fails_leaves_the_graph_as_it_was(device, monkeypatch, hub):
    """Whichever allocation fails, or kernel that is to be loaded; also where a leaf gets too many keys."""
    src, dst = np.divmod(2 * np.arange(120, dtype=np.int32), 40)
    hubs = np.zeros(38 * hub, np.int32), np.arange(38 * hub, dtype=np.int32)
    batch = np.r_[src, hubs[0]], np.r_[dst + np.int32(1), hubs[1]]
    for check in (for_every_allocation, for_every_kernel):
        pair = Pair(device=device, transposed=True)
        pair.insert(src, dst)
        before = pair.graph.core.out.slots.num_slots
        assert check(monkeypatch, pair, "insert_edges", batch) > 0
        assert pair.graph.core.out.slots.num_slots > before


def test_slots_of_an_element_are_exact_beyond_what_a_float_holds(device):
    """The base of a leaf by whole numbers, the rest in float64: as by whole numbers alone."""
    from dynstore.cuda.compiler import cuda, kernel
    from dynstore.stores.pma.cuda.full_merge import d_find_slots, d_start_slots

    @kernel
    def k_find(num_elements, num_slots, ranks, found):
        i = cuda.grid(1)
        if i < ranks.shape[0]:
            inverse = np.float64(1) / np.float64(num_elements)
            found[0, i], found[1, i] = d_find_slots(ranks[i], num_elements, num_slots, inverse)
            slot, rest = d_start_slots(ranks[i] - (i & 31), num_elements, num_slots, inverse)
            found[2, i] = slot + np.int32((rest + np.float64(i & 31) * np.float64(num_slots)) * inverse)

    backend, most = get_backend(device), MAX_SPREAD // 32 * 32
    sizes = (2**31 - 33, 2**31 - 32), (2**30, 2**31), (2**28 + 1, 2**31 - 32), (32, 32), (most - 1, most)
    for num_elements, num_slots in sizes:
        ranks = np.unique(np.r_[31:64, num_elements // 2 + np.arange(32), num_elements - 1 - np.arange(32)])
        ranks = ranks[(ranks >= 31) & (ranks < num_elements)]
        found = backend.zeros((3, ranks.size), np.int64)
        k_find.launch(ranks.size, num_elements, num_slots, backend.asarray(ranks), found)
        first, end, again = backend.to_host(found).tolist()
        wanted = [int(rank) * num_slots // num_elements for rank in ranks]
        assert first == again == wanted
        assert end == [(int(rank) + 1) * num_slots // num_elements for rank in ranks]


def test_slots_beyond_what_products_of_ranks_hold_are_refused(device):
    assert MAX_SPREAD**2 < 2**63 <= (MAX_SPREAD + 1) ** 2
    bounded = [("gpma+", device), ("lpma", device), ("gpma", device), ("gpma", "cpu"), ("pma", "cpu")]
    free = [("gpma+", "cpu"), ("lpma", "cpu"), ("merge", device)]  # they count from slot to slot, or spread nothing
    for store, name in bounded + free:
        sizing = DynamicGraph(device=name, store=store, vertex_dtype="int64").core.out
        sizing._check_num_slots(MAX_SPREAD)
        if (store, name) in free:
            sizing._check_num_slots(MAX_SPREAD + 1)
        else:
            message = f"store '{store}': 3037000500 slots are needed, on '{name}' there can be 3037000499"
            with pytest.raises(LimitError, match=re.escape(message)):
                sizing._check_num_slots(MAX_SPREAD + 1)
