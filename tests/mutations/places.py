"""Some forty bugs that the tests must find: small changes of kernels and host code, each of them wrong."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug.

    Attributes
    ----------
    name : str
        What goes wrong.
    file : str
        Where, from the root of the repository.
    old, new : str
        The text that it changes, which the file has once, and what takes its place.
    tests : tuple of str
        What of the suite runs, in this order: files, classes of them, or single tests.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


STORES, ALGORITHMS, EVENTS = "tests/stores", "tests/algorithms", "tests/graph/events"
CONTRACT = f"{STORES}/test_contract.py"

# CUDA kernels, and what starts them.
CUDA = [
    Mutation(
        "merge-of-pages-forgets-the-other-edges-of-a-leaf",
        "dynstore/stores/paged/merging/cuda.py",
        "first + d_count_lower(word, lane) + d_find_lower_bound(added, low, high, key)",
        "first + d_count_lower(word, lane) + low",
        (f"{STORES}/paged/test_merging.py",),
    ),
    Mutation(
        "known-edge-of-the-large-run-comes-again",
        "dynstore/stores/paged/delta/cuda.py",
        "(takes_large or slot < 0)",
        "True",
        (f"{STORES}/paged/test_delta.py",),
    ),
    Mutation(
        "search-finds-the-next-row",
        "dynstore/stores/table/cuda/search.py",
        "is_there = (positions[k] < ends[k])",
        "is_there = (positions[k] <= ends[k])",
        (f"{STORES}/table/test_search_cuda.py",),
    ),
    Mutation(
        "wide-windows-count-revived-edges-twice",
        "dynstore/stores/pma/cuda/windows.py",
        "if items.change > 0 and not wide and",
        "if items.change > 0 and",
        (f"{STORES}/gpma_plus/test_speculative_cuda.py",),
    ),
    Mutation(
        "merge-ends-after-the-keys-of-a-warp",
        "dynstore/stores/pma/cuda/redistribute.py",
        "return below + more if more < WARP else",
        "return below + more if more <= WARP else",
        (f"{STORES}/pma/test_full_merge_cuda.py",),
    ),
    Mutation(
        "second-key-of-a-leaf-goes-before-what-the-first-moved",
        "dynstore/stores/pma/cuda/leaf_insert.py",
        "place <= d_lowest_bit(filled)",
        "place < d_lowest_bit(filled)",
        (f"{STORES}/pma/test_leaf_insert_cuda.py",),
    ),
    Mutation(
        "packing-counts-half-a-block-of-leaves",
        "dynstore/stores/pma/cuda/compact.py",
        "for step in (1, 2):",
        "for step in (1,):",
        (f"{STORES}/gpma_plus/test_speculative_cuda.py", f"{STORES}/gpma_plus/test_update_cuda.py"),
    ),
    Mutation(
        "rows-are-counted-before-the-counters-are-cleared",
        "dynstore/stores/pma/cuda/partition.py",
        "cuda.syncthreads()  # so that places of the last tile",
        "pass  # so that places of the last tile",
        (f"{STORES}/pma/test_partition_cuda.py",),
    ),
    Mutation(
        "deletion-with-a-missing-edge-is-not-taken-back",
        "dynstore/stores/pma/cuda/delete.py",
        "(totals[MISSING] or totals[SPARSE]",
        "(totals[SPARSE]",
        (f"{STORES}/gpma_plus/test_tiles_cuda.py",),
    ),
    Mutation(
        "tiles-that-were-written-are-not-taken-back",
        "dynstore/stores/gpma_plus/cuda/insert_buckets.py",
        "not is_written and totals[STOPPED] !=",
        "not is_written and 0 == totals[STOPPED] !=",
        (f"{STORES}/gpma_plus/test_tiles_new_vertices_cuda.py", f"{STORES}/gpma_plus/test_tiles_cuda.py"),
    ),
    Mutation(
        "window-of-two-full-leaves-is-merged-twice",
        "dynstore/stores/gpma_plus/cuda/bucket_windows.py",
        "is_full and d_count_lower(np.uint32(full & inside), leaf - group) == 0",
        "is_full",
        (f"{STORES}/gpma_plus/test_buckets_cuda.py",),
    ),
    Mutation(
        "sorted-insertion-is-granted-beyond-the-root-limit",
        "dynstore/stores/gpma_plus/cuda/plan_sorted.py",
        "num_items + num_tombstones <= most.new",
        "num_items <= most.new",
        (f"{STORES}/gpma_plus/test_speculative_cuda.py",),
    ),
    Mutation(
        "window-is-written-before-it-has-been-read",
        "dynstore/stores/papers/gpma_level/cuda/small_windows.py",
        "cuda.syncthreads()\n    elements = ",
        "elements = ",
        (f"{STORES}/papers/gpma_level/test_store.py",),
    ),
    Mutation(
        "segment-takes-a-key-too-many",
        "dynstore/stores/papers/gpma/cuda/locks.py",
        "count + 1 <= limit * (",
        "count <= limit * (",
        (f"{STORES}/papers/gpma/test_store.py",),
    ),
    Mutation(
        "device-appends-a-level-that-the-host-does-not",
        "dynstore/stores/lpma/cuda/plan.py",
        "while total > root * (",
        "while total >= root * (",
        (f"{STORES}/lpma/test_store.py",),
    ),
    Mutation(
        "refused-insertion-keeps-its-slabs",
        "dynstore/stores/slab_hash/cuda/fused.py",
        "max(state[FREE], 0) + control[POPPED]",
        "max(state[FREE], 0)",
        (f"{STORES}/slab_hash/test_update_cuda.py",),
    ),
    Mutation(
        "merge-step-has-more-keys-than-lanes",
        "dynstore/stores/table/cuda/merging.py",
        "if num_keys < 32:",
        "if num_keys <= 32:",
        (f"{STORES}/merge/test_update_cuda.py",),
    ),
    Mutation(
        "vertex-is-suspected-once-only",
        "algorithms/traversal/cuda/invalidation.py",
        "            suspects.queued[v] = 0\n",
        "",
        (f"{ALGORITHMS}/traversal/test_tracked.py",),
    ),
    Mutation(
        "equal-keys-change-places",
        "dynstore/batches/cuda/sort.py",
        "bounds[j] = keys[j] + np.int64((i & run) != 0)",
        "bounds[j] = keys[j]",
        ("tests/batches/test_sort_cuda.py",),
    ),
    Mutation(
        "first-weight-of-an-edge-wins",
        "dynstore/batches/cuda/weighted.py",
        "rows.weights[rows.order[last] >> shift]",
        "rows.weights[rows.order[before + 1] >> shift]",
        ("tests/batches/test_weighted_cuda.py",),
    ),
]

# Kernels of the host.
HOST_KERNELS = [
    Mutation(
        "list-finds-what-lies-behind-it",
        "dynstore/stores/papers/adjlists/cpu.py",
        "known = low < end and",
        "known = low <= end and",
        (f"{STORES}/papers/adjlists/test_store.py",),
    ),
    Mutation(
        "hole-behind-the-new-end-is-filled",
        "dynstore/stores/papers/graphvine/cpu/update.py",
        "numbers[i] < kept:",
        "numbers[i] <= kept:",
        (f"{STORES}/papers/graphvine/test_store.py",),
    ),
    Mutation(
        "removed-id-hides-those-behind-it",
        "dynstore/ids/cpu/hash_table.py",
        "cells[2 * slot] = REMOVED",
        "cells[2 * slot] = EMPTY",
        ("tests/ids/test_tables.py",),
    ),
    Mutation(
        "dangling-rank-is-not-damped",
        "algorithms/link_analysis/cpu/iterations.py",
        "alpha * dangling + 1.0 - alpha",
        "dangling + 1.0 - alpha",
        (f"{ALGORITHMS}/link_analysis/test_api.py", f"{ALGORITHMS}/link_analysis/test_cpu.py"),
    ),
    Mutation(
        "triangle-that-never-was-is-taken-away",
        "algorithms/community/cpu/changes.py",
        "smaller = d_has_edge(marked, of_u) or d_has_edge(marked, of_v)",
        "smaller = d_has_edge(marked, of_u) and d_has_edge(marked, of_v)",
        (f"{ALGORITHMS}/community/test_tracked.py", f"{ALGORITHMS}/test_tracking.py"),
    ),
    Mutation(
        "answer-forgets-how-an-edge-began",
        "dynstore/batches/cpu/states.py",
        "range(src.shape[0] - 1, -1, -1)",
        "range(src.shape[0])",
        ("tests/batches/test_states.py",),
    ),
]

# Code of the host.
HOST_CODE = [
    Mutation(
        "snapshot-outlives-its-version",
        "dynstore/graph/core.py",
        "lease.ended_by = lease.version + 1\n        self.lease = Lease(lease.ended_by)",
        "self.lease = Lease(lease.version + 1)",
        ("tests/test_snapshot.py", f"{CONTRACT}::TestGpmaPlusOnCpu"),
    ),
    Mutation(
        "export-shows-an-update-of-the-device",
        "dynstore/stores/gpma_plus/store.py",
        "return Reason.PINNED if slots.pins else None",
        "return None",
        (f"{STORES}/test_orientations.py", f"{STORES}/gpma_plus/test_update_cuda.py"),
    ),
    Mutation(
        "update-that-failed-is-in-the-in-edges",
        "dynstore/graph/transaction.py",
        "core.forget_in_edges()\n            raise\n        return Plans(out, into, change)",
        "pass\n            raise\n        return Plans(out, into, change)",
        (f"{STORES}/test_orientations.py",),
    ),
    Mutation(
        "mirror-images-of-int64-ids-are-left-out",
        "dynstore/batches/make.py",
        "xp.concatenate((src, dst)), xp.concatenate((dst, src)), None)",
        "src, dst, None)",
        (f"{CONTRACT}::TestGpmaPlusRenumberedOnCpu", f"{CONTRACT}::TestGpmaPlusOnCpu"),
    ),
    Mutation(
        "new-vertex-gets-the-number-of-one-that-comes-back",
        "dynstore/ids/mapped.py",
        "gone[column[column >= 0]] = False",
        "pass",
        ("tests/ids/test_mapped.py",),
    ),
    Mutation(
        "memory-of-pages-is-used-again-while-it-is-read",
        "dynstore/stores/paged/memory.py",
        "free = [block for block in self._blocks if not block[0] and block[2].dtype == dtype]",
        "free = [block for block in self._blocks if block[2].dtype == dtype]",
        (f"{STORES}/paged/test_merging.py",),
    ),
    Mutation(
        "reader-sees-two-versions-of-a-delta",
        "dynstore/stores/paged/delta/__init__.py",
        "found, valid, small = _search(self._backend, runs, batch.src, batch.dst), runs.valid, runs.small",
        "found, valid, small = _search(self._backend, runs, batch.src, batch.dst), self._runs.valid, runs.small",
        (f"{STORES}/paged/test_delta.py",),
    ),
    Mutation(
        "buffer-is-filled-before-it-is-read",
        "dynstore/stores/paged/memory.py",
        "while len(filled) < len(self._buffers) and number",
        "while len(filled) < len(self._buffers) + 1 and number",
        (f"{STORES}/paged/test_merging.py",),
    ),
    Mutation(
        "interrupt-stops-a-reordering",
        "dynstore/graph/vertices.py",
        "with update.writing():\n            core.out, core.into = out, into",
        "if True:\n            core.out, core.into = out, into",
        (f"{STORES}/test_interrupts.py",),
    ),
    Mutation(
        "kept-kernel-has-an-old-device-function",
        "dynstore/cuda/kernel_cache.py",
        "found.append(value)",
        "pass",
        ("tests/cuda/test_kernel_cache.py",),
    ),
]

# Events: kernels of both devices, and what holds them together.
EVENT_MODEL, EVENT_CASES = f"{EVENTS}/test_model.py", f"{EVENTS}/test_cases.py"
OF_EVENTS = [
    Mutation(
        "sum-keeps-the-rest-of-what-cancelled-out",
        "dynstore/graph/events/cpu/rows.py",
        "elif is_float and not KEPT *",
        "elif is_float and not 0.0 *",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "sum-keeps-the-rest-of-what-cancelled-out-on-cuda",
        "dynstore/graph/events/cuda/rows.py",
        "if not (KEPT *",
        "if not (0.0 *",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "pair-without-events-hides-those-behind-it",
        "dynstore/graph/events/cpu/pairs.py",
        "pairs.records, key)] = REMOVED",
        "pairs.records, key)] = EMPTY",
        (EVENT_MODEL,),
    ),
    Mutation(
        "event-leaves-twice",
        "dynstore/graph/events/cpu/rows.py",
        "if row < 0 or alive[row] == 0:",
        "if row < 0:",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "chain-of-a-batch-forgets-the-events-before",
        "dynstore/graph/events/cuda/rows.py",
        "if i > begin else np.int32(back)",
        "if i > begin else np.int32(-1)",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "events-of-a-ring-come-in-the-order-of-their-rows",
        "dynstore/graph/events/cpu/log.py",
        "if first + ring.span > ring.capacity:",
        "if False:",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "record-is-used-again-while-a-pin-shows-it",
        "dynstore/graph/events/changing.py",
        "renumbered.plan_release(gone, bool(events.holders))",
        "renumbered.plan_release(gone, False)",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "pair-that-comes-again-in-an-update-is-deleted",
        "dynstore/graph/events/changing.py",
        "gone[table.counts(gone) == 0] if made.returned else gone",
        "gone",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "ids-keep-the-rows-that-events-had",
        "dynstore/graph/events/core.py",
        "            self.ids.forget_rows()\n",
        "            pass\n",
        (EVENT_CASES, EVENT_MODEL),
    ),
    Mutation(
        "refused-insertion-leaves-its-records",
        "dynstore/graph/events/changing.py",
        "    _kernels(core).restore_records(table.arrays, log.ring, entered.touched, core.backend.nothing(np.int64))\n",
        "",
        (f"{EVENTS}/test_failures.py",),
    ),
]

MUTATIONS = [*CUDA, *HOST_KERNELS, *HOST_CODE, *OF_EVENTS]
