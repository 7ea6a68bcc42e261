"""``dynstore bench``: stores timed on a stream of edges, beside the usual ways to make a new graph.

Output files are written at the end, completely or not at all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

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
)
from dynstore.errors import DynstoreError, InputError, without_secrets
from dynstore.terminal import show_progress

__all__ = ["EXAMPLES", "bench", "with_hint"]

EXAMPLES = (
    "[bold]Examples[/bold]\n\n"
    "dynstore bench\n\n"
    "dynstore bench collegemsg --store gpma+ --store rebuild --algorithm bfs --batch 500 --steps 10\n\n"
    "dynstore bench rmat:20:8 --seed 1 --batch 0.1% --algorithm none --json out.json --report out.html\n\n"
    "dynstore bench yourlog.csv --source payer --destination payee --time when\n\n"
    "dynstore bench trades.csv --source buyer --destination seller --time day --weight price\n\n"
    "dynstore bench changes.tsv.xz --time 0 --op 1 --source 2 --destination 3 --weight 4 --algorithm bfs\n\n"
)
_DATA, _COLUMNS, _GRAPH, _OUTPUT = "Data and window", "Columns of a file", "Graph and stores", "Output"
DEFAULT_DATA = "collegemsg"  # which each installation has
_OF_PAPERS = ("--data-dir", "--limit-seconds", "--shrink", "--table")  # options for the experiments of papers


def bench(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            help="collegemsg (the default, shipped) or mathoverflow (in a checkout); rmat:SCALE:EDGEFACTOR or "
            "uniform:VERTICES:EDGES (generated); or a file: text, csv, tsv, .mtx, .graph, .parquet, also .gz, .xz, "
            ".bz2 and .tar.gz.",
        ),
    ] = DEFAULT_DATA,
    window: Annotated[
        str, typer.Option(help="Size of the window, as a share of all events.", rich_help_panel=_DATA)
    ] = "0.5",
    batch: Annotated[
        str,
        typer.Option(
            help="Events that enter and leave in a step: a number, or a share of all events. With --suite updates or "
            "tracked also several, by comma.",
            rich_help_panel=_DATA,
        ),
    ] = "1%",
    steps: Annotated[
        int,
        typer.Option(help="How many steps are timed. One more goes before them, to warm up.", rich_help_panel=_DATA),
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers of generated data.", rich_help_panel=_DATA)] = 0,
    source: Annotated[
        str | None, typer.Option(help="Column of sources, by name, or by number from 0.", rich_help_panel=_COLUMNS)
    ] = None,
    destination: Annotated[str | None, typer.Option(help="Column of destinations.", rich_help_panel=_COLUMNS)] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="Column of weights; the graphs are then weighted.", rich_help_panel=_COLUMNS),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column of times, by which events are sorted: numbers, ISO dates or date-times.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    op: Annotated[
        str | None,
        typer.Option(
            help="Column of changes, which are replayed: '+' inserts an edge, '-' deletes it, 'w' sets its weight.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help=DELIMITER_HELP, rich_help_panel=_COLUMNS)] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help=HEADER_HELP, rich_help_panel=_COLUMNS)
    ] = None,
    comment: Annotated[str | None, typer.Option(help=COMMENT_HELP, rich_help_panel=_COLUMNS)] = None,
    ids: Annotated[str | None, typer.Option(help=IDS_HELP, rich_help_panel=_COLUMNS)] = None,
    store: Annotated[
        list[str] | None,
        typer.Option(help="Store to measure; repeatable. By default gpma+, rebuild and merge.", rich_help_panel=_GRAPH),
    ] = None,
    store_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STORE:]KEY=VALUE", help="Option of all stores, or of one; repeatable.", rich_help_panel=_GRAPH
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="Algorithm to run after each step; repeatable. 'none': only updates. By default bfs, pagerank and "
            "triangle_count.",
            rich_help_panel=_GRAPH,
        ),
    ] = None,
    warm_start: Annotated[
        bool,
        typer.Option(
            "--warm-start", help="Let pagerank start from the ranks of the last step.", rich_help_panel=_GRAPH
        ),
    ] = False,
    directed: Annotated[
        bool | None,
        typer.Option(
            "--directed/--undirected",
            help="Kind of the graphs. By default undirected if an algorithm needs that, else directed.",
            rich_help_panel=_GRAPH,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help=DEVICE_HELP, rich_help_panel=_GRAPH)] = "auto",
    suite: Annotated[
        str,
        typer.Option(
            help="What to measure. window: updates and algorithms while a window slides. updates: updates alone, by "
            "size and kind of batch. slides: what dynstore.Window costs. tracked: tracked answers beside computing "
            "anew.",
            rich_help_panel=_GRAPH,
        ),
    ] = "window",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Kind of batches, with --suite updates or tracked; repeatable; all by default.", rich_help_panel=_GRAPH
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the result as JSON.", rich_help_panel=_OUTPUT)] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the result as one self-contained HTML page.", rich_help_panel=_OUTPUT)
    ] = None,
) -> None:
    """Slide a window over a stream of edges, and time the updates and algorithms of several stores.

    After every step all stores must hold exactly the window's pairs.

    They must also give the same answers. If not, the command fails with exit code 1.
    """
    check_device(device)

    from dynstore.bench.machine import share_memory
    from dynstore.bench.outputs import check_outputs, write_outputs
    from dynstore.bench.schema import make_document
    from dynstore.bench.store_options import read_store_options
    from dynstore.bench.stream import describe_stream
    from dynstore.bench.suites import get_suite
    from dynstore.compilations import compilations
    from dynstore.datasets import resolve
    from dynstore.datasets.names import is_generated

    check_outputs(json, report)
    chosen = get_suite(suite)
    if kind and suite not in ("tracked", "updates"):
        raise InputError(f"bench: got --kind, which --suite {suite} does not use; leave it out")
    stores = store or chosen.defaults.get("store", ["gpma+", "rebuild", "merge"])
    algorithms = algorithm or chosen.defaults.get("algorithm", ["bfs", "pagerank", "triangle_count"])
    options: dict[str, Any] = {
        "steps": steps,
        "device": device,
        "stores": stores,
        "algorithms": [] if algorithms == ["none"] else algorithms,
        "window": _read_share(window),
        "batch": batch if _is_given(context, "batch") else chosen.defaults.get("batch", batch),
        "directed": directed,
        "weighted": weight is not None,
        "warm_start": warm_start,
        "store_options": read_store_options("bench", store_option or [], stores),
    }
    if kind:
        options["kinds"] = kind
    compilations.announced = True  # the suites warm up, and show it
    job = chosen.make_job(**options)
    chosen.check(job)
    share_memory(device)
    console = open_console()
    with show_progress() as (advance, _):
        advance("reading", 0, steps)
        events = resolve(
            data,
            seed,
            source=source,
            destination=destination,
            weight=weight,
            time=time,
            op=op,
            delimiter=read_delimiter(delimiter),
            header=header,
            comment=comment,
            ids=ids,
        )
        result = chosen.run(events, job, advance)
    dataset = describe_stream(events, seed if is_generated(data) else None)
    console.print(
        f"{events.name}: {len(events):,} events between {dataset['vertices']:,} vertices; on {result.device}",
        highlight=False,
    )
    if events.dialect:
        console.print(f"  {events.dialect}", highlight=False)
    if events.time is None and events.op is None and dataset["seed"] is None:
        console.print("  in the file's order; --time COLUMN would sort the events", highlight=False)
    document = make_document(suite, _command(), dataset, result.rows, result.disagreement is None)
    if events.ids is not None:
        what = "whole numbers" if events.ids.dtype.kind in "iu" else "texts"
        result.notes.insert(0, f"{len(events.ids):,} ids ({what}), numbered in the order of their first occurrence")
    for note in result.notes:
        console.print(f"  {note}", highlight=False)
    chosen.show(console, job, result)
    outputs: dict[Path, Any] = {} if json is None else {json: document}
    if report is not None:
        outputs[report] = chosen.render(document, job, result)
    write_outputs(outputs)
    if result.disagreement is not None:
        raise DynstoreError(result.disagreement)


def with_hint(message: str) -> str:
    """Say where an unknown option is, if the experiments of papers have it."""
    option = next((name for name in _OF_PAPERS if name in message), None)
    if option is None or not message.startswith("No such option"):
        return message
    from dynstore.bench.suites import WHERE_PAPERS_ARE

    return f"No such option: {option}; {WHERE_PAPERS_ARE}"


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was typed."""
    return getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"


def _read_share(text: str) -> float:
    """Read "0.5" or "50%"."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InputError(
            f"bench: --window is {text!r}; wanted a share of the stream between 0 and 1, such as 0.5"
        ) from None


def _command() -> str:
    """Return the command as it was typed, without the folder of the program."""
    import shlex

    from dynstore.bench.outputs import printable

    return without_secrets(printable(shlex.join(["dynstore", *sys.argv[1:]])))
