"""``dynstore stream``: edges from a file, a data set or a server into a graph, shown while they come."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynstore.cli.shared import (
    COMMENT_HELP,
    DELIMITER_HELP,
    DEVICE_HELP,
    HEADER_HELP,
    IDS_HELP,
    check_device,
    open_console,
    read_delimiter,
    say,
)
from dynstore.errors import DynstoreError, InputError, StreamError, cause_of, without_secrets
from dynstore.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph import DynamicGraph
    from dynstore.streams import Progress, StreamMonitor

__all__ = ["EXAMPLES", "stream", "top_rows"]

EXAMPLES = (
    "[bold]Examples[/bold]\n\n"
    "dynstore stream collegemsg --window 10000 --monitor pagerank\n\n"
    "dynstore stream payments.csv --follow --column source=payer --column destination=payee --any-ids\n\n"
    "dynstore stream redis://localhost:6379/edges --window 1h --monitor weakly_connected_components --log edges\n\n"
)
SECOND = 1.0
TOP = 5
_DATA, _GRAPH = "Rows", "Graph and answers"
# What messages say to programs, and what the command's user types instead.
TYPED = {
    "A graph made with renumber=True takes": "With --any-ids the graph takes",
    "header=True (--header) or header=False (--no-header), or name the columns": "--header or --no-header, or name the "
    "columns: --column source=... --column destination=...",
}
NAMED_ROLES = re.compile(r"Name (?:it|them): columns=\{(.*)\}")


def stream(
    source: Annotated[
        str,
        typer.Argument(
            help="A text file, a data set's name, redis://HOST:PORT/KEY, nats://HOST:PORT/SUBJECT, "
            "kafka://HOST:PORT/TOPIC or grpc://HOST:PORT/TICKET.",
        ),
    ],
    window: Annotated[
        str | None,
        typer.Option(
            help="Keep this many rows, or the rows of a length of time such as 1h or 30min.", rich_help_panel=_GRAPH
        ),
    ] = None,
    monitor: Annotated[
        list[str] | None,
        typer.Option(
            help="Answer to keep up to date, such as pagerank or bfs:start=0; repeatable.", rich_help_panel=_GRAPH
        ),
    ] = None,
    every: Annotated[
        int, typer.Option(help="After how many batches answers are computed.", rich_help_panel=_GRAPH)
    ] = 1,
    directed: Annotated[
        bool, typer.Option("--directed/--undirected", help="Kind of the graph.", rich_help_panel=_GRAPH)
    ] = True,
    weighted: Annotated[
        bool, typer.Option("--weighted", help="The graph has weights, from the column weight.", rich_help_panel=_GRAPH)
    ] = False,
    any_ids: Annotated[
        bool,
        typer.Option(
            "--any-ids",
            help="Vertices are texts, or numbers of any size; without it, numbers 0, 1, 2, ...",
            rich_help_panel=_GRAPH,
        ),
    ] = False,
    device: Annotated[str, typer.Option(help=DEVICE_HELP, rich_help_panel=_GRAPH)] = "auto",
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="Name of a column; ROLE is source, destination, weight, time or op; repeatable. By default a column "
            "is called like its role.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help=DELIMITER_HELP, rich_help_panel=_DATA)] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help=HEADER_HELP, rich_help_panel=_DATA)
    ] = None,
    comment: Annotated[str | None, typer.Option(help=COMMENT_HELP, rich_help_panel=_DATA)] = None,
    ids: Annotated[str | None, typer.Option(help=IDS_HELP, rich_help_panel=_DATA)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="At the end of a file, wait for more rows.", rich_help_panel=_DATA)
    ] = False,
    batch: Annotated[int, typer.Option(help="The most rows in a batch.", rich_help_panel=_DATA)] = 65_536,
    max_delay: Annotated[
        float, typer.Option(help="The most seconds that a row waits for its batch to fill up.", rich_help_panel=_DATA)
    ] = 0.05,
    max_pending: Annotated[int, typer.Option(help="The most rows that may wait.", rich_help_panel=_DATA)] = 4_000_000,
    overflow: Annotated[
        str,
        typer.Option(
            help="If more rows arrive: block (the source waits), drop-oldest, or error.", rich_help_panel=_DATA
        ),
    ] = "block",
    on_error: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="A message or line that cannot be read: raise, skip, or a file, or an address like that of the "
            "source, that gets it.",
            rich_help_panel=_DATA,
        ),
    ] = "raise",
    on_gap: Annotated[
        str,
        typer.Option(
            help="If the source lacks what was not read yet, as after it was trimmed: raise, or continue.",
            rich_help_panel=_DATA,
        ),
    ] = "raise",
    lateness: Annotated[
        str | None,
        typer.Option(
            help="Ignore rows that are older than the newest one by more than this, such as 10s.", rich_help_panel=_DATA
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which the graph is kept through crashes (dynstore.open); a later run goes on there.",
            rich_help_panel=_GRAPH,
        ),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="End after this many seconds.", rich_help_panel=_DATA)] = None,
) -> None:
    """Put a stream of edges into a graph, and show its rates and answers until it ends or Ctrl-C.

    On a terminal the display is live; elsewhere a line is printed each second.

    At the end it prints the last answers: the five largest values of each.
    """
    check_device(device)
    from dynstore.streams import Stream
    from dynstore.windows.window import Window

    options: dict[str, Any] = {"directed": directed, "weighted": weighted, "renumber": any_ids, "device": device}
    held: Any = None
    if log is not None and window is not None and not window.isdecimal():
        options["timestamps"], held = "int64", window  # no rows have to be read again
    with _open_graph(log, options) as graph:
        if window is not None and held is None:
            held = Window(graph, int(window)) if window.isdecimal() else Window(graph, window, by="time")
        late = None if lateness is None else _number(lateness)
        flow = Stream(
            graph,
            _open(source, follow, any_ids, read_delimiter(delimiter), header, comment),
            held,
            batch,
            max_delay,
            max_pending,
            overflow,  # type: ignore[arg-type]
            late,
            dict(_pair("--column", text, "ROLE=NAME") for text in column or ()),
            ids,  # type: ignore[arg-type]
            on_error,
            on_gap=on_gap,  # type: ignore[arg-type]
        )
        monitors = [_monitor(flow.monitor, text, every) for text in monitor or ()]
        show = _show_live if sys.stdout.isatty() else _show_lines
        try:
            progress = show(flow, monitors, seconds)
        except DynstoreError as error:
            raise type(error)(_as_typed(str(error))) from error
        except MemoryError:
            raise
        except Exception as error:  # a server's, such as a lost connection
            raise StreamError(without_secrets(f"stream: {source}: {error}")) from cause_of(error)
        say(f"{progress}\n{graph}")
        _show_answers(monitors)


@contextmanager
def _open_graph(log: Path | None, options: dict[str, Any]) -> Iterator[DynamicGraph]:
    """Make a graph, or open that of a database."""
    from dynstore.graph import DynamicGraph

    if log is None:
        yield DynamicGraph(**options)
        return
    from dynstore.durable import open as open_database

    try:
        database = open_database(log, **options)
    except OSError as error:
        raise InputError(f"stream: {error}") from error
    with database as db:
        yield db.graph


def _open(
    source: str, follow: bool, any_ids: bool, delimiter: str | None, header: bool | None, comment: str | None
) -> Any:
    """Return what a stream takes as its source; of a file that cannot grow, all its events."""
    from dynstore.datasets import resolve
    from dynstore.io import read_events
    from dynstore.streams import FileSource, open_source

    if "://" in source:
        return open_source(source)
    if not Path(source).exists():
        return resolve(source)
    if not follow and not FileSource.can_follow(source):
        events = read_events(source, renumber=any_ids, progress=True)
        say(f"{source}: {events.dialect}")
        return events
    opened = FileSource(source, follow, delimiter, header, comment)
    opened.on_dialect = lambda dialect: say(f"{source}: {dialect}")
    return opened


def _as_typed(message: str) -> str:
    for said, typed in TYPED.items():
        message = message.replace(said, typed)
    return NAMED_ROLES.sub(
        lambda found: "Say " + " ".join(f"--column {role}=..." for role in re.findall(r"'(\w+)'", found[1])), message
    )


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise InputError(f"{option}: got {text!r}; wanted {form}")
    return name, value


def _number(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _monitor(add: Callable[..., StreamMonitor], text: str, every: int) -> StreamMonitor:
    """Add a monitor of NAME or NAME:KEY=VALUE,KEY=VALUE."""
    name, _, given = text.partition(":")
    pairs = [_pair("--monitor", each, "KEY=VALUE") for each in given.split(",")] if given else []
    return add(name, every=every, **{key: _number(value) for key, value in pairs})


def _show_lines(flow: Any, monitors: list[StreamMonitor], seconds: float | None) -> Progress:
    """Print a line a second."""
    shown = time.monotonic()

    def look(progress: Progress) -> None:
        nonlocal shown
        if time.monotonic() - shown >= SECOND:
            shown = time.monotonic()
            say(str(progress))

    return _run(flow, seconds, look)


def _show_live(flow: Any, monitors: list[StreamMonitor], seconds: float | None) -> Progress:
    """Show a table of figures, and the top of each answer."""
    from rich.live import Live

    with Live(console=open_console(), refresh_per_second=4, transient=True) as live:
        return _run(flow, seconds, lambda progress: live.update(_page(progress, monitors)))


def _show_answers(monitors: list[StreamMonitor]) -> None:
    """Print the top of each answer."""

    console = open_console()
    for monitor in monitors:
        if monitor.latest is not None:
            console.print(_top(monitor))


def _run(flow: Any, seconds: float | None, look: Callable[[Progress], None]) -> Progress:
    ends = None if seconds is None else time.monotonic() + seconds

    def until(progress: Progress) -> bool:
        look(progress)
        return ends is not None and time.monotonic() >= ends

    progress: Progress = flow.run(until=until)
    return progress


def _page(progress: Progress, monitors: list[StreamMonitor]) -> Any:
    """Return what a terminal shows."""
    from rich.console import Group
    from rich.table import Table

    from dynstore.streams.progress import shown_ms

    figures = Table.grid(padding=(0, 2))
    lag = "" if progress.event_lag is None else f", {progress.event_lag} behind in event time"
    for name, text in (
        ("rows", f"{progress.applied:,} applied, {progress.edges_per_s:,.0f} /s; version {progress.version:,}"),
        ("waiting", f"{progress.pending:,} rows, the oldest for {1e3 * progress.arrival_lag_s:,.0f} ms{lag}"),
        (
            "delay",
            f"{shown_ms(progress.p50_ms)} ms (median), {shown_ms(progress.p99_ms)} ms (99 %) from arrival to answer",
        ),
        ("ms a batch", ", ".join(f"{stage} {shown_ms(ms)}" for stage, ms in progress.ms.items() if ms)),
        ("left out", f"{progress.late:,} late, {progress.dropped:,} dropped"),
        *((("error", progress.errors[-1]),) if progress.errors else ()),
    ):
        figures.add_row(name, text)
    return Group(figures, *(_top(each) for each in monitors))


def _top(monitor: StreamMonitor) -> Any:
    """Return the largest rows of an answer as a table; of components, the largest ones."""
    from rich.table import Table

    from dynstore.streams.progress import shown_ms

    tick = monitor.latest
    title = monitor.name if tick is None else f"{monitor.name}, {shown_ms(tick.ms)} ms"
    table = Table(title=title, title_justify="left", min_width=len(title))
    if tick is None:
        return table
    components = "components" in monitor.name
    table.add_column("component" if components else "vertex")
    table.add_column("vertices" if components else _value_column(tick.result))
    for cells in top_rows(monitor.name, tick.result):
        table.add_row(*cells)
    return table


def _value_column(result: Any) -> str:
    from dynstore.input.forms import column_names

    return str(next(name for name in column_names(result) if name != "vertex"))


def top_rows(name: str, result: Any) -> list[tuple[str, str]]:
    """Return the largest values of a result and their vertices; of components, the largest and their sizes."""
    import numpy as np

    from dynstore.streams.rows import as_array

    values = as_array(result[_value_column(result)])
    if "components" in name:
        labels, sizes = np.unique(values, return_counts=True)
        vertices, values = labels, sizes
    else:
        vertices = as_array(result["vertex"])
    top = np.argsort(values, kind="stable")[::-1][:TOP]
    form = ".4g" if values.dtype.kind == "f" else ","
    return [(visible(vertices[row]), format(values[row], form)) for row in top]
