"""Every store keeps the whole contract on the host and on CUDA, and its core in the CUDA simulator.

Options of the other papers' structures, and ids of the users' own on all stores but two, are for `make test-thorough`.
"""

from __future__ import annotations

import os

import pytest

from dynstore.stores import STORES, get_store
from dynstore.testing.contract import CoreContract, StoreContract
from dynstore.testing.contract_ids import RenumberedContract, RenumberedCoreContract
from dynstore.testing.contract_inputs import InputContract

ON_GPU = "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "")

# Tables that are too small from the start, so that rows are rehashed often, and tombstones left alone.
# Pages that are soon written anew, and pages into which each update goes.
SMALL_PAGES = {"delta_edges": 8, "delta_share": 0.3, "density": 0.8, "page_bits": 5}
NO_DELTA = {"delta_edges": 0, "delta_share": 0.0, "density": 1.0, "page_bits": 5, "encode": False}
SHORT_CHAINS = {"load_factor": 3.0, "max_chain": 1, "reuse_tombstones": False, "pool_growth": 1.01}


class TestInputsOnCpu(InputContract):
    store, device = "gpma+", "cpu"


class TestInputsRenumberedOnCpu(InputContract):
    store, device, options = "gpma+", "cpu", {"renumber": True}


class TestGpmaPlusOnCpu(StoreContract):
    store, device = "gpma+", "cpu"


class TestGpmaPlusAlwaysInPlaceOnCpu(StoreContract):
    store, device, options = "gpma+", "cpu", {"merge_cost": 0.0}


@pytest.mark.thorough
class TestGpmaPlusAlwaysMergingOnCpu(StoreContract):
    store, device, options = "gpma+", "cpu", {"merge_cost": 1e9}


