"""Choosing a device, allocating on it, and finding its kernels."""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import benchmarks
import dynstore
import dynstore.backend as backends
from dynstore.backend import Backend, cuda_problem, get_backend
from dynstore.errors import InputError, OutOfMemoryError


def test_names(backend: Backend, backend_name: str) -> None:
    assert backend.name == backend_name
    assert backend is get_backend(backend_name)
    assert backend.family == ("cpu" if backend_name == "cpu" else "cuda")
    assert backend.on_gpu == (backend_name == "cuda")
    assert backend_name in repr(backend)


def test_arrays_go_there_and_back(backend: Backend) -> None:
    values = np.arange(5, dtype=np.int32)
    array = backend.asarray(values)
    assert isinstance(array, backend.xp.ndarray)
    np.testing.assert_array_equal(backend.to_host(array), values, strict=True)
    np.testing.assert_array_equal(backend.to_host(backend.asarray([1, 2], np.int64)), np.array([1, 2]), strict=True)
    np.testing.assert_array_equal(backend.to_host(backend.zeros((2, 3), np.float32)), np.zeros((2, 3), np.float32))
    assert backend.empty(7, np.uint32).shape == (7,)
    backend.synchronize()


def test_several_arrays_go_to_the_host_at_once(backend: Backend) -> None:
    values = np.arange(300, dtype=np.int32), np.empty(0, np.int64), np.ones((2, 3))[:, :2], np.zeros(0, np.uint8)
    for kept in (values, values[1:2]):
        for copy, array in zip(backend.all_to_host(*map(backend.asarray, kept)), kept, strict=True):
            np.testing.assert_array_equal(copy, array, strict=True)
    assert backend.all_to_host() == []
    first = backend.all_to_host(backend.asarray(values[0]))[0]
    backend.all_to_host(backend.asarray(values[0] + 1))
    np.testing.assert_array_equal(first, values[0])


def test_no_copy_where_none_is_needed(backend: Backend) -> None:
    array = backend.zeros(4, np.int32)
    assert backend.asarray(array) is array


@pytest.mark.parametrize("shape", [1 << 60, (1 << 40, 1 << 20)])
def test_too_large_allocations_say_how_large(backend: Backend, shape: Any) -> None:
    with pytest.raises(OutOfMemoryError, match=f"{backend.name!r}: could not allocate {8 << 60} bytes") as caught:
        backend.empty(shape, np.int64)
    assert isinstance(caught.value, MemoryError)


def test_arrays_allocated_together_are_apart(backend: Backend) -> None:
    parts = (5, np.int64), (0, np.float32), (7, np.uint8), (3, np.int32)
    arrays = backend.empty_arena(*parts, zeroed=3)
    assert [(array.shape[0], array.dtype) for array in arrays] == [(count, np.dtype(kind)) for count, kind in parts]
    for array in arrays[:3]:
        assert backend.to_host(array).tolist() == [0] * array.shape[0]
    for number, array in enumerate(arrays):
        array.fill(number + 1)
    for number, array in enumerate(arrays):
        assert backend.to_host(array).tolist() == [number + 1] * array.shape[0]
    with pytest.raises(OutOfMemoryError):
        backend.empty_arena((1, np.int64), (1 << 60, np.int64))


def test_of_the_last_array_that_is_to_be_zeros_only_the_first_entries_may_be(backend: Backend) -> None:
    arena = backend.arena((3, np.int32), (90, np.int64, 4), (5, np.int8), zeroed=2)
    for array in arena.arrays:
        array.fill(7)
    arena.clear()
    first, second, third = (backend.to_host(array).tolist() for array in arena.arrays)
    assert (first, second, third) == ([0] * 3, [0] * 4 + [7] * 86, [7] * 5)


def test_copies_are_equal_and_apart(backend: Backend) -> None:
    arrays = [backend.asarray(np.arange(4, dtype=np.int32)), backend.asarray(np.ones((2, 3)))[:, :2]]
    copies = backend.copies(*arrays)
    for copy, array in zip(copies, arrays, strict=True):
        np.testing.assert_array_equal(backend.to_host(copy), backend.to_host(array), strict=True)
        copy.fill(9)
    assert [float(array.max()) for array in arrays] == [3.0, 1.0]


def test_kernels_are_found_by_family(backend: Backend) -> None:
    module = backend.kernels("dynstore.stores.table", "search")
    assert module.__name__ == f"dynstore.stores.table.{backend.family}.search"


# Modules whose helpers share a name: the rest of their packages is called from there, not by stores or algorithms. And
# `recorded`: on CUDA alone edges are deleted in the pass that finds them.
HELPERS = {
    "dynstore.batches.cpu.sort",
    "dynstore.graph.events.cpu.pairs",
    "dynstore.ids.cpu.hash_table",
    "dynstore.stores.gpma_plus.cpu.update",
    "dynstore.stores.lpma.cpu.windows",
    "dynstore.stores.pma.cpu.recorded",
    "dynstore.stores.pma.cpu.redistribute",
    "dynstore.stores.pma.cpu.windows",
}


# Walks over the leaves of pages: on the host a kernel is made of one and what becomes of an edge, on CUDA it calls one.
WALKS = {"visit_edges", "walk_active", "walk_edges", "walk_leaves", "walk_weighted"}


def test_both_families_offer_the_same_launchers() -> None:
    """``cpu.x`` and ``cuda.x`` of a package are two versions of one thing; only CUDA ones share device functions."""
    names = {
        info.name
        for package in (dynstore, benchmarks)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    }
    pairs = {name: re.sub(r"\.cpu\b", ".cuda", name) for name in names if "cpu" in name.split(".")}
    both = sorted(name for name, other in pairs.items() if other in names and name not in HELPERS)
    assert len(both) > 20
    assert {name: _launchers(name) ^ _launchers(pairs[name]) for name in both} == {name: set() for name in both}


def _launchers(module_name: str) -> set[str]:
    module = importlib.import_module(module_name)
    names = {name for name in getattr(module, "__all__", ()) if name.islower() and not name.startswith(("d_", "k_"))}
    return names - WALKS


def test_unknown_devices_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown device 'cudaa'; known: 'auto', 'cpu', 'cuda'\. Did you mean 'cuda'"):
        get_backend("cudaa")


def test_auto_takes_cuda_where_it_works_and_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends._automatic.cache_clear()
    with caplog.at_level(logging.INFO, logger="dynstore"):
        first, second = get_backend("auto"), get_backend("auto")
    assert first is second
    assert first.name == ("cpu" if cuda_problem() else "cuda")
    assert len(caplog.records) == 1
    assert f"device 'auto' is {first.name!r}" in caplog.text


def test_cuda_without_a_gpu_says_why() -> None:
    problem = cuda_problem()
    if problem is None:
        assert get_backend("cuda").on_gpu
        return
    with pytest.raises(InputError, match="device 'cuda' cannot be used: ") as caught:
        get_backend("cuda")
    assert problem in str(caught.value)


def test_the_simulator_must_be_asked_for() -> None:
    code = "from dynstore.backend import get_backend\nget_backend('cuda-sim')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=_environment(NUMBA_ENABLE_CUDASIM="0")
    )
    assert done.returncode == 1
    assert "needs NUMBA_ENABLE_CUDASIM=1 set before Numba is imported" in done.stderr


def _environment(**changes: str) -> dict[str, str]:
    return {**os.environ, **changes}
