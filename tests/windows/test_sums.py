"""``keep="sum"``: the weight of a pair is the sum of the rows that it has in the window, whatever came and left."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph, Window
from dynstore.errors import InputError
from dynstore.testing.invariants import named_edges
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.windows.test_failures import state_of


def slide(window: Window, src: Any, dst: Any, weights: Any) -> None:
    """Slide by columns on the window's device."""
    bring = window.graph.core.backend.asarray
    dtype = window.graph.weight_dtype
    window.slide((bring(np.asarray(src)), bring(np.asarray(dst)), bring(np.asarray(weights, dtype))))


@crossed(device=DEVICES, directed=[True, False], spread=[0, 12], signed=[False, True])
def test_sums_do_not_drift(device: str, directed: bool, spread: int, signed: bool) -> None:
    """Amounts of very different sizes come and go; each sum is that of the rows that are left, to the last bit."""
    rng, rows, length, largest = np.random.default_rng(10), [], 40, 0.0
    G = DynamicGraph(directed, True, weight_dtype="float64", device=device)
    window = Window(G, length, keep="sum")
    for size in [7] * (60 if device == "cpu" else 12) + [90]:
        src, dst = rng.integers(0, 4, (2, size))
        weights = np.round(rng.lognormal(3, 1.5, size), 2) * 10.0 ** rng.integers(0, spread + 1, size)
        weights = weights * rng.choice([-1, 1], size) if signed else weights
        slide(window, src, dst, weights)
        largest = max(largest, float(np.abs(weights).max()))
        ends = zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True)
        rows += [((u, v) if directed else (min(u, v), max(u, v)), weight) for u, v, weight in ends]
        rows = rows[-length:]
        found = named_edges(G)
        for pair in {pair for pair, _ in rows}:
            amounts = [weight for other, weight in rows if other == pair]
            exact = math.fsum(amounts)
            assert found[pair] == pytest.approx(exact, rel=2**-52, abs=largest * 2**-95)


@crossed(device=DEVICES, dtype=["float32", "float64"])
def test_no_sum_of_amounts_falls_below_zero(device: str, dtype: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(100 if device == "cpu" else 5):
        amounts = np.round(rng.lognormal(3, 1.5, 5), 2) * 10.0 ** rng.integers(0, 12, 5)
        G = DynamicGraph(weighted=True, weight_dtype=dtype, device=device)
        window = Window(G, 6, keep="sum")
        slide(window, [0] * 6, [1] * 6, [*amounts, 0.0])  # the newest payment is of 0.00
        for number in range(5):
            slide(window, [5 + number], [6 + number], [1.0])
        assert named_edges(G)[0, 1] == 0.0


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_weights_below_zero_are_below_zero(device: str) -> None:
    G = DynamicGraph(weighted=True, weight_dtype="float64", device=device)
    window = Window(G, 2, keep="sum")
    with pytest.raises(InputError, match="infinite"):  # a refused slide shows no weight
        slide(window, [0, 0], [1, 1], [-1.0, np.inf])
    slide(window, [0, 0], [1, 1], [1.0, -1.5])
    assert named_edges(G) == {(0, 1): -0.5}
    slide(window, [2], [1], [3.0])
    assert named_edges(G) == {(0, 1): -1.5, (2, 1): 3.0}


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")  # by simulated kernels
@crossed(device=DEVICES, dtype=["float32", "float64"])
def test_a_sum_that_the_graph_cannot_hold(device: str, dtype: str) -> None:
    G = DynamicGraph(weighted=True, weight_dtype=dtype, device=device)
    window, huge = Window(G, 3, keep="sum"), float(np.finfo(dtype).max)
    slide(window, [0, 0], [1, 1], [0.75 * huge, 1.0])
    before = state_of(window)
    with pytest.raises(InputError, match=f"the weights of a pair sum to more than {dtype} holds"):
        slide(window, [0], [1], [0.75 * huge])
    assert state_of(window) == before
    slide(window, [0, 3, 3], [1, 4, 5], [2.0, 1.0, 1.0])
    assert named_edges(G) == {(0, 1): 2.0, (3, 4): 1.0, (3, 5): 1.0}
