"""Triangles over pages are those of the graph, also where their arcs come block by block."""

from __future__ import annotations

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.paged import LinkTraffic, PageReader, triangle_count, triangles
from dynstore.backend import get_backend
from dynstore.errors import InputError
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.links import Links
from dynstore.typing import Device
from tests.algorithms.paged.mixtures import READINGS, mix


@pytest.mark.parametrize(("encode", "way", "resident", "links"), READINGS)
def test_triangles_are_those_of_the_graph(
    backend_name: Device, encode: bool, way: str, resident: float, links: Links | None
) -> None:
    mixed = mix(backend_name, False, encode=encode, num_edges=450)
    wanted = dynstore.triangle_count(mixed.graph)["counts"].to_numpy()
    assert wanted.sum() > 600
    reader = mixed.reader(way, resident, links)
    counts = triangle_count(reader)
    assert counts.dtype == np.int64
    assert reader.packed.backend.to_host(counts).tolist() == wanted.tolist()
    assert reader.traffic.passes == 1  # each page once
    fixed = triangles.VERTEX_BYTES * reader.packed.num_vertices
    arcs = mixed.graph.number_of_edges()
    for num_blocks in (2, 4) if way == "stream" else (3,):
        reader.traffic = LinkTraffic()
        room = arcs // num_blocks * (2 * triangles.ARC_BYTES + triangles.KEPT_ARC_BYTES)
        counts = triangle_count(reader, fixed + room)
        assert reader.packed.backend.to_host(counts).tolist() == wanted.tolist()
        assert reader.traffic.passes >= 1 + (2 if num_blocks == 2 else num_blocks * (num_blocks + 1) // 2)


def test_blocks_read_only_their_pages() -> None:
    mixed = mix("cpu", False, num_vertices=300, num_edges=9000, changed=False)
    reader = mixed.reader("stream", 0, None)
    wanted = dynstore.triangle_count(mixed.graph)["counts"].tolist()
    whole = int(reader.packed.page_bytes().sum())
    assert triangle_count(reader).tolist() == wanted
    assert reader.traffic.link_bytes == whole
    reader.traffic = LinkTraffic()
    fixed = triangles.VERTEX_BYTES * reader.packed.num_vertices
    room = mixed.graph.number_of_edges() // 5 * (2 * triangles.ARC_BYTES + triangles.KEPT_ARC_BYTES)
    assert triangle_count(reader, fixed + room).tolist() == wanted
    blocks = reader.traffic.passes  # one that counts, and then a block each
    assert blocks > 15
    assert reader.traffic.link_bytes < 0.5 * blocks * whole


def test_rows_that_are_not_symmetric_are_noticed() -> None:
    circle = pack_rows(get_backend("cpu"), np.arange(4), np.array([1, 2, 0], np.int32))
    with pytest.raises(InputError, match="triangle_count: the rows are not symmetric; wanted each edge in both"):
        triangle_count(PageReader(circle))


def test_a_graph_without_edges() -> None:
    packed = pack_rows(get_backend("cpu"), np.zeros(4, np.int64), np.empty(0, np.int32))
    assert triangle_count(PageReader(packed)).tolist() == [0, 0, 0]
    assert triangle_count(PageReader(packed), 0).tolist() == [0, 0, 0]
