"""GapCSR on its own: bits, leases, packing and exports."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from dynstore.bits import full_words, pack_bits, unpack_bits, words_for
from dynstore.errors import StaleSnapshotError
from dynstore.pins import Pins
from dynstore.snapshot import GapCSR, Lease
from dynstore.testing.arrays import gapped_csr
from dynstore.testing.invariants import check_csr, live_edges


@pytest.mark.parametrize("num_slots", [0, 1, 31, 32, 33, 511, 512, 513, 4096])
def test_bits_go_there_and_back(backend: Any, num_slots: int) -> None:
    mask = np.random.default_rng(num_slots).random(num_slots) < 0.5
    words = pack_bits(backend, backend.asarray(mask))
    assert words.shape == (words_for(num_slots),)
    assert words.nbytes % 64 == 0
    assert words.dtype == np.uint32
    np.testing.assert_array_equal(backend.to_host(unpack_bits(backend, words, num_slots)), mask)
    for slot in range(0, num_slots, 7):
        assert bool(int(words[slot // 32]) >> (slot % 32) & 1) == mask[slot]


@pytest.mark.parametrize("num_slots", [0, 1, 32, 45, 512, 1000])
def test_full_words_stop_at_the_last_slot(backend: Any, num_slots: int) -> None:
    words = backend.to_host(full_words(backend, num_slots))
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    assert bits[:num_slots].all()
    assert not bits[num_slots:].any()


def _sample(backend: Any, **options: Any) -> GapCSR:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 40, (2, 200))
    return gapped_csr(src, dst, rng.integers(0, 9, 200) / 2, num_vertices=41, backend=backend, **options)


def test_compact_squeezes_the_gaps_out(backend: Any) -> None:
    csr = _sample(backend, density=0.5)
    packed = csr.compact()
    check_csr(csr)
    check_csr(packed, gapped=False)
    assert packed.is_packed
    assert not csr.is_packed
    assert live_edges(packed) == live_edges(csr)
    assert (packed.num_vertices, packed.num_edges, packed.num_slots) == (41, csr.num_edges, csr.num_edges)
    assert live_edges(packed.compact()) == live_edges(csr)


def test_a_compacted_copy_outlives_the_lease(backend: Any) -> None:
    csr = _sample(backend)
    lease = Lease(4)
    leased = GapCSR(
        backend, csr.offsets, csr.sources, csr.indices, csr.valid, csr.weights, csr.num_edges, lease
    )  # fmt: skip
    packed = leased.compact()
    assert (leased.version, packed.version) == (4, 4)
    lease.ended_by = 6
    with pytest.raises(StaleSnapshotError, match="shows version 4 of the graph, which is now at version 6"):
        leased.compact()
    for name in ("offsets", "sources", "indices", "weights", "valid"):
        with pytest.raises(StaleSnapshotError):
            getattr(leased, name)
    for method in (leased.mask, leased.export):
        with pytest.raises(StaleSnapshotError):
            method()
    assert live_edges(packed) == live_edges(csr)
    assert "num_edges" in repr(leased)


def test_unweighted(backend: Any) -> None:
    csr = gapped_csr([0, 1], [1, 2], num_vertices=3, backend=backend)
    assert (csr.is_weighted, csr.weights, csr.compact().weights) == (False, None, None)
    assert "weights" not in csr.export()


def test_an_export_shares_memory_and_pins_it(backend: Any) -> None:
    csr, pins = _sample(backend), Pins()
    pinned = GapCSR(
        backend, csr.offsets, csr.sources, csr.indices, csr.valid, csr.weights, csr.num_edges, None, pins
    )  # fmt: skip
    assert not pins
    arrays = pinned.export()
    assert set(arrays) == {"offsets", "sources", "indices", "valid", "weights"}
    assert pins
    for name, array in arrays.items():
        own = getattr(pinned, name)
        assert _address(array) == _address(own), name
        assert (array.dtype, array.shape) == (own.dtype, own.shape)
    view = arrays["indices"][5:50:3]
    del arrays, array, own
    gc.collect()
    assert pins, "a view of an exported array must keep the pin"
    del view
    gc.collect()
    assert not pins


def _address(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return array.__array_interface__["data"][0]
    return array.data.ptr


def test_the_export_of_an_empty_array_pins_nothing_for_ever(backend: Any) -> None:
    csr, pins = gapped_csr([], [], num_vertices=0, backend=backend, density=1), Pins()
    pinned = GapCSR(backend, csr.offsets, csr.sources, csr.indices, csr.valid, None, 0, None, pins)
    arrays = pinned.export()
    assert arrays["indices"].shape == (0,)
    del arrays
    gc.collect()
    assert not pins
