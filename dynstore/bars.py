"""The bar that shows on stderr how far a long call is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from dynstore.terminal import open_console, visible

__all__ = ["Advance", "ignore_progress", "show_progress"]

# What is done now, how much of it is done, and how much there is.
Advance: TypeAlias = Callable[[str, int, int], None]


def ignore_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


@contextmanager
def show_progress(wanted: bool = True) -> Iterator[tuple[Advance, Callable[[], AbstractContextManager[None]]]]:
    """Show a bar on stderr, if that is a terminal; yield what moves it, and a context that hides it.

    Parameters
    ----------
    wanted : bool
        If False, nothing is shown, and Rich is not loaded.
    """
    if not wanted:
        yield ignore_progress, nullcontext
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = open_console(stderr=True)
    columns = (
        TextColumn("{task.description:>12}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    # What is printed meanwhile stays on stdout, which may be a file. A bar needs a terminal whose cursor moves.
    quiet = not console.is_interactive
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, disable=quiet) as bar:
        task = bar.add_task("", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=visible(what), completed=done, total=total)

        @contextmanager
        def aside() -> Iterator[None]:
            bar.stop()
            yield
            bar.start()

        yield advance, aside
