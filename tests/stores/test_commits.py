"""A commit finds all its kernels before the first of them writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynstore.backend import get_backend
from dynstore.cuda.compiler import k_probe, prepare
from dynstore.testing.faults import for_every_kernel
from dynstore.testing.pair import Pair
from tests.conftest import DEVICES

STORES: dict[str, dict[str, Any]] = {
    "gpma+": {},
    "gpma_level": {},
    "gpma": {"deletion": "pack"},
    "lpma": {},
    "slab_hash": {},
    "paged": {"delta_edges": 60, "delta_share": 0.0, "density": 0.8, "page_bits": 5},
    "graphvine": {},
    "graphvine with holes": {"compaction": False},
}


TURNED, RENUMBERED = {"transposed": True}, {"renumber": True, "reuse_ids": True}
# The map of ids is the same one for all stores; without a GPU two commit with it in `make test`.
FEW = STORES if "cuda" in DEVICES else ("gpma+", "slab_hash")
CASES = [
    *((store, TURNED) for store in STORES),
    *((store, RENUMBERED) for store in FEW),
    *(pytest.param(store, RENUMBERED, marks=pytest.mark.thorough) for store in STORES if store not in FEW),
]


@pytest.mark.parametrize(("store", "options"), CASES, ids=str)
def test_a_kernel_that_cannot_be_loaded_leaves_the_graph_as_it_was(
    device: str, monkeypatch: pytest.MonkeyPatch, store: str, options: dict[str, Any]
) -> None:
    """Another vertex and a leaf here and there, then what has to widen windows, then a deletion that empties some."""
    pair = Pair(device=device, store=store.split()[0], **STORES[store], **options)
    # Each edge of a batch has its leaf of pages unpacked, which takes long in the simulator.
    size = 240 if store != "paged" else 120
    src, dst = np.divmod(2 * np.arange(size, dtype=np.int32), 40)
    pair.insert(src, dst)
    few = np.r_[src[20::60], 3], np.r_[dst[20::60] + np.int32(1), 41]
    many = np.full(30, 7, np.int32), np.arange(30, dtype=np.int32)
    block = src[size // 6 : size // 2 - 10], dst[size // 6 : size // 2 - 10]
    for method, batch in (
        ("insert_edges", few), ("insert_edges", many), ("delete_edges", few), ("delete_edges", block),
    ):  # fmt: skip
        assert for_every_kernel(monkeypatch, pair, method, batch) > 0


def test_prepared_launches_start_later_and_in_order(device: str) -> None:
    backend = get_backend(device)
    first, second = backend.zeros(1, np.int32), backend.zeros(1, np.int32)

    def copy(launch: Callable[[], None]) -> Callable[[], None]:
        return prepare(launch)

    start = prepare(lambda: (k_probe.launch(1, first), copy(lambda: k_probe.launch(1, second))()))
    assert [int(first[0]), int(second[0])] == [0, 0]
    start()
    assert [int(first[0]), int(second[0])] == [1, 1]


def test_what_fails_while_it_is_prepared_leaves_launches_as_they_were(device: str) -> None:
    written = get_backend(device).zeros(1, np.int32)

    def fail() -> None:
        k_probe.launch(1, written)
        raise RuntimeError("cuLibraryLoadData: no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        prepare(fail)
    assert int(written[0]) == 0
    k_probe.launch(1, written)
    assert int(written[0]) == 1
