"""Graphs of which some edges lie in pages, some are deleted there, and some are in a delta."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import dynstore
from dynstore.algorithms.paged import PageReader
from dynstore.bits import pack_bits
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.links import Links
from dynstore.stores.paged.resident import ResidentPages
from dynstore.typing import Device

# Reading in place costs nothing.
FAST = Links(1.0, 1e9)
# How rows may be read: encoded or not, way, share of resident pages, links.
READINGS = [
    (True, "stream", 0.5, None),
    (False, "zero-copy", 0.0, None),
    (True, "auto", 0.3, FAST),
]


class Mixture(NamedTuple):
    """A graph, and the parts of which a reader gives it."""

    graph: Any
    packed: PagedRows
    valid: Any
    delta: Any

    def reader(self, way: str, share: float, links: Links | None) -> PageReader:
        extra = self.delta.snapshot() if self.delta else None
        return PageReader(self.packed, way, keep(self.packed, share), links, self.valid, extra)


def keep(packed: PagedRows, share: float) -> ResidentPages:
    """Return room for a share of the pages with their weights."""
    total = int(packed.page_bytes().sum()) + int(packed.weight_bytes().sum())
    return ResidentPages(lambda: int(share * total))


def mix(
    device: Device,
    directed: bool,
    weights: Any = None,
    *,
    num_vertices: int = 60,
    num_edges: int | None = None,
    encode: bool = True,
    changed: bool = True,
) -> Mixture:
    """Make a random graph with a hub and vertices without edges; ``weights(rng, count)`` draws weights."""
    num_edges = num_edges or (250 if device == "cuda-sim" else 700)
    rng = np.random.default_rng(num_edges + 7)
    keys = np.unique(
        (rng.random(num_edges) ** 3 * num_vertices).astype(np.int64) * num_vertices
        + rng.integers(0, num_vertices, num_edges)
    )
    src, dst = keys // num_vertices, keys % num_vertices
    drawn = None if weights is None else weights(rng, keys.shape[0])
    if not directed:  # both directions, with the same weight
        first, second = np.minimum(src, dst), np.maximum(src, dst)
        both = np.unique(np.concatenate([src * num_vertices + dst, dst * num_vertices + src]))
        src, dst = both // num_vertices, both % num_vertices
        if drawn is not None:
            table = dict(zip((first * num_vertices + second).tolist(), drawn.tolist(), strict=True))
            pairs = np.minimum(src, dst) * num_vertices + np.maximum(src, dst)
            drawn = np.array([table[pair] for pair in pairs.tolist()], drawn.dtype)
    draw = (np.minimum(src, dst) * 31 + np.maximum(src, dst) * 17) % 10  # the same for both directions
    in_pages, is_gone = (draw > 1, draw == 5) if changed else (draw >= 0, draw < 0)
    backend = dynstore.backend.get_backend(device)
    total = num_vertices + 3
    columns = () if drawn is None else (drawn,)

    def insert(graph: Any, chosen: np.ndarray) -> Any:
        graph.insert_vertices([total - 1])
        graph.insert_edges((src[chosen], dst[chosen], *(column[chosen] for column in columns)))
        return graph

    options = {"device": device, "weighted": drawn is not None}
    if drawn is not None:
        options["weight_dtype"] = drawn.dtype.name
    graph = insert(dynstore.DynamicGraph(directed=directed, **options), ~is_gone)
    delta = insert(dynstore.DynamicGraph(directed=True, **options), ~in_pages) if changed else None
    packed = pack_rows(
        backend,
        np.searchsorted(src[in_pages], np.arange(total + 1)),
        dst[in_pages].astype(np.int32),
        weights=None if drawn is None else drawn[in_pages],
        encode=encode,
        page_bits=5,
    )
    return Mixture(graph, packed, backend.asarray(pack_bits(backend, backend.asarray(~is_gone[in_pages]))), delta)
