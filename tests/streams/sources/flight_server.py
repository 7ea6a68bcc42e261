"""An Arrow Flight server that sends known rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

flight = pytest.importorskip("pyarrow.flight")

ROWS, BATCHES = 50, 40
SCHEMA = pa.schema([("source", pa.int64()), ("destination", pa.int64())])


class Server(flight.FlightServerBase):  # type: ignore[misc, name-defined]
    """Sends batches of rows that are all different: row k is the edge (first + k, first + k + 1)."""

    def __init__(self, port: int = 0, batches: int = BATCHES, first: int = 0, pause: float = 0.0) -> None:
        super().__init__(f"grpc://127.0.0.1:{port}")
        self.batches, self.first, self.pause = batches, first, pause
        self.calls, self.go_on = 0, Event()

    def do_get(self, context: Any, ticket: Any) -> Any:
        first, count = self.first, self.batches  # a call sends the same to its end
        self.calls += 1
        count += ticket.ticket == b"waits"

        def batches() -> Iterator[Any]:
            for number in range(count):
                time.sleep(self.pause)
                if ticket.ticket == b"waits" and number == count - 1:
                    self.go_on.wait(60)
                rows = pa.array(range(first + number * ROWS, first + (number + 1) * ROWS + 1))
                yield pa.record_batch([rows[:-1], rows[1:]], schema=SCHEMA)
                if ticket.ticket == b"dies" and number == 2:
                    raise flight.FlightInternalError("no more today")

        return flight.GeneratorStream(SCHEMA, batches())
