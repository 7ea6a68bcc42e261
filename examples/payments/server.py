"""Send card payments, a message of them at a time: into a stream of Redis, or to all who call an Arrow Flight server.

    python examples/payments/server.py

It begins where it stopped: a message that was sent is not sent again. Ctrl-C ends it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from payments import find_address, make_message

from dynstore.errors import without_secrets
from dynstore.streams import encode


def main(
    address: Annotated[str | None, typer.Option("--to", help="redis://... or grpc://...; found by default.")] = None,
    messages: Annotated[int | None, typer.Option(help="Send so many; endless by default.")] = None,
    rows: Annotated[int, typer.Option(help="Payments in a message.")] = 50,
    every: Annotated[float, typer.Option(help="Seconds between two messages.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Other numbers make other payments.")] = 7,
) -> None:
    """Send card payments until Ctrl-C."""
    address = find_address() if address is None else address
    send = send_to_redis if address.startswith("redis") else serve_flight
    print(f"payments go to {without_secrets(address)}", flush=True)
    try:
        send(address, messages, rows, every, seed)
    except KeyboardInterrupt:
        print("the server has stopped", flush=True)


def send_to_redis(address: str, messages: int | None, rows: int, every: float, seed: int) -> None:
    """Add messages to a stream of Redis; message k has the id k+1, so that Redis refuses it a second time."""
    import redis

    place, key = urlsplit(address), urlsplit(address).path.lstrip("/")
    client = redis.Redis(place.hostname, place.port)
    last = client.xrevrange(key, count=1)
    number = int(last[0][0].split(b"-")[0]) if last else 0
    while messages is None or number < messages:
        message = encode(make_message(number, rows, seed))
        client.xadd(key, {"edges": message}, id=f"{number + 1}-0")
        number += 1
        time.sleep(every)


def serve_flight(address: str, messages: int | None, rows: int, every: float, seed: int) -> None:
    """Serve messages to all who call, from the first one on; those that are due already come at once."""
    import pyarrow
    from pyarrow import flight

    begun = time.monotonic()

    def batch(number: int) -> Any:
        return pyarrow.RecordBatch.from_pandas(make_message(number, rows, seed), preserve_index=False)

    class Server(flight.FlightServerBase):
        def do_get(self, context: Any, ticket: Any) -> Any:
            def batches() -> Iterator[Any]:
                number = 0
                while messages is None or number < messages:
                    while time.monotonic() < begun + number * every:
                        time.sleep(min(every, 0.05))
                    yield batch(number)
                    number += 1
                while not context.is_cancelled():  # as a stream of Redis, it has no end
                    time.sleep(0.05)

            return flight.GeneratorStream(batch(0).schema, batches())

    place = urlsplit(address)
    with Server(f"grpc://{place.hostname}:{place.port}") as server:
        server.serve()  # returns at Ctrl-C


if __name__ == "__main__":
    typer.run(main)
