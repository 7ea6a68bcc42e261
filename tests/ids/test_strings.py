"""Strings on CUDA: their order, their table, hashes that collide, room for bytes, and what an update launches."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError, LimitError, OutOfMemoryError
from dynstore.graph import DynamicGraph
from dynstore.ids import string_table
from dynstore.ids.string_table import DeviceStringTable
from dynstore.ids.strings import DeviceStrings
from dynstore.testing.pair import Pair

DEVICE = "cuda" if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "") else "cuda-sim"
TEXTS = ["", "a", "ab", "a\0", "b" * 40, "ä", "😀", "ab", "z", ""]


@pytest.fixture
def device_backend() -> Backend:
    return get_backend(DEVICE)


def _strings(backend: Backend, values: list[str]) -> DeviceStrings:
    return DeviceStrings.of_host(backend, np.array(values, dtype=object))


def _random_strings(rng: np.random.Generator, count: int) -> list[str]:
    """Return distinct strings; many have long common beginnings."""
    alphabet = np.array(list("ab\0ä"))
    found: set[str] = set()
    while len(found) < count:
        start = "account-" * int(rng.integers(0, 3))
        found.add(start + "".join(rng.choice(alphabet, int(rng.integers(0, 12)))))
    return list(found)


# ---------------------------------------------------------------------- columns


@pytest.mark.parametrize("values", [TEXTS, [text for text in TEXTS if text.isascii()], [""], []])
def test_strings_go_to_the_device_and_back(device_backend: Backend, values: list[str]) -> None:
    strings = _strings(device_backend, values)
    assert strings.shape == (len(values),)
    assert strings.to_host().tolist() == values
    assert [strings[row] for row in range(len(values))] == values
    backwards = device_backend.xp.arange(len(values))[::-1]
    assert strings.rows(backwards).to_host().tolist() == values[::-1]


@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 90, *([9000] if DEVICE == "cuda" else [])])
def test_strings_are_ordered_as_python_orders_them(device_backend: Backend, count: int) -> None:
    """Few are compared with each other, many word by word."""
    values = _random_strings(np.random.default_rng(count), count)
    kernels = device_backend.kernels("dynstore.ids", "strings")
    order = kernels.order_strings(device_backend, _strings(device_backend, values))
    assert [values[row] for row in device_backend.to_host(order).tolist()] == sorted(values)


# ---------------------------------------------------------------------- the table


every_hash = pytest.mark.parametrize("mask", [0, 3, 2**63 - 1], ids=["one hash", "four hashes", "all hashes"])


@every_hash
@pytest.mark.parametrize("sizes", [(30, 20), (25,), (0, 20), (20, 0)])
def test_a_table_agrees_with_a_dictionary(
    device_backend: Backend, monkeypatch: pytest.MonkeyPatch, mask: int, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(string_table, "HASH_MASK", mask)
    rng, backend = np.random.default_rng(7), device_backend
    pool, table, known = _random_strings(rng, 40), DeviceStringTable(backend), {}
    for _ in range(4):
        parts = [[pool[i] for i in rng.integers(0, 40, size)] for size in sizes]
        match = table.match("test", ["src", "dst"], [_strings(backend, part) for part in parts], np.dtype(np.int32))
        new = sorted({text for part in parts for text in part} - set(known))
        assert match.new.to_host().tolist() == new
        numbers = np.arange(len(known), len(known) + len(new))
        match.number(backend.asarray(numbers))
        table.plan_write(match.new, backend.asarray(numbers), len(known) + len(new), False)()
        known |= dict(zip(new, numbers.tolist(), strict=True))
        for part, column in zip(parts, match.columns, strict=True):
            assert backend.to_host(column).tolist() == [known[text] for text in part]
        assert table.all().tolist() == list(known)
    every = table.match("test", ["ids"], [_strings(backend, pool)], np.dtype(np.int64))
    assert backend.to_host(every.columns[0]).tolist() == [known.get(text, -1) for text in pool]


@every_hash
def test_numbers_get_other_strings_and_bytes_are_given_back(
    device_backend: Backend, monkeypatch: pytest.MonkeyPatch, mask: int
) -> None:
    monkeypatch.setattr(string_table, "HASH_MASK", mask)
    backend, table, held = device_backend, DeviceStringTable(device_backend), {}
    for step in range(12):
        strings = sorted(f"{'x' * (3 * step)}{step}-{n}" for n in range(6))
        numbers = np.arange(6) + 2 * step  # two thirds of them belong to others
        held |= dict(zip(numbers.tolist(), strings, strict=True))
        table.plan_write(_strings(backend, strings), backend.asarray(numbers), len(held), step > 0)()
        wanted = [held[number] for number in range(len(held))]
        assert table.all().tolist() == wanted
        found = table.match("test", ["ids"], [_strings(backend, [*wanted, "0-3"])], np.dtype(np.int64)).columns[0]
        assert backend.to_host(found).tolist() == [*range(len(held)), -1 if step else 3]
        live = sum(map(len, wanted))
        assert table._used - table._unused == live
        twin = table.copy()
        assert twin.all().tolist() == wanted
    assert table._buffers.chars.shape[0] < 4 * live, "bytes without a number stay for ever"
    order = backend.to_host(table.order(backend.asarray(np.zeros(len(held), np.int64)))).tolist()
    assert [wanted[number] for number in order] == sorted(wanted)


@every_hash
def test_strings_whose_hashes_collide_are_other_vertices(monkeypatch: pytest.MonkeyPatch, mask: int) -> None:
    monkeypatch.setattr(string_table, "HASH_MASK", mask)
    pair = Pair(renumber=True, reuse_ids=True, device=DEVICE, directed=False)
    pair.insert(["a", "b", "cc", "b"], ["b", "dd", "a", "e"])
    pair.insert(["f", "gg"], ["gg", "hhh"])
    assert pair.graph.core.backend.to_host(pair.graph.has_edges((["a", "x", "f"], ["b", "b", "gg"]))).tolist() == [
        True,
        False,
        True,
    ]
    pair.update("delete_vertices", ["a", "dd", "hhh"])
    pair.insert(["i", "jj"], ["k", "i"])
    assert pair.graph.core.backend.to_host(pair.graph.vertex_numbers(["a", "dd", "hhh"])).tolist() == [-1, -1, -1]
    pair.check_queries()
    other = pair.copy()
    pair.update("delete_vertices", ["i", "b"])
    pair.update("reorder")
    pair.insert(["lll", "m", "b"], ["m", "n", "n"])
    pair.check_queries()
    other.check_queries()


# ---------------------------------------------------------------------- updates


def test_a_refused_batch_leaves_no_string() -> None:
    graph = DynamicGraph(renumber=True, device=DEVICE, max_vertices=4)
    graph.insert_edges((["a", "b"], ["b", "c"]))
    with pytest.raises(LimitError, match="max_vertices is 4"):
        graph.insert_edges((["d", "e"], ["a", "a"]))
    with pytest.raises(InputError, match=r"insert_edges: '\\ud800' cannot be an id: UTF-8 cannot encode it"):
        graph.insert_edges((["\ud800"], ["a"]))
    assert (graph.vertex_ids().tolist(), graph.number_of_edges()) == (["b", "a", "c"], 2)
    graph.insert_edges((["e"], ["a"]))
    assert graph.vertex_ids().tolist() == ["b", "a", "c", "e"]


def test_a_batch_without_memory_leaves_no_string(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = DynamicGraph(renumber=True, device=DEVICE)
    graph.insert_edges((["a", "b"], ["b", "c"]))
    allocate = graph.core.backend.empty
    for failing in range(100):
        made = 0

        def fail(shape: Any, dtype: Any, failing: int = failing) -> Any:
            nonlocal made
            made += 1
            if made == failing + 1:
                raise OutOfMemoryError("no memory")
            return allocate(shape, dtype)

        with monkeypatch.context() as patch:
            patch.setattr(graph.core.backend, "empty", fail)
            try:
                graph.insert_edges((["x" * 100, "y"], ["a", "z"]))
                break
            except OutOfMemoryError:
                pass
        assert graph.vertex_ids().tolist() == ["b", "a", "c"]
        assert graph.number_of_edges() == 2
    assert failing > 3
    assert graph.vertex_ids().tolist() == ["b", "a", "c", "x" * 100, "y", "z"]


def test_integers_are_refused_where_ids_are_strings() -> None:
    graph = DynamicGraph(renumber=True, device=DEVICE)
    graph.insert_edges((["a", "b"], ["b", "c"]))
    array = graph.core.backend.asarray(np.array([1, 2]))
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match="`src` has integers; this graph's vertices are strings"):
            update((array, array))


def test_the_host_reads_each_string_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of many only those that are wanted."""
    graph, read = DynamicGraph(renumber=True, device=DEVICE), []
    to_host = DeviceStrings.to_host

    def counting(self: DeviceStrings) -> np.ndarray:
        read.append(self.shape[0])
        return to_host(self)

    monkeypatch.setattr(DeviceStrings, "to_host", counting)
    names = [f"n{number:02d}" for number in range(40)]
    graph.insert_edges((names, names[1:] + names[:1]))
    assert graph.neighbors("n03").tolist() == ["n04"]
    assert read == [1]
    assert sorted(graph.vertex_ids().tolist()) == names
    assert graph.neighbors("n05").tolist() == ["n06"]
    graph.insert_vertices(["new"])
    for _ in range(2):
        assert graph.vertex_ids().tolist()[-1] == "new"
    assert read == [1, 40, 1]


