"""The commands in one program, and what it does with errors."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any

import typer

from dynstore.cli.bench_command import EXAMPLES as BENCH_EXAMPLES
from dynstore.cli.bench_command import bench, with_hint
from dynstore.cli.log_commands import export, log
from dynstore.cli.shared import DEVICE_HELP, check_device, say
from dynstore.cli.stream_command import EXAMPLES as STREAM_EXAMPLES
from dynstore.cli.stream_command import stream
from dynstore.errors import DynstoreError, InputError, MissingDependencyError, without_secrets
from dynstore.terminal import show_progress, visible

__all__ = ["app", "info", "main", "warmup"]

# Click's usage error, wherever this version of typer keeps Click.
_ClickException: Any = typer.BadParameter.__mro__[2]
INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command and exit; the entry point."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # what it cannot show, such as a file's name, ends no run
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # newer versions of typer turn Ctrl-C into this code
            raise KeyboardInterrupt
    except _ClickException as error:
        code = _complain(with_hint(error.format_message()), 2)
    except (InputError, MissingDependencyError) as error:
        code = _complain(str(error), 2)
    except (DynstoreError, MemoryError) as error:
        code = _complain(str(error) or "memory ran out", 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("interrupted; what was not finished was not written", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has closed, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code or 0)


def _complain(message: str, code: int) -> int:
    print(f"dynstore: error: {visible(' '.join(without_secrets(message).split()))}", file=sys.stderr)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        import dynstore

        typer.echo(f"dynstore {dynstore.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Graphs that change, on the host or on a GPU: see what is installed, measure, follow a stream, read a log."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def info() -> None:
    """Show which GPU and packages were found; for what is missing, the command that installs it."""
    import dynstore
    from dynstore.bench.machine import look_around

    typer.echo(f"dynstore {dynstore.__version__}")
    findings = look_around()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        missing = f"not found; {finding.remedy}"
        say(f"  {finding.name:<{width}}  {missing if finding.found is None else finding.found}")


@app.command()
def warmup(
    device: Annotated[str, typer.Option(help=DEVICE_HELP)] = "auto",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one a processor, at most 8.")] = None,
) -> None:
    """Compile the usual kernels of the default store, the algorithms and tracked answers, before they are needed.

    The first time this takes a minute or two. The kernels are kept on disk, so a second run compiles nothing.
    """
    check_device(device)
    import time

    from dynstore.cli.warmup import run_steps, warmup_steps

    began, compiled = time.perf_counter(), 0
    steps = list(warmup_steps(device))
    with show_progress() as (advance, _):
        advance("compiling", 0, len(steps))
        for number, done in enumerate(run_steps(steps, jobs), start=1):
            advance(done.name, number, len(steps))
            compiled += done.compiled
            if not sys.stderr.isatty():
                typer.echo(f"{done.name}: {done.compiled} compiled, {done.seconds:.1f} s")
    typer.echo(f"{compiled} kernels compiled in {time.perf_counter() - began:.0f} s; the others were on disk")


app.command(epilog=BENCH_EXAMPLES)(bench)
app.command(epilog=STREAM_EXAMPLES)(stream)
app.command()(log)
app.command()(export)
