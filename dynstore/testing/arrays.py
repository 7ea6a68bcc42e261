"""Gap-aware CSRs and random edge lists made without any store, to test kernels on their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynstore.backend import Backend, get_backend
from dynstore.bits import pack_bits
from dynstore.snapshot import GapCSR

__all__ = ["gapped_csr", "random_edges"]


def random_edges(
    rng: np.random.Generator, num_vertices: int, num_edges: int, dtype: Any = np.int32
) -> tuple[np.ndarray, np.ndarray]:
    """Draw random edges, skewed to low ids. Pairs repeat, and self-loops occur.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    num_vertices, num_edges : int
        Ids are below ``num_vertices``.
    dtype : dtype
        The dtype of the ids.

    Returns
    -------
    src, dst : numpy.ndarray, shape (num_edges,)
        The ends of the edges.
    """
    draw = (rng.random((2, num_edges)) ** 2 * num_vertices).astype(dtype)
    return draw[0], draw[1]


def gapped_csr(
    src: Any,
    dst: Any,
    weights: Any = None,
    *,
    num_vertices: int,
    directed: bool = True,
    backend: Backend | None = None,
    density: float = 0.6,
    dtype: Any = np.int32,
    weight_dtype: Any = np.float32,
    seed: int = 0,
) -> GapCSR:
    """Make a GapCSR with gaps at random places.

    Repeated edges are removed; the last weight stays. Gaps repeat the key before them, and some are tombstones, as
    after lazy deletions.

    Parameters
    ----------
    src, dst : array or list of int
        The ends of the edges.
    weights : array or list of float, optional
        One for each edge; unweighted by default.
    num_vertices : int
        The number of rows.
    directed : bool
        If False, every edge is mirrored.
    backend : Backend, optional
        The device; the host by default.
    density : float
        The share of slots with an edge; 1 for a packed CSR.
    dtype, weight_dtype : dtype
        The dtypes of ids and weights.
    seed : int
        Where the gaps are.

    Returns
    -------
    GapCSR
        It never becomes stale.
    """
    rng = np.random.default_rng(seed)
    backend = backend or get_backend("cpu")
    table = {}
    values = np.ones(len(src)) if weights is None else np.asarray(weights, dtype=np.float64)
    for u, v, w in zip(np.asarray(src).tolist(), np.asarray(dst).tolist(), values.tolist(), strict=True):
        table[u, v] = w
        if not directed:
            table[v, u] = w
    slots: list[tuple[int, int, float, bool]] = []
    for (u, v), w in sorted(table.items()):
        slots.append((u, v, w, True))
        while rng.random() > density:
            dead = (u, v + 1) not in table and v + 1 < num_vertices and rng.random() < 0.5
            last_u, last_v = slots[-1][0], slots[-1][1]
            slots.append((u, v + 1, w, False) if dead and (last_u, last_v) == (u, v) else (last_u, last_v, w, False))
    if density < 1:
        while len(slots) % 32:
            slots.append((*(slots[-1][:2] if slots else (0, 0)), 0.0, False))
        if not slots:
            slots = [(0, 0, 0.0, False)] * 32
    sources = np.array([s[0] for s in slots], dtype=dtype)
    indices = np.array([s[1] for s in slots], dtype=dtype)
    slot_weights = np.array([s[2] for s in slots], dtype=weight_dtype)
    mask = np.array([s[3] for s in slots], dtype=bool)
    offsets = np.searchsorted(sources, np.arange(num_vertices + 1)).astype(dtype)
    offsets[num_vertices] = len(slots)
    return GapCSR(
        backend,
        backend.asarray(offsets),
        backend.asarray(sources),
        backend.asarray(indices),
        pack_bits(backend, backend.asarray(mask)),
        None if weights is None else backend.asarray(slot_weights),
        int(mask.sum()),
    )
