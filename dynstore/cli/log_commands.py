"""The commands about databases: ``dynstore log`` and ``dynstore export``. Both only read."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynstore.cli.shared import open_console, say
from dynstore.errors import InputError
from dynstore.terminal import visible

if TYPE_CHECKING:
    from rich.table import Table

    from dynstore.durable.listing import Listing

__all__ = ["export", "log"]

_Folder = Annotated[Path, typer.Argument(metavar="PATH", help="The folder that dynstore.open has made.")]


class _Form(StrEnum):
    """What edges are exported as."""

    parquet = "parquet"


def log(
    path: _Folder,
    last: Annotated[int, typer.Option(min=0, help="How many of the newest records to show; 0: all.")] = 20,
) -> None:
    """List the records of a database's log: version, kind, rows, bytes, position of the source."""
    from dynstore.durable.listing import list_log

    try:
        listing = list_log("log", path)
        shown = deque(listing.entries(), maxlen=last or None)
    except OSError as error:
        raise InputError(f"log: cannot read {str(path)!r}: {error.strerror or error}") from error
    console = open_console()
    if shown:
        console.print(_table(listing, shown))
    console.print(_summary(listing), highlight=False)


def _table(listing: Listing, shown: Any) -> Table:
    from rich.table import Table

    table = Table(title=f"the last {len(shown):,} records" if len(shown) < listing.records else None)
    for name in ("version", "rows", "bytes"):
        table.add_column(name, justify="right")
    table.add_column("update")
    table.add_column("position")
    for entry in shown:
        place = entry.change.position
        position = place.decode("ascii", "backslashreplace") if place else "-"
        size = entry.end - entry.start
        table.add_row(
            f"{entry.head.version}", f"{entry.head.rows:,}", f"{size:,}", entry.head.kind, visible(position[:60])
        )
    return table


def _summary(listing: Listing) -> str:
    from dynstore.bench.reports.summary import format_bytes

    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(listing.kinds.items())) or "none"
    lines = [
        f"{listing.records:,} record{'s' * (listing.records != 1)}: {kinds}; {listing.rows:,} rows, "
        f"{format_bytes(listing.bytes)}",
        f"checkpoints: {', '.join(map(str, listing.checkpoints))}; last version: {listing.version}",
    ]
    if listing.cut:
        lines.append(f"{listing.cut:,} bytes behind the last record are not whole; opening the folder cuts them off")
    return "\n".join(lines)


def export(
    path: _Folder,
    to: Annotated[_Form, typer.Option(help="The format of the file.")] = _Form.parquet,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; by default PATH.parquet in this folder.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=0, help="The version of the graph; by default the last one.")
    ] = None,
) -> None:
    """Write the edges of a database's graph to a file, each undirected edge once."""
    from dynstore.adapters.tables.parquet import write_parquet
    from dynstore.bench.outputs import check_outputs
    from dynstore.durable.folder import read_manifest, restore

    folder = path.absolute()
    target = Path(f"{folder.name}.{to.value}") if output is None else output
    check_outputs(target)
    try:
        restored = restore("export", folder, read_manifest("export", folder), "cpu", "auto", version)
        write_parquet(restored.graph, target.absolute())
    except OSError as error:
        raise InputError(f"export: {error}") from error
    edges = restored.graph.number_of_edges()
    say(f"wrote {target}: {edges:,} edges of version {restored.graph.version}")
