"""Keys that are shifted into leaves on CUDA, against the rule written down for one key at a time."""

import numpy as np

from dynstore import DynamicGraph
from dynstore.testing.invariants import check_graph, host_arrays
from tests.crossed import crossed

LEAF = 32


def slots_of(graph):
    """Return sources, destinations, weights (0 for none) and bits of a graph's slots, as lists of (row, column), ..."""
    arrays = host_arrays(graph.snapshot())
    rows = np.searchsorted(arrays["offsets"], np.arange(arrays["mask"].size), side="right") - 1
    weights = np.zeros(rows.size) if arrays["weights"] is None else arrays["weights"]
    return list(zip(rows.tolist(), arrays["indices"].tolist(), strict=True)), weights.tolist(), arrays["mask"].tolist()


def shift_in(keys, weights, valid, begin, place, key, weight):
    """Put a key before a slot of the leaf that begins at ``begin``: up to the nearest gap, of two the one before."""
    gaps = [slot for slot in range(begin, begin + LEAF) if not valid[slot]]
    gap = min(gaps, key=lambda slot: (slot - place if slot >= place else place - 1 - slot, slot >= place))
    target = place if gap >= place else place - 1
    for column, value in ((keys, key), (weights, weight)):
        del column[gap]
        column.insert(target, value)
    valid[gap] = True


def insert_by_rule(slots, batch):
    """Insert new keys, (row, column, weight) ascending; return the leaves concerned and how many elements moved."""
    keys, weights, valid = slots
    leaves, moved = [], 0
    for row, column, _ in batch:
        place = next((slot for slot, key in enumerate(keys) if key >= (row, column)), len(keys))
        leaves.append(max(place - 1, 0) // LEAF)
    for (row, column, weight), leaf in zip(batch, leaves, strict=True):
        begin = leaf * LEAF
        place = next((slot for slot in range(begin, begin + LEAF) if keys[slot] >= (row, column)), begin + LEAF)
        before = list(keys)
        shift_in(keys, weights, valid, begin, place, (row, column), weight)
        moved += sum(old != new for old, new in zip(before, keys, strict=True)) - 1
    return leaves, moved


@crossed(degree=[3, 60], vertex_dtype=["int32", "int64"], weighted=[False, True])
def test_elements_move_up_to_the_nearest_gap(device, degree, vertex_dtype, weighted):
    """In leaves of many rows and of one, after deletions that leave gaps anywhere, again and again."""
    rng, vertices = np.random.default_rng(degree), 1200 // degree
    rows, columns = np.repeat(np.arange(vertices), degree), np.tile(np.arange(degree) * 9, vertices)
    options = {"vertex_dtype": vertex_dtype, "weighted": weighted, "merge_cost": 0.0, "root_lower": 0.1}
    weights = [rng.random(rows.size, dtype=np.float32)] * weighted
    graph = DynamicGraph.from_edges((rows, columns, *weights), device=device, leaf_lower=0.0, **options)
    graph.insert_vertices(vertices + 40)  # the rows behind start behind all slots
    most_moved = 0
    for _ in range(6):
        there = np.array([key for key, ok in zip(*slots_of(graph)[::2], strict=True) if ok])
        gone = there[rng.random(len(there)) < 0.15]
        graph.delete_edges((gone[:, 0], gone[:, 1]))
        keys, values, valid = slots_of(graph)
        drawn = np.c_[rng.integers(0, vertices, 120), rng.integers(0, 9 * degree, 120)]
        new = sorted({(int(row), int(column)) for row, column in drawn} - set(keys))  # dead keys are revived: none here
        batch = [(row, column, float(np.float32(rng.random()))) for row, column in new]
        leaves, moved = insert_by_rule((keys, values, valid), batch)
        counts = np.add.reduceat(np.array(valid), np.arange(0, len(valid), LEAF))
        assert counts.max() <= LEAF
        most_moved = max(most_moved, max(np.bincount(leaves)))
        order = rng.permutation(len(batch))
        columns_of = [np.array(column)[order] for column in zip(*batch, strict=True)]
        graph.insert_edges((columns_of[0], columns_of[1], *([columns_of[2].astype(np.float32)] * weighted)))
        found_keys, found_values, found_valid = slots_of(graph)
        assert found_valid == valid
        assert found_keys == keys
        assert not weighted or [v for v, ok in zip(found_values, valid, strict=True) if ok] == [
            v for v, ok in zip(values, valid, strict=True) if ok
        ]
        assert moved > 0
        check_graph(graph)
    assert most_moved > 3  # keys of one leaf
