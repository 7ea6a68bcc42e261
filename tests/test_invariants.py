"""The invariant checker sees every kind of damage; a sound array passes, with and without gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynstore.backend import get_backend
from dynstore.bits import pack_bits
from dynstore.graph import DynamicGraph
from dynstore.snapshot import GapCSR
from dynstore.testing.arrays import gapped_csr, random_edges
from dynstore.testing.invariants import check_against_model, check_csr, check_graph, check_report, live_edges
from dynstore.testing.model import ModelGraph
from dynstore.typing import UpdateReport

CPU = get_backend("cpu")
# Row 0: edge 1, a gap, edge 4, a gap. Row 1: the dead key (1, 0), edge 2. Row 2: empty. Row 3: edge 3, then gaps.
SRC = np.array([0, 0, 0, 0, 1, 1, 3] + [3] * 25, dtype=np.int32)
DST = np.array([1, 1, 4, 4, 0, 2, 3] + [3] * 25, dtype=np.int32)
MASK = np.array([1, 0, 1, 0, 0, 1, 1] + [0] * 25, dtype=bool)
OFFSETS = np.array([0, 4, 6, 6, 32, 32], dtype=np.int32)
WEIGHTS = np.arange(32, dtype=np.float32)


def csr(**changed: Any) -> GapCSR:
    """Make the sound array above, with changes."""
    parts: dict[str, Any] = {
        "offsets": OFFSETS.copy(),
        "sources": SRC.copy(),
        "indices": DST.copy(),
        "valid": pack_bits(CPU, MASK),
        "weights": WEIGHTS.copy(),
        "num_edges": 4,
    }
    for name, value in changed.items():
        parts[name] = value(parts[name]) if callable(value) else value
    return GapCSR(CPU, **parts)


def put(*changes: tuple[int, Any]) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        for place, value in changes:
            array[place] = value
        return array

    return change


def flip(*slots: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(words: np.ndarray) -> np.ndarray:
        for slot in slots:
            words[slot >> 5] ^= np.uint32(1 << (slot & 31))
        return words

    return change


def test_a_sound_array_passes() -> None:
    check_csr(csr())
    check_csr(csr(weights=None))
    assert live_edges(csr()) == {(0, 1): 0.0, (0, 4): 2.0, (1, 2): 5.0, (3, 3): 6.0}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("density", [1.0, 0.5])
@pytest.mark.parametrize("num_edges", [0, 1, 33, 400])
def test_arrays_made_for_kernels_are_sound(directed: bool, density: float, num_edges: int) -> None:
    src, dst = random_edges(np.random.default_rng(1), 30, num_edges)
    made = gapped_csr(src, dst, src / 2, num_vertices=30, directed=directed, density=density)
    check_csr(made, gapped=density < 1, symmetric=not directed)
    check_csr(made.compact(), gapped=False, symmetric=not directed)
    assert live_edges(made) == live_edges(made.compact())


DAMAGE = {
    "sources-fall": ({"sources": put((5, 0))}, "below the one before"),
    "destinations-fall-in-a-row": ({"indices": put((2, 0))}, "below the one before"),
    "a-gap-out-of-order": ({"indices": put((1, 0))}, "below the one before"),
    "second-slot-of-a-run-valid": ({"valid": flip(1), "num_edges": 5}, "not the first of its key"),
    "moved-bit-within-a-run": ({"valid": flip(0, 1)}, "not the first of its key"),
    "edge-stored-twice": ({"indices": put((5, 0)), "valid": flip(4), "num_edges": 5}, "not the first of its key"),
    "offset-too-high": ({"offsets": put((1, 5))}, r"offsets\[\[1\]\]"),
    "offset-of-an-empty-row": ({"offsets": put((2, 7))}, r"offsets\[\[2\]\]"),
    "first-offset": ({"offsets": put((0, 1))}, r"offsets\[\[0\]\]"),
    "last-offset-is-not-S": ({"offsets": put((5, 7))}, r"offsets\[\[5\]\]"),
    "num-edges": ({"num_edges": 5}, "num_edges is 5, 4 valid bits"),
    "bit-past-the-slots": ({"valid": put((1, 1))}, "bit 32 past the 32 slots"),
    "slots-not-in-segments": (
        {name: (lambda array: array[:31]) for name in ("sources", "indices", "weights")}
        | {"offsets": put((4, 31), (5, 31))},
        "not whole segments",
    ),
    "words-not-in-lines": ({"valid": lambda words: words[:3].copy()}, "64-byte lines"),
    "too-few-words": ({"valid": lambda words: words[:0].copy()}, "0 words of valid bits"),
    "word-dtype": ({"valid": lambda words: words.view(np.int32)}, "valid has dtype int32"),
    "id-past-V": ({"indices": put((31, 5))}, "no id below 5"),
    "source-past-V": ({"sources": put((31, 9))}, "no id below 5"),
    "negative-id": ({"indices": put((0, -1))}, "no id below 5"),
    "mixed-dtypes": ({"offsets": lambda array: array.astype(np.int64)}, "offsets have dtype int64"),
    "id-dtype": ({n: (lambda a: a.astype(np.int16)) for n in ("offsets", "sources", "indices")}, "dtype int16"),
    "sources-of-another-length": ({"sources": lambda array: array[:20]}, "sources have shape"),
    "weights-of-another-length": ({"weights": lambda array: array[:20]}, "weights have shape"),
    "weight-dtype": ({"weights": lambda array: array.astype(np.float16)}, "weights have dtype float16"),
    "weight-is-nan": ({"weights": put((2, np.nan))}, r"valid slot \[2\] is NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_every_damage_is_seen(name: str) -> None:
    changes, message = DAMAGE[name]
    with pytest.raises(AssertionError, match=message):
        check_csr(csr(**changes))


def test_shapes_that_the_object_itself_states_are_checked() -> None:
    for attribute, message in (("num_slots", "num_slots is 31"), ("num_vertices", "offsets have shape")):
        damaged = csr()
        setattr(damaged, attribute, getattr(damaged, attribute) - 1)
        with pytest.raises(AssertionError, match=message):
            check_csr(damaged)


def test_a_gap_of_a_packed_array_is_seen() -> None:
    with pytest.raises(AssertionError, match="packed array has 28 gaps"):
        check_csr(csr(), gapped=False)


def test_a_graph_without_vertices_has_no_edges() -> None:
    nothing = np.zeros(32, dtype=np.int32)
    parts = {"offsets": np.array([32], np.int32), "sources": nothing, "indices": nothing, "weights": None}
    check_csr(csr(**parts, valid=pack_bits(CPU, nothing > 0), num_edges=0))
    with pytest.raises(AssertionError, match="without vertices"):
        check_csr(csr(**parts, valid=put((0, 1))(pack_bits(CPU, nothing > 0)), num_edges=1))


def test_missing_and_unequal_mirrors_are_seen() -> None:
    def pairs(weights: list[float], mask: list[bool]) -> GapCSR:
        return csr(
            offsets=np.array([0, 1, 2], np.int32),
            sources=np.array([0, 1], np.int32),
            indices=np.array([1, 0], np.int32),
            valid=pack_bits(CPU, np.array(mask)),
            weights=np.array(weights, np.float32),
            num_edges=sum(mask),
        )

    check_csr(pairs([2, 2], [True, True]), gapped=False, symmetric=True)
    with pytest.raises(AssertionError, match="its mirror 3"):
        check_csr(pairs([2, 3], [True, True]), gapped=False, symmetric=True)
    damaged = csr()
    with pytest.raises(AssertionError, match="no mirror"):
        check_csr(damaged, symmetric=True)


@pytest.fixture
def both() -> tuple[DynamicGraph, ModelGraph]:
    graph, model = DynamicGraph(weighted=True, store="rebuild", device="cpu"), ModelGraph(weighted=True)
    for each in (graph, model):
        each.insert_edges(([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0]))
    check_against_model(graph, model, transposed=True)
    return graph, model


def test_counts_that_disagree_with_the_arrays_are_seen(both: tuple[DynamicGraph, ModelGraph]) -> None:
    graph, _ = both
    graph.core.num_edges += 1
    with pytest.raises(AssertionError, match=r"number_of_edges\(\) is 4, the snapshot holds 3"):
        check_graph(graph)


def test_in_edges_that_disagree_are_seen(both: tuple[DynamicGraph, ModelGraph]) -> None:
    graph, _ = both
    graph.snapshot(transposed=True).weights[1] = 9.0
    with pytest.raises(AssertionError, match="transposed snapshot holds other edges"):
        check_graph(graph, transposed=True)


def test_every_difference_from_the_model_is_seen(both: tuple[DynamicGraph, ModelGraph]) -> None:
    graph, model = both
    for change, message in (
        (lambda m: m.edges.update({(0, 1): 1.5}), "weights differ"),
        (lambda m: m.edges.pop((1, 2)), r"edges too many \[\(1, 2\)\]"),
        (lambda m: m.edges.update({(2, 2): 1.0}), r"missing \[\(2, 2\)\]"),
        (lambda m: m.insert_vertices([7]), "version 1, the model has 2"),
        (lambda m: setattr(m, "num_vertices", 8), "3 vertices, the model has 8"),
    ):
        damaged = model.copy()
        change(damaged)
        with pytest.raises(AssertionError, match=message):
            check_against_model(graph, damaged)


def test_reports_that_explain_too_little_are_seen() -> None:
    check_report(5, UpdateReport(inserted=3, deleted=1, replaced=9), 7)
    with pytest.raises(AssertionError, match="there are 8"):
        check_report(5, UpdateReport(inserted=3, deleted=1), 8)
