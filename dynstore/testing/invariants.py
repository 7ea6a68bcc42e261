"""Invariants of a graph's arrays after every operation, checked slot by slot on the host.

Every function raises AssertionError with the slot and its values. The checks read only the arrays, and use no code of
the stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.graph import PinnedGraph

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.snapshot import GapCSR
    from dynstore.testing.model import ModelGraph
    from dynstore.typing import UpdateReport

__all__ = [
    "check_against_model",
    "check_csr",
    "check_extra_columns",
    "check_graph",
    "check_report",
    "host_arrays",
    "live_edges",
    "named_edges",
]

SEGMENT_SLOTS = 32
WORDS_PER_LINE = 16
Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # one end, the other, and the weight of each
GAPPED_STORES = frozenset({"gpma", "gpma+", "gpma_level", "lpma", "pma"})


def host_arrays(csr: GapCSR) -> dict[str, Any]:
    """Return copies of the arrays on the host: offsets, sources, indices, valid (words), mask (bools), weights."""
    arrays: dict[str, Any] = {
        name: np.array(csr.backend.to_host(getattr(csr, name))) for name in ("offsets", "sources", "indices", "valid")
    }
    arrays["weights"] = None if csr.weights is None else np.array(csr.backend.to_host(csr.weights))
    arrays["bits"] = np.unpackbits(arrays["valid"].view(np.uint8), bitorder="little").astype(bool)
    arrays["mask"] = arrays["bits"][: arrays["indices"].shape[0]]
    return arrays


def named_edges(graph: DynamicGraph) -> dict[tuple[Any, Any], float]:
    """Return the graph's live edges under its vertices' ids."""
    return _named(graph, _live(host_arrays(graph.snapshot())))


def live_edges(csr: GapCSR) -> dict[tuple[int, int], float]:
    """Return the edges that ``offsets``, ``indices`` and ``valid`` describe: edge -> weight (1 if unweighted)."""
    return _table(*_live(host_arrays(csr)))


def _live(host: dict[str, Any]) -> Edges:
    """Return the rows, the other ends and the weights of the edges, slot by slot; the rows are those of ``offsets``."""
    slots = np.flatnonzero(host["mask"])
    rows = np.searchsorted(host["offsets"], slots, side="right") - 1
    weights = np.ones(slots.size) if host["weights"] is None else host["weights"][slots]
    return rows, host["indices"][slots], weights


def _named(graph: DynamicGraph, edges: Edges) -> dict[tuple[Any, Any], float]:
    ids = graph.core.backend.to_host(graph.vertex_ids())
    return _table(ids[edges[0]], ids[edges[1]], edges[2])


def _table(src: np.ndarray, dst: np.ndarray, weights: np.ndarray) -> dict[tuple[Any, Any], float]:
    return dict(zip(zip(src.tolist(), dst.tolist(), strict=True), weights.tolist(), strict=True))


def _turned(src: np.ndarray, dst: np.ndarray, weights: np.ndarray) -> Edges:
    """Return the edges the other way round, in the order of their new sources."""
    order = np.lexsort((src, dst))
    return dst[order], src[order], weights[order]


def _same(one: Edges, other: Edges) -> bool:
    return all(map(np.array_equal, one, other))


def check_csr(csr: GapCSR, *, gapped: bool = True, symmetric: bool = False) -> None:
    """Assert every invariant of one CSR with gaps.

    Parameters
    ----------
    csr : GapCSR
        The snapshot to check.
    gapped : bool
        True if slots form whole leaves of 32 and may be gaps; False for a packed array, where every slot must hold an
        edge.
    symmetric : bool
        True if every edge must have its mirror image with the same weight.
    """
    _check_csr(csr, gapped, symmetric)


def _check_csr(csr: GapCSR, gapped: bool, symmetric: bool) -> Edges:
    """Check as :func:`check_csr` does; return the edges in order, each once."""
    host = host_arrays(csr)
    _check_shapes(csr, host, gapped)
    _check_bits(csr, host, gapped)
    _check_keys(csr, host)
    _check_offsets(csr, host)
    edges = _live(host)
    if symmetric and not _same(edges, _turned(*edges)):
        _explain_asymmetry(edges)
    return edges


def _check_shapes(csr: GapCSR, host: dict[str, Any], gapped: bool) -> None:
    slots = host["indices"].shape[0]
    dtype = host["indices"].dtype
    assert dtype in (np.int32, np.int64), f"indices have dtype {dtype}"
    for name in ("offsets", "sources"):
        assert host[name].dtype == dtype, f"{name} have dtype {host[name].dtype}, indices {dtype}"
    assert host["valid"].dtype == np.uint32, f"valid has dtype {host['valid'].dtype}"
    assert host["sources"].shape == (slots,), f"sources have shape {host['sources'].shape}, indices {(slots,)}"
    assert csr.num_slots == slots, f"num_slots is {csr.num_slots}, the arrays have {slots}"
    assert host["offsets"].shape == (csr.num_vertices + 1,), (
        f"offsets have shape {host['offsets'].shape} for {csr.num_vertices} vertices"
    )
    if host["weights"] is not None:
        assert host["weights"].shape == (slots,), f"weights have shape {host['weights'].shape}, indices {(slots,)}"
        assert host["weights"].dtype in (np.float32, np.float64), f"weights have dtype {host['weights'].dtype}"
    if gapped:
        assert slots % SEGMENT_SLOTS == 0, f"{slots} slots are not whole segments of {SEGMENT_SLOTS}"


def _check_bits(csr: GapCSR, host: dict[str, Any], gapped: bool) -> None:
    slots, words = host["indices"].shape[0], host["valid"].shape[0]
    assert words * 32 >= slots, f"{words} words of valid bits for {slots} slots"
    assert words % WORDS_PER_LINE == 0, f"{words} words of valid bits are not whole 64-byte lines"
    past = np.flatnonzero(host["bits"][slots:])
    assert past.size == 0, f"valid: bit {slots + int(past[0]) if past.size else 0} past the {slots} slots is set"
    live = int(host["mask"].sum())
    assert csr.num_edges == live, f"num_edges is {csr.num_edges}, {live} valid bits are set"
    assert gapped or live == slots, f"a packed array has {slots - live} gaps"


def _check_keys(csr: GapCSR, host: dict[str, Any]) -> None:
    src, dst, mask = host["sources"].astype(np.int64), host["indices"].astype(np.int64), host["mask"]
    if src.size == 0:
        return
    most = max(csr.num_vertices, 1)  # an array without any edge so far holds (0, 0)
    for name, ids in (("sources", src), ("indices", dst)):
        bad = np.flatnonzero((ids < 0) | (ids >= most))
        assert bad.size == 0, f"{name}[{bad[:1]}] = {ids[bad[:1]]} is no id below {csr.num_vertices}"
    if csr.num_vertices == 0:
        assert not mask.any(), "a graph without vertices has valid slots"
    down = (src[1:] < src[:-1]) | ((src[1:] == src[:-1]) & (dst[1:] < dst[:-1]))
    fall = np.flatnonzero(down) + 1
    assert fall.size == 0, f"the key of slot {fall[:1]} is below the one before it"
    again = mask[1:] & (src[1:] == src[:-1]) & (dst[1:] == dst[:-1])
    slot = np.flatnonzero(again) + 1
    assert slot.size == 0, f"slot {slot[:1]} is valid but not the first of its key {src[slot[:1]]}, {dst[slot[:1]]}"
    if host["weights"] is not None:
        lost = np.flatnonzero(mask & np.isnan(host["weights"]))
        assert lost.size == 0, f"the weight of valid slot {lost[:1]} is NaN"


def _check_offsets(csr: GapCSR, host: dict[str, Any]) -> None:
    slots = host["sources"].shape[0]
    wanted = np.searchsorted(host["sources"], np.arange(csr.num_vertices + 1), side="left")
    wanted[csr.num_vertices] = slots
    bad = np.flatnonzero(host["offsets"] != wanted)
    assert bad.size == 0, f"offsets[{bad[:1]}] = {host['offsets'][bad[:1]]}, the rows start at {wanted[bad[:1]]}"


def _explain_asymmetry(edges: Edges) -> None:
    table = _table(*edges)
    for (u, v), weight in table.items():
        assert (v, u) in table, f"edge {u, v} has no mirror"
        assert table[v, u] == weight, f"edge {u, v} has weight {weight}, its mirror {table[v, u]}"
    raise AssertionError("the edges are not in order")


def check_graph(graph: DynamicGraph, *, transposed: bool = False) -> None:
    """Assert the invariants of a graph's current snapshot, and that its counts agree with it.

    Parameters
    ----------
    graph : DynamicGraph
        The graph to check.
    transposed : bool
        If True, check the in-edges as well. A directed graph then keeps them.
    """
    _check_graph(graph, transposed)


def _check_graph(graph: DynamicGraph, transposed: bool) -> Edges:
    """Check as :func:`check_graph` does; return the edges, by the vertices' numbers."""
    gapped = graph.store_name in GAPPED_STORES and not isinstance(graph, PinnedGraph)  # which has a copy without gaps
    csr = graph.snapshot()
    edges = _check_csr(csr, gapped, not graph.is_directed())
    assert csr.version == graph.version, f"the snapshot says version {csr.version}, the graph {graph.version}"
    assert csr.num_vertices == graph.number_of_vertices(), "the snapshot and the graph disagree about V"
    assert csr.is_weighted == graph.is_weighted(), "the snapshot and the graph disagree about weights"
    assert csr.indices.dtype == graph.vertex_dtype, f"ids have dtype {csr.indices.dtype}, not {graph.vertex_dtype}"
    if csr.weights is not None:
        assert csr.weights.dtype == graph.weight_dtype, f"weights have dtype {csr.weights.dtype}"
    held = edges[0].size if graph.is_directed() else int((edges[0] <= edges[1]).sum())
    assert graph.number_of_edges() == held, f"number_of_edges() is {graph.number_of_edges()}, the snapshot holds {held}"
    if transposed:
        turned = graph.snapshot(transposed=True)
        mirrored = _turned(*_check_csr(turned, gapped, not graph.is_directed()))
        assert _same(mirrored, edges), "the transposed snapshot holds other edges"
        assert turned.num_vertices == csr.num_vertices, "the transposed snapshot has another V"
    return edges