class TestGpmaPlusDenseOnCpu(StoreContract):
    """Limits so close to each other that windows are large and the array grows and shrinks often."""

    store, device = "gpma+", "cpu"
    options = {"leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.95, "root_lower": 0.9, "leaf_lower": 0.5}  # noqa: RUF012


class TestGpmaPlusByLevelOnCpu(StoreContract):
    store, device, options = "gpma_level", "cpu", {"merge_cost": 0.0}


class TestGpmaPlusWithColumnsOnCpu(StoreContract):
    store, device, options = "gpma+", "cpu", {"edge_columns": {"id": "int64", "type": "int16"}}


@pytest.mark.thorough
class TestGpmaPlusByLevelDenseOnCpu(StoreContract):
    store, device, options = "gpma_level", "cpu", TestGpmaPlusDenseOnCpu.options | {"merge_cost": 0.0}


class TestGpmaPlusRenumberedOnCpu(RenumberedContract):
    store, device = "gpma+", "cpu"


class TestAdjListsOnCpu(StoreContract):
    store, device = "adjlists", "cpu"


@pytest.mark.thorough
class TestAdjListsRenumberedOnCpu(RenumberedContract):
    store, device = "adjlists", "cpu"


class TestGraphVineOnCpu(StoreContract):
    store, device = "graphvine", "cpu"


@pytest.mark.thorough
class TestGraphVineMarkingHolesOnCpu(StoreContract):
    """As in the paper: a deletion only marks. Blocks of 3 make deep trees."""

    store, device = "graphvine", "cpu"
    options = {"compaction": False, "block_size": 3}  # noqa: RUF012


@pytest.mark.thorough
class TestGraphVineOneEdgeABlockOnCpu(StoreContract):
    store, device, options = "graphvine", "cpu", {"block_size": 1}


@pytest.mark.thorough
class TestGraphVineRenumberedOnCpu(RenumberedContract):
    store, device = "graphvine", "cpu"


@pytest.mark.thorough
class TestMergeRenumberedOnCpu(RenumberedContract):
    store, device = "merge", "cpu"


@pytest.mark.thorough
class TestRebuildRenumberedOnCpu(RenumberedContract):
    store, device = "rebuild", "cpu"


class TestGpmaOnCpu(StoreContract):
    store, device = "gpma", "cpu"


@pytest.mark.thorough
class TestGpmaPackingOnCpu(StoreContract):
    store, device, options = "gpma", "cpu", {"deletion": "pack"}


@pytest.mark.thorough
class TestGpmaDenseOnCpu(StoreContract):
    """Limits so close to each other that keys climb far and the array grows and shrinks often."""

    store, device = "gpma", "cpu"
    options = {"leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.95, "root_lower": 0.9, "leaf_lower": 0.5}  # noqa: RUF012


@pytest.mark.thorough
class TestGpmaRenumberedOnCpu(RenumberedContract):
    store, device = "gpma", "cpu"


class TestPmaOnCpu(StoreContract):
    store, device = "pma", "cpu"


@pytest.mark.thorough
class TestPmaDenseOnCpu(StoreContract):
    """Limits so close to each other that windows are large and the array grows and shrinks often."""

    store, device = "pma", "cpu"
    options = {"leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.95, "root_lower": 0.9, "leaf_lower": 0.5}  # noqa: RUF012


@pytest.mark.thorough
class TestPmaRenumberedOnCpu(RenumberedContract):
    store, device = "pma", "cpu"


class TestPagedOnCpu(StoreContract):
    store, device = "paged", "cpu"


class TestPagedInSmallPagesOnCpu(StoreContract):
    """New pages are written often."""

    store, device, options = "paged", "cpu", SMALL_PAGES


@pytest.mark.thorough
class TestPagedPlainAlwaysPagesOnCpu(StoreContract):
    store, device, options = "paged", "cpu", NO_DELTA


@pytest.mark.thorough
class TestPagedRenumberedOnCpu(RenumberedContract):
    store, device, options = "paged", "cpu", SMALL_PAGES | {"renumber": True}


class TestMergeOnCpu(StoreContract):
    store, device = "merge", "cpu"


class TestRebuildOnCpu(StoreContract):
    store, device = "rebuild", "cpu"


class TestSlabHashOnCpu(StoreContract):
    store, device = "slab_hash", "cpu"


@pytest.mark.thorough
class TestSlabHashInShortChainsOnCpu(StoreContract):
    store, device, options = "slab_hash", "cpu", SHORT_CHAINS


class TestSlabHashRenumberedOnCpu(RenumberedContract):
    store, device = "slab_hash", "cpu"


class TestLpmaOnCpu(StoreContract):
    store, device = "lpma", "cpu"


@pytest.mark.thorough
class TestLpmaTopDownOnCpu(StoreContract):
    store, device, options = "lpma", "cpu", {"strategy": "top-down"}


@pytest.mark.thorough
class TestLpmaDenseOnCpu(StoreContract):
    """Limits so close to each other that windows are large and levels come and go often."""

    store, device = "lpma", "cpu"
    options = {  # noqa: RUF012
        "strategy": "bottom-up", "leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.95, "root_lower": 0.47,
        "leaf_lower": 0.4,
    }  # fmt: skip


@pytest.mark.thorough
class TestLpmaRenumberedOnCpu(RenumberedContract):
    store, device = "lpma", "cpu"


if ON_GPU:

    class TestInputsOnCuda(InputContract):
        store, device = "gpma+", "cuda"

    class TestLpmaOnCuda(StoreContract):
        store, device = "lpma", "cuda"

    class TestLpmaTopDownOnCuda(StoreContract):
        store, device, options = "lpma", "cuda", {"strategy": "top-down"}

    class TestGpmaPlusOnCuda(StoreContract):
        store, device = "gpma+", "cuda"

    class TestGpmaPlusAlwaysInPlaceOnCuda(StoreContract):
        store, device, options = "gpma+", "cuda", {"merge_cost": 0.0}

    class TestGpmaPlusWithColumnsOnCuda(StoreContract):
        store, device, options = "gpma+", "cuda", TestGpmaPlusWithColumnsOnCpu.options

    class TestGpmaPlusByLevelOnCuda(StoreContract):
        store, device, options = "gpma_level", "cuda", {"merge_cost": 0.0}

    class TestGpmaPlusInHostMemoryOnCuda(StoreContract):
        store, device, options = "gpma+", "cuda", {"memory": "host"}

    class TestGpmaPlusInHostMemoryWithColumnsOnCuda(StoreContract):
        store, device, options = "gpma+", "cuda", TestGpmaPlusWithColumnsOnCpu.options | {"memory": "host"}

    class TestMergeInHostMemoryOnCuda(StoreContract):
        store, device, options = "merge", "cuda", {"memory": "host"}

    class TestGpmaPlusRenumberedInHostMemoryOnCuda(RenumberedContract):
        store, device, options = "gpma+", "cuda", {"memory": "host", "renumber": True}

    class TestGpmaPlusRenumberedOnCuda(RenumberedContract):
        store, device = "gpma+", "cuda"

    class TestGraphVineOnCuda(StoreContract):
        store, device = "graphvine", "cuda"

    class TestGraphVineMarkingHolesOnCuda(StoreContract):
        store, device, options = "graphvine", "cuda", {"compaction": False, "block_size": 3}

    class TestGraphVineRenumberedOnCuda(RenumberedContract):
        store, device = "graphvine", "cuda"

    class TestGpmaOnCuda(StoreContract):
        store, device = "gpma", "cuda"

    class TestGpmaRenumberedOnCuda(RenumberedContract):
        store, device = "gpma", "cuda"

    class TestPagedOnCuda(StoreContract):
        store, device = "paged", "cuda"

    class TestPagedInSmallPagesOnCuda(StoreContract):
        store, device, options = "paged", "cuda", SMALL_PAGES

    class TestPagedRenumberedOnCuda(RenumberedContract):
        store, device, options = "paged", "cuda", SMALL_PAGES | {"renumber": True}

    class TestMergeOnCuda(StoreContract):
        store, device = "merge", "cuda"

    class TestRebuildOnCuda(StoreContract):
        store, device = "rebuild", "cuda"

    class TestSlabHashOnCuda(StoreContract):
        store, device = "slab_hash", "cuda"

    class TestSlabHashInShortChainsOnCuda(StoreContract):
        store, device, options = "slab_hash", "cuda", SHORT_CHAINS

    class TestSlabHashRenumberedOnCuda(RenumberedContract):
        store, device = "slab_hash", "cuda"

else:

    class TestLpmaSimulated(CoreContract):
        store, device = "lpma", "cuda-sim"

    @pytest.mark.thorough
    class TestLpmaTopDownSimulated(CoreContract):
        store, device, options = "lpma", "cuda-sim", {"strategy": "top-down"}

    class TestGpmaPlusSimulated(CoreContract):
        store, device = "gpma+", "cuda-sim"

    class TestGpmaPlusAlwaysInPlaceSimulated(CoreContract):
        store, device, options = "gpma+", "cuda-sim", {"merge_cost": 0.0}

    class TestGpmaPlusWithColumnsSimulated(CoreContract):
        store, device, options = "gpma+", "cuda-sim", TestGpmaPlusWithColumnsOnCpu.options

    class TestGpmaPlusByLevelSimulated(CoreContract):
        store, device, options = "gpma_level", "cuda-sim", {"merge_cost": 0.0}

    @pytest.mark.thorough
    class TestGpmaPlusByLevelDenseSimulated(CoreContract):
        store, device, options = "gpma+", "cuda-sim", TestGpmaPlusByLevelDenseOnCpu.options

    class TestGpmaPlusInHostMemorySimulated(CoreContract):
        store, device, options = "gpma+", "cuda-sim", {"memory": "host"}

    @pytest.mark.thorough
    class TestMergeInHostMemorySimulated(CoreContract):
        store, device, options = "merge", "cuda-sim", {"memory": "host"}

    class TestGpmaPlusRenumberedSimulated(RenumberedCoreContract):
        store, device = "gpma+", "cuda-sim"

    class TestGraphVineSimulated(CoreContract):
        store, device = "graphvine", "cuda-sim"

    @pytest.mark.thorough
    class TestGraphVineMarkingHolesSimulated(CoreContract):
        store, device, options = "graphvine", "cuda-sim", {"compaction": False, "block_size": 2}

    @pytest.mark.thorough
    class TestGraphVineRenumberedSimulated(RenumberedCoreContract):
        store, device = "graphvine", "cuda-sim"

    class TestGpmaSimulated(CoreContract):
        store, device = "gpma", "cuda-sim"

    @pytest.mark.thorough
    class TestGpmaDenseSimulated(CoreContract):
        store, device, options = "gpma", "cuda-sim", TestGpmaDenseOnCpu.options

    @pytest.mark.thorough
    class TestGpmaRenumberedSimulated(RenumberedCoreContract):
        store, device = "gpma", "cuda-sim"

    class TestPagedInSmallPagesSimulated(CoreContract):
        store, device, options = "paged", "cuda-sim", SMALL_PAGES

    class TestMergeSimulated(CoreContract):
        store, device = "merge", "cuda-sim"

    class TestRebuildSimulated(CoreContract):
        store, device = "rebuild", "cuda-sim"

    class TestSlabHashSimulated(CoreContract):
        store, device = "slab_hash", "cuda-sim"

    @pytest.mark.thorough
    class TestSlabHashInShortChainsSimulated(CoreContract):
        store, device, options = "slab_hash", "cuda-sim", SHORT_CHAINS

    @pytest.mark.thorough
    class TestSlabHashRenumberedSimulated(RenumberedCoreContract):
        store, device = "slab_hash", "cuda-sim"


@pytest.mark.parametrize("store", sorted(STORES))
def test_every_store_is_under_contract(store: str) -> None:
    here = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, CoreContract)]
    devices = {kind.device for kind in here if kind.store == store and kind.__module__ == __name__}
    both = "cuda" in get_store(store).families
    assert devices == ({"cpu", "cuda" if ON_GPU else "cuda-sim"} if both else {"cpu"})
