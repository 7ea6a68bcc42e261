"""How much memory messages may take: what they unpack to, and what waits of them, is bounded in bytes."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dynstore import Stream
from dynstore.errors import FileFormatError, StreamError
from dynstore.input.arrow_sizes import unpacked_size
from dynstore.streams import decode, encode, messages, reading
from dynstore.streams.messages import Message, Messages
from dynstore.streams.pending import Pending
from dynstore.streams.units import MixedUnitsError
from tests.streams.scripted import graph


def test_a_message_that_unpacks_to_very_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_BYTES", 1 << 16)
    sink = pa.BufferOutputStream()
    table = pa.table({"source": np.zeros(10_000, np.int64), "destination": np.ones(10_000, np.int64)})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    packed = sink.getvalue().to_pybytes()
    assert len(packed) < 1 << 12
    with pytest.raises(FileFormatError, match=f"a message of {len(packed)} bytes unpacks to more than 0 MiB"):
        decode(packed)


def made_of(table: Any, compression: str | None, is_file: bool) -> bytes:
    sink = pa.BufferOutputStream()
    new = pa.ipc.new_file if is_file else pa.ipc.new_stream
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=300)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("is_file", [False, True])
def test_the_size_of_a_message_is_known_before_it_is_unpacked(compression: str | None, is_file: bool) -> None:
    names = pa.array(["ann", "bob", None, "x"] * 250)
    table = pa.table(
        {"source": np.zeros(1000, np.int64), "destination": names, "category": names.dictionary_encode(),
         "amount": np.ones(1000), "list": pa.array([[1, 2], None] * 500)}
    )  # fmt: skip
    message = made_of(table, compression, is_file)
    stream = messages._stream_of(message)
    size = unpacked_size(pa, stream)
    wanted = sum(batch.get_total_buffer_size() for batch in pa.ipc.open_stream(stream))
    assert 0.9 * wanted <= size <= 1.2 * wanted + 100
    assert decode(message).equals(table)
    assert decode(message, ["source"]).column_names == ["source"]


def test_rows_without_bytes_count() -> None:
    """Runs and nulls have as many rows as a message says."""
    table = pa.table({"source": pa.nulls(40_000)})
    size = unpacked_size(pa, made_of(table, None, False))
    assert size == 8 * 40_000


def test_heads_that_are_cut_are_no_arrow_stream() -> None:
    message = made_of(pa.table({"source": np.zeros(1000, np.int64)}), "zstd", False)
    for size in range(8, len(message) - 8, 7):
        with suppress(FileFormatError):  # and no other error
            decode(message[:size])


def test_a_long_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_BYTES", 1 << 20)
    message = b'{"source": 0, "destination": 1}' + b" " * (1 << 20)
    with pytest.raises(FileFormatError, match=f"a message of {len(message)} bytes has more than 1 MiB"):
        decode(message)


@pytest.mark.parametrize("form", ["arrow", "json"])
def test_messages_that_are_large_together_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch, form: Any) -> None:
    monkeypatch.setattr(messages, "MAX_BYTES", 1 << 14)
    rows = [encode((np.arange(50) + 100 * n, np.arange(50) + 100 * n + 1), form) for n in range(40)]
    held = Messages([Message(row, f"message {n}", n) for n, row in enumerate(rows)])
    with pytest.raises(MixedUnitsError):
        held.read(0, 40)
    G = graph()
    Stream(G, [held]).run()
    assert G.number_of_edges() == 2000


def test_rows_of_many_messages_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one call of a source has brought is put in line in parts, and the next part waits."""
    monkeypatch.setattr(reading, "PART_BYTES", 1000)
    monkeypatch.setattr(messages, "MAX_BYTES", 1 << 13)
    most = 0

    class Watched(Pending):
        def put(self, *given: Any) -> None:
            nonlocal most
            super().put(*given)
            most = max(most, self.nbytes)

    monkeypatch.setattr(reading, "Pending", Watched)
    rows = [encode((np.arange(50) + 100 * n, np.arange(50) + 100 * n + 1)) for n in range(200)]
    held = Messages([Message(row, f"message {n}", n) for n, row in enumerate(rows)])
    G = graph()
    progress = Stream(G, [held], max_pending_bytes=5000, max_delay=0.0).run()
    assert progress.applied == G.number_of_edges() == 10_000
    assert most < 5000 + (1 << 13)


def test_a_damaged_message_is_refused_before_it_is_read() -> None:
    """The offsets of a string end behind its letters."""
    message = encode(pd.DataFrame({"source": ["a" * 77], "destination": ["b"]}))
    damaged = message.replace(struct.pack("<2i", 0, 77), struct.pack("<2i", 0, 7777))
    assert damaged != message
    with pytest.raises(FileFormatError, match="is no Arrow stream"):
        decode(damaged)


@pytest.mark.parametrize("overflow", ["block", "drop-oldest", "error"])
def test_waiting_rows_are_bounded_by_bytes(overflow: Any) -> None:
    batches = [(np.arange(1000), np.arange(1000) + 1) for _ in range(50)]
    stream = Stream(graph(), batches, overflow=overflow, max_pending_bytes=40_000, batch_edges=10**6, max_delay=0.05)
    if overflow == "error":
        with pytest.raises(StreamError, match="rows wait and 1000 more came; max_pending_bytes is 40000"):
            stream.run()
    else:
        progress = stream.run()
        assert progress.applied + progress.dropped == 50_000
        assert (progress.dropped > 0) == (overflow == "drop-oldest")
