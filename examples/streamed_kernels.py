"""Kernels of one's own over streamed pages: the further algorithms that the GTS paper names.

    python examples/streamed_kernels.py [--device cuda]

BFS-like, they read the pages of some vertices: neighbourhood, induced subgraph, egonet, cross-edges. PageRank-like,
they read all pages: random walk with restart, radius estimation. Each kernel is there for the host and for CUDA. The
guide "Analyse a graph that is larger than the GPU's memory" has two more, and says what kernels get.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numba import njit

from dynstore import datasets, gts
from dynstore.cuda.compiler import cuda
from dynstore.gts.cpu import pages as host
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_share_pages,
    d_vertex_of,
)

# The correction of Flajolet and Martin, "Probabilistic Counting Algorithms", JCSS 31(2), 1985.
FLAJOLET_MARTIN = 0.77351
SKETCHES = 16
EFFECTIVE = 0.9  # a radius counts when so many of the vertices that lead to a vertex are within it


# Edges between two sets: from the vertices of the first, which are level 0, to those of the second.


@njit
def select_on_host(words, first, count, lanes, starts, ranges, layout, bits, level, sets, found, edges):
    pages = host.d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(host.d_num_slots(pages, page)):
            vertex = host.d_vertex_of(pages, page, slot)
            if sets[vertex] & 1:
                begin, size = host.d_find_list(pages, page, slot)
                for i in range(size):
                    other = host.d_read_neighbor(pages, begin, i)[1]
                    if sets[other] & 2:
                        edges[2 * found[0]], edges[2 * found[0] + 1] = vertex, other
                        found[0] += 1


def select_small(words, first, count, lanes, starts, ranges, layout, bits, level, sets, found, edges):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            if sets[vertex] & 1:
                begin, size = d_find_list(pages, page, slot)
                for i in range(share.lane, size, lanes):
                    other = d_read_neighbor(pages, begin, i)[1]
                    if sets[other] & 2:
                        place = cuda.atomic.add(found, 0, 1)
                        edges[2 * place] = vertex
                        edges[2 * place + 1] = other


def select_large(words, first, count, lanes, starts, ranges, layout, bits, level, sets, found, edges):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        if sets[vertex] & 1:
            begin, size = d_find_list(pages, page, 0)
            for i in range(share.thread, size, share.threads):
                other = d_read_neighbor(pages, begin, i)[1]
                if sets[other] & 2:
                    place = cuda.atomic.add(found, 0, 1)
                    edges[2 * place] = vertex
                    edges[2 * place + 1] = other


# What a vertex has goes to its neighbours, as a sum or as a union of bits.


@njit
def spread_on_host(words, first, count, lanes, starts, ranges, layout, shares, bits, sums, unions):
    pages = host.d_open_pages(words, first, starts, ranges, layout)
    base = starts[first]
    for page in range(count):
        for slot in range(host.d_num_slots(pages, page)):
            vertex = host.d_vertex_of(pages, page, slot)
            begin, size = host.d_find_list(pages, page, slot)
            for i in range(size):
                other = host.d_read_neighbor(pages, begin, i)[1]
                sums[other] += shares[vertex - base]
                unions[other] |= bits[vertex - base]


def spread_small(words, first, count, lanes, starts, ranges, layout, shares, bits, sums, unions):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            begin, size = d_find_list(pages, page, slot)
            for i in range(share.lane, size, lanes):
                other = d_read_neighbor(pages, begin, i)[1]
                cuda.atomic.add(sums, other, shares[vertex - base])
                cuda.atomic.or_(unions, other, bits[vertex - base])


def spread_large(words, first, count, lanes, starts, ranges, layout, shares, bits, sums, unions):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        begin, size = d_find_list(pages, page, 0)
        for i in range(share.thread, size, share.threads):
            other = d_read_neighbor(pages, begin, i)[1]
            cuda.atomic.add(sums, other, shares[vertex - base])
            cuda.atomic.or_(unions, other, bits[vertex - base])


def kernels_of(engine: gts.GTS, name: str) -> tuple[Any, Any]:
    """Return the kernels for small and for large pages, "select" or "spread"."""
    if engine.backend.family == "cpu":
        on_host = {"select": select_on_host, "spread": spread_on_host}[name]
        return on_host, on_host
    return {"select": (select_small, select_large), "spread": (spread_small, spread_large)}[name]


def neighbourhood(engine: gts.GTS, vertex: int, hops: int) -> np.ndarray:
    """Return the vertices that are at most ``hops`` edges behind a vertex, itself included."""
    frame = engine.bfs(vertex, depth_limit=hops, return_predecessors=False)
    return np.flatnonzero(engine.backend.to_host(frame["distance"].values) <= hops)


def cross_edges(engine: gts.GTS, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the edges from one set of vertices to another, shape (E, 2), in order."""
    topology = engine.topology
    sets = np.zeros(topology.num_vertices, np.int32)
    sets[begins] |= 1
    sets[ends] |= 2
    room = int(topology.degrees[sets & 1 == 1].sum(dtype=np.int64))
    written = [sets, np.zeros(1, np.int64), np.zeros(2 * room, topology.degrees.dtype)]
    _, found, edges = engine.run(
        *kernels_of(engine, "select"), "bfs", written=written, start=np.asarray(begins), max_levels=1
    )
    pairs = edges[: 2 * found[0]].reshape(-1, 2)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def induced_subgraph(engine: gts.GTS, vertices: np.ndarray) -> np.ndarray:
    """Return the edges among some vertices, shape (E, 2), in order."""
    return cross_edges(engine, vertices, vertices)


