"""Tables from ids to numbers: the hash table, growing and forgetting, strings whose hashes are equal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dynstore.backend import Backend, get_backend
from dynstore.graph import DynamicGraph
from dynstore.ids import tables
from dynstore.ids.hash_table import EMPTY, MULTIPLIER, REMOVED, HashTable
from dynstore.ids.tables import IntegerTable, StringTable
from dynstore.testing.pair import Pair

# ---------------------------------------------------------------------- the hash table


def _filled(backend: Backend, keys: list[int]) -> HashTable:
    table = HashTable.allocate(backend, len(keys))
    _insert(backend, table, keys)
    return table


def _insert(backend: Backend, table: HashTable, keys: list[int]) -> None:
    """Number keys from 0 on."""
    ids, numbers = backend.empty(len(keys), np.int64), backend.xp.arange(len(keys), dtype=np.int64)
    kernels = backend.kernels("dynstore.ids", "hash_table")
    kernels.insert_keys(backend, table, ids, backend.asarray(keys, np.int64), numbers)
    assert backend.to_host(ids).tolist() == keys


def _look_up(backend: Backend, table: HashTable, keys: list[int]) -> list[int]:
    kernels = backend.kernels("dynstore.ids", "hash_table")
    found = kernels.look_up_keys(backend, table, backend.asarray(keys, np.int64), np.dtype(np.int32))
    return backend.to_host(found).tolist()


def test_keys_are_found_and_others_are_not(backend: Backend) -> None:
    keys = [0, 1, 2**62, 2**63 - 2, 7 << 40, 8 << 40, 9 << 40, 2**32, 2**32 + 1]
    table = _filled(backend, keys)
    assert _look_up(backend, table, [*keys, 3, 2**61, 10 << 40]) == [*range(9), -1, -1, -1]
    assert _look_up(backend, table, []) == []


def test_a_chain_of_slots_goes_round_the_end(backend: Backend) -> None:
    """Keys that all want the last slot stand in the first ones, and are still found when one of them is removed."""
    kernels = backend.kernels("dynstore.ids", "hash_table")
    table = HashTable.allocate(backend, 1)
    keys = [key for key in range(60_000) if _home(key, table) == table.num_slots - 1][:5]
    _insert(backend, table, keys)
    cells = backend.to_host(table.cells)[::2].tolist()
    assert sorted([cells[-1], *cells[:4]]) == keys
    assert _look_up(backend, table, keys) == [0, 1, 2, 3, 4]
    kernels.remove_keys(backend, table, backend.asarray([keys[0], keys[3], REMOVED], np.int64))
    assert _look_up(backend, table, keys) == [-1, 1, 2, -1, 4]
    cells = backend.to_host(table.cells)[::2].tolist()
    assert (cells.count(REMOVED), cells.count(EMPTY)) == (2, 59)


def _home(key: int, table: HashTable) -> int:
    bits = key ^ table.seed
    return (((bits ^ (bits >> 32)) * MULTIPLIER) & (2**64 - 1)) >> table.shift


def test_keys_cannot_be_chosen_to_want_the_same_slot(backend: Backend) -> None:
    """Of keys that all want slot 0 with one seed, few stand far from their own slots with a random one."""
    inverse, count = pow(MULTIPLIER, -1, 2**64), 500 if backend.family == "cuda" else 20_000
    products = (factor * inverse % 2**64 for factor in range(1, 4 * count))
    keys = [key for key in (product ^ (product >> 32) for product in products) if key < 2**63][:count]
    table = HashTable.allocate(backend, count)
    table.seed = 0
    assert {_home(key, table) for key in keys} == {0}
    table = _filled(backend, keys)
    assert _look_up(backend, table, keys) == list(range(count))
    there = backend.to_host(table.cells)[::2].tolist()
    steps = [(slot - _home(key, table)) % table.num_slots for slot, key in enumerate(there) if key >= 0]
    assert sum(steps) < 3 * count
    assert _filled(backend, keys).seed != table.seed


def test_a_copy_of_a_table_keeps_its_seed(backend: Backend) -> None:
    table = _filled(backend, [5, 7 << 40])
    assert table.copy(backend).seed == table.seed
    assert _look_up(backend, table.copy(backend), [7 << 40, 5, 6]) == [1, 0, -1]


def test_a_table_says_how_much_it_takes(backend: Backend) -> None:
    table = HashTable.allocate(backend, 100)
    assert (table.num_slots, table.shift) == (256, 56)
    assert table.takes(160)
    assert not table.takes(161)


@pytest.mark.parametrize("sizes", [(17, 40), (0, 40), (40, 0), (33,)])
def test_unknown_ids_are_new_once_and_get_their_numbers(backend: Backend, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    parts = [rng.integers(0, 30, size) << 50 for size in sizes]
    known = np.array([3, 8, 20]) << 50
    table = IntegerTable(backend)
    table.plan_write(backend.asarray(known), backend.asarray(np.arange(3)), 3, False)()
    columns = [backend.asarray(part) for part in parts]
    match = table.match("test", ["src", "dst"][: len(parts)], columns, np.dtype(np.int32))
    wanted = np.setdiff1d(np.concatenate(parts), known)
    assert backend.to_host(match.new).tolist() == wanted.tolist()
    match.number(backend.asarray(100 + np.arange(wanted.shape[0])))
    for part, column in zip(parts, match.columns, strict=True):
        numbers = backend.to_host(column)
        assert numbers.dtype == np.int32
        old = np.isin(part, known)
        assert numbers[old].tolist() == np.searchsorted(known, part[old]).tolist()
        assert numbers[~old].tolist() == (100 + np.searchsorted(wanted, part[~old])).tolist()


@pytest.mark.parametrize("count", [1, 31, 32, 33, 100])
def test_few_and_many_keys_are_sorted(backend: Backend, count: int) -> None:
    """On CUDA few are compared with each other."""
    keys = np.random.default_rng(count).permutation(2 * count)[:count] * 2**50 + np.arange(count)
    ranked = backend.kernels("dynstore.ids", "hash_table").sort_ids(backend, backend.asarray(keys))
    assert backend.to_host(ranked).tolist() == sorted(keys.tolist())


def test_a_table_grows_and_forgets(backend: Backend) -> None:
    table, held = IntegerTable(backend), {}
    for step in range(6):
        ids = np.arange(12) * 10**9 + step
        numbers = np.arange(12) + 6 * step  # half of them belong to others
        held |= dict(zip(numbers.tolist(), ids.tolist(), strict=True))
        table.plan_write(backend.asarray(ids), backend.asarray(numbers), len(held), step > 0)()
        assert backend.to_host(table.all()).tolist() == [held[number] for number in range(len(held))]
        assert len(held) <= np.count_nonzero(backend.to_host(table.table.cells)[::2] != EMPTY) <= table.table.filled
    found = backend.to_host(table.look_up(table.all(), np.dtype(np.int64)))
    assert found.tolist() == list(range(len(held)))
    gone = backend.asarray(np.arange(6, 12) * 10**9)
    assert backend.to_host(table.look_up(gone, np.dtype(np.int64))).tolist() == [-1] * 6


# ---------------------------------------------------------------------- strings


def _poor_hash(values: np.ndarray) -> np.ndarray:
    return np.array([len(value) for value in values], dtype=np.int64)


def test_strings_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "hash_strings", _poor_hash)
    pair = Pair(renumber=True, reuse_ids=True, device="cpu", directed=False)
    pair.insert(["a", "b", "cc", "b"], ["b", "dd", "a", "e"])
    assert len(pair.graph.core.ids._table.twins) == 3
    pair.insert(["f", "gg"], ["gg", "hhh"])
    assert pair.graph.has_edges((["a", "x", "f"], ["b", "b", "gg"])).tolist() == [True, False, True]
    pair.update("delete_vertices", ["a", "dd", "hhh"])
    pair.insert(["i", "jj"], ["k", "i"])
    assert pair.graph.vertex_numbers(["a", "dd", "hhh"]).tolist() == [-1, -1, -1]
    pair.check_queries()
    other = pair.copy()
    pair.update("delete_vertices", ["i", "b"])
    pair.update("reorder")
    pair.insert(["lll", "m", "b"], ["m", "n", "n"])
    pair.check_queries()
    other.check_queries()


def test_hashes_are_keys_of_the_table() -> None:
    values = np.array([f"{n}" for n in range(10_000)], dtype=object)
    hashes = tables.hash_strings(values)
    assert hashes.min() >= 0
    assert np.unique(hashes).shape == hashes.shape
    assert tables.hash_strings(np.array(["17"], dtype=object))[0] == hashes[17]
    assert tables.hash_strings(np.empty(0, dtype=object)).shape == (0,)


def test_a_category_is_hashed_once_a_column_and_a_string_once_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/vertex-ids.md says so."""
    hashed: list[int] = []

    def counting(values: np.ndarray) -> np.ndarray:
        hashed.append(values.shape[0])
        return hash_strings(values)

    hash_strings = tables.hash_strings
    graph = DynamicGraph(renumber=True, device="cpu")
    graph.insert_edges((["a", "b", "c"], ["b", "c", "d"]))
    monkeypatch.setattr(tables, "hash_strings", counting)
    src, dst = ["a", "c", "a", "c", "a"], ["b", "b", "b", "b", "b"]
    for wanted, convert in (
        ([5, 5], lambda column: column),
        ([2, 1], lambda column: pd.Categorical(column, categories=["a", "b", "c", "d", "x"])),
    ):
        hashed.clear()
        graph.insert_edges((convert(src), convert(dst)))
        assert hashed == wanted
    hashed.clear()
    graph.insert_edges((pd.Categorical(["e", "f", "e", "f"]), ["a", "a", "a", "a"]))
    assert hashed == [2, 4, 2], "new ids are hashed once more, to be written"


