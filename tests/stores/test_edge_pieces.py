"""Edges in pieces: all of them once, whole vertices, from the structure, until the next update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore.backend import Backend
from dynstore.errors import InputError, StaleSnapshotError
from dynstore.graph import DynamicGraph
from dynstore.stores import STORES, get_store
from tests.conftest import DEVICES
from tests.crossed import crossed, if_thorough
from tests.graph.cases import every_store_and_device

OWN_ROWS = ("slab_hash", "graphvine", "adjlists")


def make(backend: Backend, store: str, **options: Any) -> DynamicGraph:
    if backend.family not in get_store(store).families:
        pytest.skip(f"{store} runs on the host only")
    return DynamicGraph(store=store, device=backend.name, **options)


def fill(graph: DynamicGraph, rng: np.random.Generator, name: Any = lambda ids: ids) -> None:
    """A hub, rows with and without edges, gaps and touched rows."""
    src, dst = rng.integers(0, 24, (2, 120))
    src[:40], weights = 5, rng.integers(1, 9, 120).astype(np.float32)
    graph.insert_edges((name(src), name(dst), *((weights,) if graph.is_weighted() else ())))
    graph.delete_edges((name(src[::4]), name(dst[::4])))
    if not graph.is_renumbered():
        graph.insert_vertices([40])


def rows_of(graph: DynamicGraph, columns: dict[str, Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(graph.core.backend.to_host(column).tolist() for column in columns.values()), strict=True))


@crossed(
    case=every_store_and_device(DEVICES),
    most=[1, 17, 1000],
    kind=[
        {},
        {"weighted": True, "vertex_dtype": "int64", "weight_dtype": "float64"},
        {"directed": False},
        *if_thorough({"weighted": True, "weight_dtype": "float64"}),
    ],
)
def test_pieces_are_the_edge_table(
    case: tuple[str, str], kind: dict[str, Any], most: int, rng: np.random.Generator
) -> None:
    store, device = case
    graph = DynamicGraph(store=store, device=device, **kind)
    fill(graph, rng)
    tiles = [rows_of(graph, tile) for tile in graph.iterate_edges(most)]
    wanted = rows_of(graph, graph.edge_columns())
    assert sorted(row for tile in tiles for row in tile) == wanted
    assert all(tiles), "an empty piece"
    starts = [{row[0] for row in tile} for tile in tiles]
    assert sum(map(len, starts)) == len(set().union(*starts)), "a vertex in two pieces"
    assert all(len(tile) <= most or len(sources) == 1 for tile, sources in zip(tiles, starts, strict=True))
    if store != "slab_hash":
        assert [row for tile in tiles for row in tile] == wanted


@pytest.mark.parametrize("store", STORES)
def test_a_table_that_is_there_is_read_as_well(backend: Backend, store: str, rng: np.random.Generator) -> None:
    graph = make(backend, store)
    fill(graph, rng)
    wanted = rows_of(graph, graph.edge_columns())
    assert sorted(row for tile in graph.iterate_edges(9) for row in rows_of(graph, tile)) == wanted


@pytest.mark.parametrize("store", OWN_ROWS)
def test_no_table_of_all_edges_is_made(
    backend: Backend, store: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(backend, store)
    fill(graph, rng)
    before = graph.memory_usage()
    monkeypatch.setattr(type(graph.core.out), "slots", property(lambda store: pytest.fail("the table was made")))
    assert sum(tile["source"].shape[0] for tile in graph.iterate_edges(10)) == graph.number_of_edges()
    assert graph.memory_usage() == before


@pytest.mark.parametrize("directed", [True, False])
def test_ids_of_the_users_own(backend: Backend, directed: bool, rng: np.random.Generator) -> None:
    graph = make(backend, "slab_hash", renumber=True, directed=directed)
    fill(graph, rng, lambda ids: ids * 1000 + 7)
    tiles = [row for tile in graph.iterate_edges(8) for row in rows_of(graph, tile)]
    assert sorted(tiles) == sorted(rows_of(graph, graph.edge_columns()))
    assert directed or all(low <= high for low, high in tiles)


@pytest.mark.parametrize("store", STORES)
def test_a_graph_without_edges_has_no_piece(backend: Backend, store: str) -> None:
    graph = make(backend, store)
    assert list(graph.iterate_edges()) == []
    graph.insert_vertices([3])
    assert list(graph.iterate_edges()) == []


def test_an_update_ends_the_pieces(backend: Backend) -> None:
    graph = make(backend, "slab_hash")
    graph.insert_edges(([0, 1], [1, 2]))
    tiles = graph.iterate_edges(1)
    assert rows_of(graph, next(tiles)) == [(0, 1)]
    graph.insert_edges(([0], [3]))
    with pytest.raises(StaleSnapshotError, match=r"iterate_edges: it began at version 1 of the graph, .* version 2"):
        next(tiles)


@pytest.mark.parametrize("most", [0, -1, 1.5, "all", None])
def test_a_size_that_cannot_be_used(most: Any) -> None:
    with pytest.raises(InputError, match=r"iterate_edges: .*max_edges"):
        DynamicGraph(device="cpu").iterate_edges(most)


def test_a_size_of_a_small_type() -> None:
    G = DynamicGraph.from_edges((np.arange(200), np.arange(200)), device="cpu")
    pieces = G.iterate_edges(np.int8(100))  # type: ignore[arg-type]
    assert sum(len(piece["source"]) for piece in pieces) == 200