def test_a_column_for_frames_is_made_once_until_there_are_new_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list stands in for the column of cuDF."""
    made: list[int] = []

    def make_column(strings: DeviceStrings) -> list[str]:
        made.append(strings.shape[0])
        return strings.to_host().tolist()

    def make_series(_: Backend, column: list[str], numbers: Any) -> np.ndarray:
        chosen = range(len(column)) if numbers is None else numbers.tolist()
        return np.array([None if number < 0 else column[number] for number in chosen], dtype=object)

    stand_in = SimpleNamespace(make_column=make_column, make_series=make_series)
    monkeypatch.setattr(string_table, "cudf_strings", lambda: stand_in)
    monkeypatch.setattr(DeviceStringTable, "gives_columns", lambda self, library: True)
    graph = DynamicGraph(renumber=True, device=DEVICE, directed=False, frames="pandas")
    graph.insert_edges((["b", "c"], ["a", "b"]))
    graph.insert_edges((["c"], ["a"]))
    frames = graph.edge_table(), graph.degree(), graph.k_hop("a", 1), graph.degree(["c", "a"])
    assert made == [3]
    assert sorted(frames[0].itertuples(index=False, name=None)) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [frame["vertex"].tolist() for frame in frames[1:]] == [["b", "a", "c"], ["a", "b", "c"], ["c", "a"]]
    graph.insert_vertices(["0"])
    assert graph.degree()["vertex"].tolist() == ["b", "a", "c", "0"]
    assert made == [3, 4]


def test_a_table_counts_its_strings_memory() -> None:
    graph = DynamicGraph(renumber=True, device=DEVICE)
    graph.insert_edges((["a"], ["b"]))
    before = graph.memory_usage()["vertex_map"]
    graph.insert_vertices(["x" * 1000])
    assert graph.memory_usage()["vertex_map"] > before + 1000


def test_ends_and_vertices_are_ordered_on_the_device(device_backend: Backend) -> None:
    backend, table = device_backend, DeviceStringTable(device_backend)
    values = _random_strings(np.random.default_rng(5), 50)
    table.plan_write(_strings(backend, values), backend.xp.arange(50), 50, False)()
    src, dst = np.random.default_rng(6).integers(0, 50, (2, 70)).astype(np.int32)
    low, high = map(backend.to_host, table.in_order(backend.asarray(src), backend.asarray(dst)))
    pairs = [(values[i], values[j]) for i, j in zip(low, high, strict=True)]
    assert pairs == [tuple(sorted((values[i], values[j]))) for i, j in zip(src, dst, strict=True)]
    chosen = np.flatnonzero(np.arange(50) % 3)
    found = backend.to_host(table.by_id(backend.asarray(chosen)))
    assert [values[number] for number in found] == sorted(values[number] for number in chosen)