def test_a_string_table_holds_its_strings_memory() -> None:
    table = StringTable(get_backend("cpu"))
    empty = table.memory_usage()
    table.plan_write(np.array(["x" * 1000], dtype=object), np.array([0]), 1, False)()
    assert table.memory_usage() > empty + 1000


def test_a_series_of_strings_follows_the_table() -> None:
    table = StringTable(get_backend("cpu"))
    texts = np.array(["b", "a", "d"], dtype=object)
    table.plan_write(texts, np.arange(3), 3, False)()
    kept = table.series(None)
    assert kept.tolist() == ["b", "a", "d"]
    assert table.series(np.array([2, -1])).isna().tolist() == [False, True]
    table.plan_write(np.array(["c"], dtype=object), np.array([3]), 4, False)()
    assert table.series(None).tolist() == ["b", "a", "d", "c"]
    assert kept.tolist() == ["b", "a", "d"]
    twin = table.copy()
    table.plan_write(np.array(["x"], dtype=object), np.array([0]), 4, True)()  # takes the number of b
    assert table.series(None).tolist() == ["x", "a", "d", "c"]
    assert table.series(np.array([0, 3])).tolist() == ["x", "c"]
    assert isinstance(twin, StringTable)
    assert twin.series(None).tolist() == ["b", "a", "d", "c"]
