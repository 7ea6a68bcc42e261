"""Follow card payments, and say which cards and merchants somebody should look at.

    python examples/payments/consumer.py

The graph holds the payments of the last minute: an edge from a card to a merchant, with the sum of its payments. It
lives in a folder. Kill this program at any moment and start it again: no payment is lost, and none counts twice.
Ctrl-C ends it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import typer
from payments import COLUMNS, find_address, wait_for

import dynstore
from dynstore.errors import StreamError
from dynstore.terminal import open_console

SPREE = 12  # merchants of one card
RING = 4  # each card of a ring pays at so many of its merchants, and each merchant is paid by so many of its cards
LOOK_S = 1.0
console = open_console(highlight=False, soft_wrap=True)  # names come from elsewhere


def main(
    address: Annotated[str | None, typer.Option("--from", help="redis://... or grpc://...; found by default.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the graph lives.")] = None,
    window: Annotated[str, typer.Option(help="How long a payment counts.")] = "1min",
    keep: Annotated[str, typer.Option(help="What an edge has: the sum of its payments, or their count.")] = "sum",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Follow card payments until Ctrl-C."""
    address = find_address() if address is None else address
    folder = Path(f"payments-from-{address.partition(':')[0]}") if folder is None else folder
    wait_for(address)
    with dynstore.open(folder, renumber=True, weighted=True, weight_dtype="float64", device=device) as db:
        console.print(f"{folder}: {db.graph.number_of_edges()} edges were there", style="dim")
        recent = dynstore.Window(db.graph, window, by="time", keep=keep)
        with dynstore.Stream(db.graph, address, recent, columns=COLUMNS) as stream:
            watch = Watch(stream, "cents" if keep == "sum" else "payments")
            stream.monitor("pagerank", watch.rank)
            try:
                stream.run(until=watch.look)
            except StreamError as error:  # such as a lost connection
                console.print(f"the stream has broken off: {error}\nStart the consumer again; it goes on there.")
                raise typer.Exit(1) from error
    console.print("the consumer has stopped", style="dim")


class Finding(NamedTuple):
    """What somebody should look at; the members of a ring, which may grow."""

    text: str
    members: frozenset[str]


class Watch:
    """Looks at the graph once a second, and prints what is new."""

    def __init__(self, stream: dynstore.Stream, unit: str) -> None:
        self.stream, self.unit, self.top = stream, unit, ""
        self.known: list[Finding] = []
        self.due, self.version = 0.0, -1

    def rank(self, tick: Any) -> None:
        """Note the merchant that gathers most; called after each batch, on a thread of its own."""
        ranks = on_host(tick.result)
        self.top = ranks["vertex"][ranks["pagerank"].argmax()]

    def look(self, progress: Any) -> bool:
        """Look again if it is time; the stream goes on."""
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + LOOK_S
            self.show()
        return False

    def show(self) -> None:
        """Print what was found, and one line, if there is anything new."""
        answer = self.stream.ask(lambda graph: on_host(graph.edge_table())).result()
        if answer.version == self.version or answer.event_time is None:
            return
        self.version, edges = answer.version, answer.result
        if answer.rebuilding:
            console.print("the last minute is being read again", style="dim")
            return
        for finding in find(edges):
            if not any(finding == old or finding.members < old.members for old in self.known):
                self.known.append(finding)
                console.print(f"  look at this: {finding.text}", style="bold red")
        console.print(
            f"up to {str(answer.event_time)[11:23]}  {edges['source'].nunique():5d} cards  "
            f"{edges['destination'].nunique():4d} merchants  {edges['weight'].sum():12,.0f} {self.unit}  "
            f"most sought {self.top}  {self.stream.progress().p50_ms:4.0f} ms from arrival to answer"
        )


def find(edges: pd.DataFrame) -> Iterator[Finding]:
    """Yield what a fraud analyst wants to see in the edges of the last minute."""
    merchants = edges.groupby("source").size()
    for card in sorted(merchants.index[merchants >= SPREE]):
        yield Finding(f"{card} is used at many merchants", frozenset())
    core = peel(edges)
    if len(core):
        links = dynstore.DynamicGraph.from_edges(core, directed=False, renumber=True, device="cpu")
        labels = dynstore.weakly_connected_components(links).set_index("vertex")["labels"]
        for _, ring in core.groupby(core["source"].map(labels)):
            cards, shops = (", ".join(sorted(ring[end].unique())) for end in ("source", "destination"))
            yield Finding(f"a ring: {cards} pay at {shops}", frozenset(ring["source"]) | frozenset(ring["destination"]))


def peel(edges: pd.DataFrame) -> pd.DataFrame:
    """Return the edges that are left when cards and merchants with fewer than ``RING`` of them go, again and again."""
    while True:
        sizes = [edges.groupby(end)[end].transform("size") for end in ("source", "destination")]
        stays = (sizes[0] >= RING) & (sizes[1] >= RING)
        if stays.all():
            return edges
        edges = edges[stays]


def on_host(frame: Any) -> pd.DataFrame:
    """Return a frame of cuDF as one of pandas."""
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


if __name__ == "__main__":
    typer.run(main)