def egonet(engine: gts.GTS, vertex: int) -> np.ndarray:
    """Return the edges among a vertex and its neighbours, shape (E, 2), in order."""
    return induced_subgraph(engine, neighbourhood(engine, vertex, 1))


def spread(engine: gts.GTS, shares: np.ndarray, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each vertex the sum of the shares, and the union of the bits, of all vertices that lead to it."""
    written = [np.zeros_like(shares), np.zeros_like(bits)]
    sums, unions = engine.run(*kernels_of(engine, "spread"), "pagerank", written=written, read=[shares, bits])
    return sums, unions


def walk_with_restart(engine: gts.GTS, vertex: int, alpha: float = 0.85, iterations: int = 20) -> np.ndarray:
    """Return the chance to be at each vertex for a walk that returns to one vertex, with 1 - ``alpha`` at each step.

    A walk that cannot go on returns, too.
    """
    degrees = engine.topology.degrees
    ranks = np.zeros(degrees.shape[0])
    ranks[vertex] = 1
    for _ in range(iterations):
        sums, _ = spread(engine, alpha * ranks / np.maximum(degrees, 1), np.zeros(degrees.shape[0], np.uint32))
        sums[vertex] += 1 - sums.sum()
        ranks = sums
    return ranks


def draw_sketches(num_vertices: int, seed: int) -> np.ndarray:
    """Return sketches of Flajolet and Martin, each with one vertex in it: bit i with a chance of 2^-(i + 1)."""
    draws = np.random.default_rng(seed).random((SKETCHES, num_vertices))
    places = np.minimum(-np.log2(1 - draws), 31).astype(np.uint32)
    return np.uint32(1) << places


def estimate_radii(engine: gts.GTS, seed: int = 0) -> np.ndarray:
    """Estimate how far 90 % of the vertices are that lead to each vertex, as HADI does (Kang et al., TKDD 2011).

    A sketch counts the vertices within some hops; one more pass makes it one more hop.
    """
    sketches = draw_sketches(engine.topology.num_vertices, seed)
    nothing = np.zeros(engine.topology.num_vertices)
    sizes = [_count(sketches)]
    while True:
        unions = np.stack([spread(engine, nothing, each)[1] | each for each in sketches])
        if np.array_equal(unions, sketches):
            break
        sketches = unions
        sizes.append(_count(sketches))
    return np.argmax(np.stack(sizes) >= EFFECTIVE * sizes[-1], axis=0)


def _count(sketches: np.ndarray) -> np.ndarray:
    """Estimate how many vertices are in each vertex's sketches: by the mean place of the lowest bit that is missing."""
    lowest = ~sketches & (sketches + np.uint32(1))
    return 2 ** np.log2(lowest).mean(axis=0) / FLAJOLET_MARTIN


def main(device: str = "auto") -> None:
    """Run all of them on a small graph."""
    events = datasets.rmat(8, 8, seed=1)
    topology = gts.build((events.src, events.dst), page_bytes=1024)
    engine = gts.GTS(topology, device=device)
    hub = int(np.argmax(topology.degrees))
    print(topology)
    print(f"{len(neighbourhood(engine, hub, 1)) - 1} neighbours of {hub}, {len(egonet(engine, hub))} edges among them")
    halves = np.arange(topology.num_vertices // 2), np.arange(topology.num_vertices // 2, topology.num_vertices)
    print(f"{len(cross_edges(engine, *halves))} edges from the first half of the vertices to the second")
    print(f"a walk that returns to {hub} is there {walk_with_restart(engine, hub)[hub]:.0%} of the time")
    print(f"radii: {np.bincount(estimate_radii(engine)).tolist()} vertices have 0, 1, ...")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="auto")
    main(parser.parse_args().device)
