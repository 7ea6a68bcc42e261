"""Texts from elsewhere on their way to a terminal, and the bar that shows how far a long call is.

Texts are names of vertices, columns and files, and messages of other programs.

Terminals obey control characters: they move the cursor, change titles, turn the direction of writing round. So these
are shown as Python writes them, such as ``\\x1b``. All else stays as it is. Rich would obey markup, too, such as
``[red]``; :func:`open_console` makes a console that obeys neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Advance", "ignore_progress", "open_console", "show_progress", "visible", "visible_lines"]

# What is done now, how much of it is done, and how much there is.
Advance: TypeAlias = Callable[[str, int, int], None]
# C0 and DEL, C1; marks, embeddings and isolates of direction; separators of lines; halves of characters.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    r"""Return a text of one line that a terminal shows as it is, with control characters escaped.

    >>> print(visible("ann\x1b[31m"), visible("Zoë"))
    ann\x1b[31m Zoë
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def visible_lines(text: object) -> str:
    """Return the same of a text of several lines, which stay."""
    return "\n".join(map(visible, str(text).split("\n")))


def open_console(**options: Any) -> Console:
    """Return a console of Rich that shows every text as it is: it obeys no markup, and no control characters.

    Parameters
    ----------
    **options
        Those of ``rich.console.Console``.
    """
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, **styling: Any) -> Any:
            return super().render_str(visible_lines(text), **{**styling, "markup": False, "emoji": False})

    return Plain(markup=False, emoji=False, **options)


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
