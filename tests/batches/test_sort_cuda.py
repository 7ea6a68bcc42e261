"""Sorting keys on CUDA against NumPy's stable sort."""

import numpy as np
import pytest

from dynstore.backend import get_backend


@pytest.fixture(scope="module", autouse=True)
def quick_sorting():
    """Sort by the real kernels."""


@pytest.mark.parametrize("size", [0, 1, 2, 33, 63, 64, 65, 129, 520, 600, 601])
@pytest.mark.parametrize("distinct", [1, 7, 1 << 40])
def test_few_and_many_keys_are_sorted_and_their_rows_are_known(device, size, distinct):
    backend, rng = get_backend(device), np.random.default_rng(size)
    kernels = backend.kernels("dynstore.batches", "sort")
    keys = rng.integers(-1, distinct, size)
    expected = np.argsort(keys, kind="stable")
    found, rows = kernels.sort_rows(backend, backend.asarray(keys.copy()))
    assert backend.to_host(rows).tolist() == expected.tolist()
    assert backend.to_host(found).tolist() == keys[expected].tolist()
    assert backend.to_host(kernels.sort_keys(backend, backend.asarray(keys.copy()))).tolist() == keys[expected].tolist()


def test_as_many_keys_as_are_merged(device):
    if device != "cuda":
        pytest.skip("too many for the simulator")
    from dynstore.batches.cuda.sort import MAX_MERGED

    backend = get_backend(device)
    keys = np.random.default_rng(1).integers(0, MAX_MERGED, MAX_MERGED + 1)
    for size in (MAX_MERGED, MAX_MERGED + 1):
        some, rows = backend.kernels("dynstore.batches", "sort").sort_rows(backend, backend.asarray(keys[:size].copy()))
        assert (backend.to_host(rows) == np.argsort(keys[:size], kind="stable")).all()
        assert (backend.to_host(some) == np.sort(keys[:size])).all()