def check_report(edges_before: int, report: UpdateReport, edges_after: int) -> None:
    """Assert that an update's report explains the change of the number of edges.

    Parameters
    ----------
    edges_before : int
        The number of edges before the update.
    report : UpdateReport
        What the update returned.
    edges_after : int
        The number of edges after it.
    """
    explained = edges_before + report.inserted - report.deleted - report.expired
    assert edges_after == explained, f"{edges_before} edges and {report} make {explained}; there are {edges_after}"


def check_against_model(graph: DynamicGraph, model: ModelGraph, *, transposed: bool = False) -> None:
    """Assert the invariants, and that the graph equals the model: vertices, version, edges and weights.

    Parameters
    ----------
    graph : DynamicGraph
        The graph to check.
    model : ModelGraph
        A model that got the same updates.
    transposed : bool
        If True, check the in-edges as well.
    """
    edges = _check_graph(graph, transposed)
    assert graph.version == model.version, f"version {graph.version}, the model has {model.version}"
    assert graph.number_of_vertices() == model.num_vertices, (
        f"{graph.number_of_vertices()} vertices, the model has {model.num_vertices}"
    )
    ids = graph.core.backend.to_host(graph.vertex_ids())
    assert ids.tolist() == model.vertex_ids(), f"the vertices are {ids}, the model's {model.vertex_ids()}"
    numbers = graph.core.backend.to_host(graph.vertex_numbers(ids))
    assert numbers.tolist() == list(range(ids.shape[0])), f"the vertices' numbers are {numbers}"
    held, wanted = _named(graph, edges), model.arcs()
    assert held.keys() == wanted.keys(), (
        f"edges too many {sorted(held.keys() - wanted.keys())[:5]}, missing {sorted(wanted.keys() - held.keys())[:5]}"
    )
    if model.weighted and held != wanted:
        wrong = [(edge, held[edge], wanted[edge]) for edge in wanted if held[edge] != wanted[edge]]
        assert not wrong, f"weights differ (edge, got, wanted): {wrong[:5]}"
    if model.edge_columns:
        check_extra_columns(graph, model)


def check_extra_columns(graph: DynamicGraph, model: ModelGraph) -> None:
    """Assert that each stored direction of an edge has the model's values in the extra columns.

    Parameters
    ----------
    graph : DynamicGraph
        The graph to check.
    model : ModelGraph
        A model that got the same updates.
    """
    host, ids = graph.core.backend.to_host, model.vertex_ids()
    for transposed in {False, graph.core.into is not None}:
        csr, columns = graph.snapshot(transposed), graph.snapshot_columns(transposed)
        assert {name: column.dtype for name, column in columns.items()} == graph.edge_dtypes
        held = host(csr.mask())
        ends = [host(csr.indices)[held], host(csr.sources)[held]]
        src, dst = ends if transposed and graph.is_directed() else ends[::-1]
        rows = zip(*(host(column)[held].tolist() for column in columns.values()), strict=True)
        for u, v, row in zip(src.tolist(), dst.tolist(), rows, strict=True):
            wanted = model.extra[model.canonical(ids[u], ids[v])]
            assert list(row) == wanted, f"edge {ids[u], ids[v]} has {row}, the model {wanted}"
