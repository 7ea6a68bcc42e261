"""The states of edges before several updates, summed up: each edge once, with the state in its first row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore.backend import Backend
from tests.conftest import DEVICES
from tests.crossed import crossed

ROWS = (1, 5, 40, 300)


def summed(src: np.ndarray, dst: np.ndarray, mirrored: bool, there: np.ndarray, weights: np.ndarray) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for u, v, state, weight in zip(src.tolist(), dst.tolist(), there.tolist(), weights.tolist(), strict=True):
        found.setdefault((u, v), (state, weight))
        if mirrored:
            found.setdefault((v, u), (state, weight))
    return dict(sorted(found.items()))


@pytest.fixture(scope="module", autouse=True)
def quick_sorting() -> None:
    """Sort by the real kernels."""


@crossed(
    size=ROWS,
    mirrored=[False, True],
    weight_dtype=[None, np.float32, np.float64],
    dtype=[np.int32, np.int64],
    num_vertices=[12, 1 << 40],
    backend_name=DEVICES,
)
def test_the_first_row_of_an_edge_has_its_state(
    backend: Backend, size: int, mirrored: bool, weight_dtype: Any, dtype: Any, num_vertices: int
) -> None:
    rng = np.random.default_rng(size)
    src, dst = (rng.integers(0, 12, size).astype(dtype) for _ in range(2))
    there, weights = rng.random(size) < 0.5, rng.random(size).astype(weight_dtype or np.float32)
    given = [backend.asarray(array) for array in (src, dst, there, weights)]
    got = backend.kernels("dynstore.batches", "states").sum_states(
        backend, given[0], given[1], mirrored, given[2], given[3] if weight_dtype else None, num_vertices
    )
    assert got[0].dtype == got[1].dtype == dtype
    assert (None if got[3] is None else got[3].dtype) == weight_dtype
    wanted = summed(src, dst, mirrored, there, weights)
    assert list(zip(*(backend.to_host(array).tolist() for array in got[:2]), strict=True)) == list(wanted)
    assert backend.to_host(got[2]).tolist() == [state for state, _ in wanted.values()]
    if weight_dtype:
        assert backend.to_host(got[3]).tolist() == [weight for _, weight in wanted.values()]


def test_ids_that_do_not_fit_change_no_other_edge(backend: Backend) -> None:
    """A deletion may name numbers of no vertex; cut to 32 bits they would be those of others."""
    src, dst = np.array([(1 << 32) + 3, 3, -1]), np.array([4, 4, 2])
    arrays = [backend.asarray(array) for array in (src, dst, np.array([False, True, False]))]
    states = backend.kernels("dynstore.batches", "states")
    got = states.sum_states(backend, *arrays[:2], False, arrays[2], None, 12)
    rows = zip(*(backend.to_host(array).tolist() for array in got[:3]), strict=True)
    assert [(u, v) for u, v, there in rows if there] == [(3, 4)]
