"""Columns in Arrow's memory that contradict themselves are refused by name before they are read.

All inputs are harmless: an offset leads to the padding of a message, and NumPy finds numbers that are too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dynstore
from dynstore.errors import InputError

ROWS = 3
NUMBERS = pa.dictionary(pa.int8(), pa.int64())


def graph(**options: Any) -> dynstore.DynamicGraph:
    return dynstore.DynamicGraph(device="cpu", renumber=True, **options)


def offsets(*values: int) -> pa.Buffer:
    return pa.py_buffer(np.array(values, np.int32))


def strings_that_are_no_utf8() -> pa.Array:
    return pa.StringArray.from_buffers(ROWS, offsets(0, 1, 2, 3), pa.py_buffer(b"a\xffb"))


def codes_past_their_dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["ann", "bob"]), safe=False)


def codes_below_zero() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, -1, 1], pa.int32()), pa.array(["ann", "bob"]), safe=False)


def numbers_past_their_dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array([5, 6]), safe=False)


DAMAGED: list[Callable[[], pa.Array]] = [
    strings_that_are_no_utf8,
    codes_past_their_dictionary,
    codes_below_zero,
    numbers_past_their_dictionary,
]


def like(column: pa.Array) -> pa.Array:
    """Return a sound column of the same kind of ids."""
    return pa.array([1, 2, 3]) if column.type.equals(NUMBERS) else pa.array(["ann", "bob", "cid"])


class Stream:
    """A producer that has nothing but the protocol of Arrow streams."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def doors(column: pa.Array) -> Iterator[tuple[str, Callable[[dynstore.DynamicGraph], Any]]]:
    """Yield calls that are given a column, by a name."""
    table = pa.table({"source": column, "destination": like(column)})
    weights = pa.table({"source": like(column), "destination": column, "weight": [1.0, 2.0, 3.0]})
    marked = table.replace_schema_metadata({"dynstore.gaps": "1"})
    ops = pa.table({"op": ["insert"] * ROWS, "source": column, "destination": like(column), "time": [1, 2, 3]})
    yield "a table", lambda G: G.insert_edges(table)
    yield "a table's destination", lambda G: G.insert_edges(weights)
    yield "a table that is marked", lambda G: G.insert_edges(marked)
    yield "a record batch", lambda G: G.insert_edges(table.to_batches()[0])
    yield "a tuple", lambda G: G.insert_edges((like(column), column))
    yield "a tuple of chunks", lambda G: G.insert_edges((pa.chunked_array([column]), like(column)))
    yield "deleted edges", lambda G: G.delete_edges(table)
    yield "an update", lambda G: G.update(insert=table)
    yield "vertices", lambda G: G.insert_vertices(column)
    yield "a question", lambda G: G.has_edges((column, like(column)))
    yield "operations", lambda G: G.apply(ops)
    yield "a window", lambda G: dynstore.Window(G, 2).slide(table)
    yield (
        "pandas over Arrow",
        lambda G: G.insert_edges((pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column]))), like(column))),
    )


NAMES = [name for name, _ in doors(pa.array([1, 2, 3]))]


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize("door", NAMES)
def test_damaged_columns_are_refused_by_name(door: str, damaged: Callable[[], pa.Array]) -> None:
    column = damaged()
    G = graph()
    if door != "a window":  # which wants no edges
        G.insert_edges(([8], [9]) if column.type.equals(NUMBERS) else (["x"], ["y"]))
    before, held = G.version, G.edge_table().to_numpy().tolist()
    with pytest.raises(InputError, match=r"\w+: (column )?`\w+` (is damaged: .+|.*null)"):
        dict(doors(column))[door](G)
    assert (G.version, G.edge_table().to_numpy().tolist()) == (before, held)


def test_other_columns_of_a_table_are_not_read() -> None:
    G = graph()
    G.insert_edges(pa.table({"source": [1, 2, 3], "destination": [2, 3, 4], "note": strings_that_are_no_utf8()}))
    assert G.number_of_edges() == ROWS


def test_streams_are_checked_as_tables_are() -> None:
    G = graph()
    for damaged in (strings_that_are_no_utf8(), codes_past_their_dictionary()):
        with pytest.raises(InputError, match="insert_edges: `source` is damaged"):
            G.insert_edges(Stream(pa.table({"source": damaged, "destination": ["b", "c", "d"]})))


@pytest.mark.parametrize("form", ["batch", "table", "reader"])
def test_a_message_whose_offsets_lead_out_of_it_is_refused(form: str) -> None:
    """The last string goes on behind its buffer, in the padding of the message."""
    sound = pa.record_batch({"source": ["ann", "bob", "cid"], "destination": ["b", "c", "d"]})
    ends, longer = offsets(0, 3, 6, 9).to_pybytes(), offsets(0, 3, 6, 12).to_pybytes()
    message = sound.serialize().to_pybytes()
    assert message.count(ends) == 1
    batch = pa.ipc.read_record_batch(pa.py_buffer(message.replace(ends, longer)), sound.schema)
    edges = {
        "batch": batch,
        "table": pa.Table.from_batches([batch]),
        "reader": pa.RecordBatchReader.from_batches(batch.schema, [batch]),
    }
    G = graph()
    with pytest.raises(InputError, match="insert_edges: `source` is damaged"):
        G.insert_edges(edges[form])
    assert G.number_of_vertices() == 0


def test_a_stream_that_breaks_off_is_refused() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"source": [1], "destination": [2]})
        raise pa.ArrowInvalid("the disk is gone")

    schema = pa.schema({"source": pa.int64(), "destination": pa.int64()})
    with pytest.raises(InputError, match=r"insert_edges: edges, a pyarrow.*, cannot be read: .*the disk is gone"):
        graph().insert_edges(pa.RecordBatchReader.from_batches(schema, batches()))


@pytest.mark.parametrize("kind", ["str", "ArrowDtype"])
def test_pandas_over_arrows_memory_is_checked(kind: str) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], np.int64))
    chunks = pa.chunked_array([pa.LargeStringArray.from_buffers(ROWS, offsets, pa.py_buffer(b"a\xffb"))])
    if kind == "str":
        made = pd.arrays.ArrowStringArray(chunks) if hasattr(pd.arrays, "ArrowStringArray") else None
    else:
        made = pd.arrays.ArrowExtensionArray(chunks)
    if made is None:
        pytest.skip("this pandas has no such strings")
    with pytest.raises(InputError, match="insert_edges: `source` is damaged"):
        graph().insert_edges(pd.DataFrame({"source": pd.Series(made), "destination": ["b", "c", "d"]}))


def test_times_and_weights_are_checked() -> None:
    G = dynstore.DynamicGraph(device="cpu", weighted=True, timestamps="int64")
    edges = np.arange(ROWS), np.arange(ROWS)
    with pytest.raises(InputError, match="insert_edges: `time` is damaged"):
        G.insert_edges((*edges, np.ones(ROWS)), time=numbers_past_their_dictionary())
    with pytest.raises(InputError, match="insert_edges: `weights` is damaged"):
        G.insert_edges((*edges, numbers_past_their_dictionary()), time=np.arange(ROWS))


def test_categories_of_pandas_that_are_not_there_are_refused() -> None:
    with np.errstate(all="ignore"):
        made = pd.Categorical.from_codes(np.array([0, 1, 2]), ["ann", "bob"], validate=False)
    with pytest.raises(InputError, match="insert_edges: `source` has the category 2 at row 2; there are 2"):
        graph().insert_edges(pd.DataFrame({"source": made, "destination": ["b", "c", "d"]}))
