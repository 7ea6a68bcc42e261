"""Arrow tables: over the store's own memory with gaps as nulls, or packed; pins; the PyCapsule interface; back in."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dynstore
from dynstore.errors import InputError, InputTypeError
from tests.adapters.graphs import (
    KINDS,
    Edges,
    edges_of,
    every_id,
    every_kind,
    gapped_graph,
    named_graph,
    named_rows,
    rows_of,
)


def _rows(table: Any) -> Edges:
    return rows_of(*(column.to_pylist() for column in table.columns))


def _names(graph: dynstore.DynamicGraph) -> list[str]:
    return ["source", "destination", "weight"][: 3 if graph.is_weighted() else 2]


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr


@every_kind
def test_the_gapped_table_is_the_stores_own_memory(options: dict[str, Any]) -> None:
    graph = gapped_graph(**options)
    table, csr = graph.to_arrow(), graph.snapshot()
    assert table.column_names == _names(graph)
    assert table.num_rows == csr.num_slots
    mask = np.asarray(csr.mask())
    for name, own in zip(table.column_names, (csr.sources, csr.indices, csr.weights), strict=False):
        assert table[name].num_chunks == 1
        chunk = table[name].chunk(0)
        chunk.validate(full=True)
        bits, data = chunk.buffers()
        assert data.address == _address(own)
        assert not data.is_mutable
        assert chunk.type == pa.from_numpy_dtype(own.dtype)
        assert chunk.null_count == csr.num_slots - csr.num_edges == int((~mask).sum())
        assert (bits is None) if csr.is_packed else bits.address == _address(csr.valid)
        np.testing.assert_array_equal(chunk.is_valid().to_numpy(zero_copy_only=False), mask)
    assert csr.is_packed == (options["store"] != "gpma+"), "the test wants gaps where the store has them"
    held = table.drop_null()
    assert held.num_rows == csr.num_edges
    both = _rows(held)
    assert {edge: weight for edge, weight in both.items() if graph.is_directed() or edge[0] <= edge[1]} == edges_of(
        graph
    )
    if not graph.is_directed():
        assert {(v, u): weight for (u, v), weight in both.items()} == both


@every_kind
def test_the_packed_table_has_each_edge_once(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    table = graph.to_arrow(compact=True)
    assert table.column_names == _names(graph)
    assert [column.null_count for column in table.columns] == [0] * table.num_columns
    assert table.num_rows == graph.number_of_edges()
    assert _rows(table) == edges_of(graph)
    pairs = list(_rows(table))
    assert pairs == sorted(pairs)


@every_kind
def test_what_goes_out_comes_back_in(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    weight = "weight" if graph.is_weighted() else None
    for table in (graph.to_arrow(), graph.to_arrow(compact=True)):
        again = dynstore.DynamicGraph(device=device, **options)
        report = again.insert_edges(table, weight=weight)
        assert report.inserted == graph.number_of_edges()
        assert edges_of(again) == edges_of(graph)


def test_a_graph_without_edges_or_vertices() -> None:
    for store in dynstore.stores.STORES:
        graph = dynstore.DynamicGraph(weighted=True, store=store, device="cpu")
        for _ in range(2):
            for compact in (False, True):
                table = graph.to_arrow(compact)
                table.validate(full=True)
                assert table.column_names == ["source", "destination", "weight"]
                assert table.drop_null().num_rows == 0
                assert dynstore.DynamicGraph(weighted=True, device="cpu").insert_edges(table).inserted == 0
            graph.insert_vertices(9)


@every_id
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_ids_of_the_users_own_are_a_dictionary_over_the_stores_numbers(
    kind: str, directed: bool, weighted: bool
) -> None:
    graph, wanted = named_graph(kind, directed=directed, weighted=weighted)
    table, csr = graph.to_arrow(), graph.snapshot()
    assert table.num_rows == csr.num_slots
    for name, own in (("source", csr.sources), ("destination", csr.indices)):
        chunk = table[name].chunk(0)
        assert pa.types.is_dictionary(chunk.type)
        chunk.validate(full=True)
        bits, data = chunk.indices.buffers()
        assert (bits.address, data.address) == (_address(csr.valid), _address(own))
        assert len(chunk.dictionary) == graph.number_of_vertices()
    columns = [column.to_pylist() for column in table.drop_null().columns]
    assert len(columns[0]) == csr.num_edges
    assert named_rows(*columns, directed=directed) == wanted
    packed = graph.to_arrow(compact=True)
    assert not any(pa.types.is_dictionary(kind) for kind in packed.schema.types)
    assert packed.num_rows == len(wanted)
    assert named_rows(*(column.to_pylist() for column in packed.columns)) == wanted
    for edges in (table, packed, graph):
        again = dynstore.DynamicGraph(device="cpu", renumber=True, directed=directed, weighted=weighted)
        again.insert_edges(edges, weight="weight" if weighted else None)
        assert named_rows(*(column.to_pylist() for column in again.to_arrow(compact=True).columns)) == wanted
    numbers = graph.snapshot().indices.copy()
    graph.insert_edges(packed.slice(0, 1).select(["source", "destination"]), default_weight=1.0)
    assert [column.to_pylist() for column in table.drop_null().columns] == columns
    assert _address(graph.snapshot().indices) != data.address
    np.testing.assert_array_equal(graph.snapshot().indices, numbers)


def _dictionary(graph: dynstore.DynamicGraph) -> Any:
    """Return the dictionary of a new table; check that it has the ids of now."""
    dictionary = graph.to_arrow()["source"].chunk(0).dictionary
    assert dictionary.to_pylist() == graph.vertex_ids().tolist()
    return dictionary


@every_id
@pytest.mark.parametrize("reuse_ids", [False, True])
def test_ids_are_converted_anew_only_when_a_row_may_have_got_another(kind: str, reuse_ids: bool) -> None:
    graph, edges = named_graph(kind, reuse_ids=reuse_ids)
    first, (one, two) = _dictionary(graph), next(iter(edges))
    assert _dictionary(graph).buffers()[1].address == first.buffers()[1].address
    graph.delete_edges(([one], [two]))
    graph.insert_edges(([two], [one]))
    # A new id may have taken a deleted one's number: only the version tells.
    assert (_dictionary(graph).buffers()[1].address == first.buffers()[1].address) == (not reuse_ids)
    held = graph.to_arrow()["source"].chunk(0).dictionary.to_pylist()
    new = KINDS[kind](np.array([100, 101, 102]))
    graph.delete_vertices([one])
    num_vertices = graph.number_of_vertices()
    graph.insert_vertices(new[:1])
    assert graph.number_of_vertices() == num_vertices + (not reuse_ids)
    assert (one in _dictionary(graph).to_pylist()) == (not reuse_ids)
    graph.insert_edges((new[1:], new[:2]))
    graph.reorder()
    assert _dictionary(graph).to_pylist() != held
    other = graph.copy()
    other.insert_vertices(KINDS[kind](np.array([103])))
    assert len(_dictionary(other)) == len(_dictionary(graph)) + 1
    num_vertices = graph.number_of_vertices()
    graph.clear()
    others = KINDS[kind](np.arange(200, 200 + num_vertices))
    graph.insert_edges((others, others))
    assert len(_dictionary(graph)) == num_vertices


def test_kept_ids_go_with_their_graph() -> None:
    graph = dynstore.DynamicGraph(renumber=True, device="cpu")
    graph.insert_edges((["a"], ["b"]))
    graph.to_arrow()
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------------- gaps and nulls


def test_gaps_are_skipped_in_every_call_and_in_slices() -> None:
    graph = gapped_graph(weighted=True)
    table = graph.to_arrow()
    assert graph.has_edges(table).all()
    assert graph.has_edges(table).shape == (graph.number_of_edges(),)
    part = table.slice(13, 100).select(["destination", "source"])
    assert part["source"].null_count
    assert graph.delete_edges(part).deleted == 100 - part["source"].null_count


def test_nulls_that_are_not_gaps_are_refused() -> None:
    graph = gapped_graph(weighted=True)
    table = graph.to_arrow()
    gaps = table["source"].null_count
    with pytest.raises(InputError, match=f"column `source` has {gaps} nulls, the first at row 2; wanted none"):
        graph.insert_edges(table.replace_schema_metadata(None), weight="weight")
    holes = pa.array([None, *range(1, table.num_rows)], pa.float32())
    torn = table.set_column(2, "weight", holes)
    with pytest.raises(InputError, match=r"column `(source|weight)` has \d+ nulls"):
        graph.insert_edges(torn, weight="weight")
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=f"has {gaps} nulls"):
        graph.insert_edges(polars.from_arrow(table))


# ---------------------------------------------------------------------- pins


def _small_update(graph: dynstore.DynamicGraph) -> None:
    """Change what is there in place, add an edge, and remove one."""
    edges = list(edges_of(graph))
    graph.insert_edges(([edges[0][0]], [edges[0][1]], [99.0]))
    graph.delete_edges(([edges[5][0]], [edges[5][1]]))


@pytest.mark.parametrize("keep", ["table", "column", "slice", "array", "polars"])
def test_a_table_never_changes_and_costs_a_copy_only_while_it_lives(keep: str) -> None:
    if keep == "polars":
        pytest.importorskip("polars")
    graph = gapped_graph(weighted=True)
    _small_update(graph)
    place = _address(graph.snapshot().indices)
    assert place == _address(graph.snapshot().indices)

    kept: Any = graph.to_arrow()
    wanted = kept.to_pylist()
    if keep == "column":
        kept = kept["weight"]
    elif keep == "slice":
        kept = kept.slice(3, 20)
    elif keep == "array":
        kept = kept["destination"].chunk(0).view(pa.uint32())
    elif keep == "polars":
        import polars

        kept = polars.from_arrow(kept, rechunk=False)
    _small_update(graph)
    copied = _address(graph.snapshot().indices)
    assert copied != place, "an update wrote to memory that was handed out"
    if keep == "table":
        assert kept.to_pylist() == wanted
    elif keep == "polars":
        assert kept.to_dicts() == wanted
    elif keep == "slice":
        assert kept.to_pylist() == wanted[3:23]
    else:
        name = "weight" if keep == "column" else "destination"
        assert kept.to_pylist() == [row[name] for row in wanted]
    _small_update(graph)
    assert _address(graph.snapshot().indices) == copied, "the copy was not pinned"

    again = graph.to_arrow()
    del kept, again
    gc.collect()
    _small_update(graph)
    assert _address(graph.snapshot().indices) == copied, "an update copied for a table that is gone"


def test_a_table_outlives_its_graph() -> None:
    graph = gapped_graph(weighted=True)
    table = graph.to_arrow()
    wanted = edges_of(graph)
    del graph
    gc.collect()
    assert _rows(table.drop_null()) == wanted


# ---------------------------------------------------------------------- the PyCapsule interface


@every_kind
def test_a_graph_is_an_arrow_stream_of_its_edges(device: str, options: dict[str, Any]) -> None:
    graph = gapped_graph(device, **options)
    assert _rows(pa.table(graph)) == edges_of(graph)
    reader = pa.RecordBatchReader.from_stream(graph)
    assert reader.schema.names == _names(graph)
    again = dynstore.DynamicGraph(device=device, **options)
    again.insert_edges(graph, weight="weight" if graph.is_weighted() else None)
    assert edges_of(again) == edges_of(graph)


def test_a_stream_can_be_asked_for_another_schema() -> None:
    graph = gapped_graph()
    wider = pa.schema([("source", pa.int64()), ("destination", pa.int64())])
    assert pa.RecordBatchReader.from_stream(graph, schema=wider).read_all().schema == wider


class _Stream:
    """What hands out an Arrow stream and is known as nothing else."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


TABLE = pa.table({"a": [0, 1, 1], "b": [1, 2, 3], "w": [0.5, 1.5, 2.5]})
WANTED = {(0, 1): 0.5, (1, 2): 1.5, (1, 3): 2.5}


@pytest.mark.parametrize(
    "make",
    [
        _Stream,
        lambda table: table.to_batches()[0],
        lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2)),
    ],
    ids=["protocol", "record-batch", "reader"],
)
def test_streams_come_in(make: Any) -> None:
    graph = dynstore.DynamicGraph(weighted=True, device="cpu")
    report = graph.insert_edges(make(TABLE), source="a", destination="b", weight="w")
    assert report.inserted == 3
    assert edges_of(graph) == WANTED
    with pytest.raises(InputError, match=r"columns not found: x; the frame has a, b, w"):
        graph.insert_edges(make(TABLE), source="x", destination="b")


@pytest.mark.parametrize("make", [lambda: pa.chunked_array([[1, 2]]), lambda: _Stream(pa.chunked_array([[1]]))])
def test_streams_of_one_column_are_refused(make: Any) -> None:
    with pytest.raises(InputTypeError, match=r"wanted a pandas, pyarrow, polars or cuDF frame"):
        dynstore.DynamicGraph(device="cpu").insert_edges(make())


def test_a_stream_that_breaks_off_is_no_frame_of_another_type() -> None:
    def batches() -> Any:
        yield TABLE.to_batches()[0]
        raise OSError("the line went dead")

    graph = dynstore.DynamicGraph(weighted=True, device="cpu")
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    with pytest.raises(OSError, match="the line went dead"):
        graph.insert_edges(reader, source="a", destination="b", weight="w")
    assert (graph.version, graph.number_of_edges()) == (0, 0)
