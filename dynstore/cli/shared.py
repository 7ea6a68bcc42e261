"""What several commands use: the check of a device's name, and the display of progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEVICE_HELP", "check_device", "show_progress"]

DEVICE_HELP = "Where to run: cpu, cuda (a GPU), or auto: a GPU if one can be used."


def check_device(name: str) -> None:
    """Refuse all but the public devices."""
    from dynstore.backend import DEVICES, unknown_device

    if name not in DEVICES:
        raise unknown_device(name)


@contextmanager
def show_progress() -> Iterator[tuple[Callable[[str, int, int], None], Callable[[], AbstractContextManager[None]]]]:
    """Show progress on stderr, if that is a terminal; yield a callback, and a context that hides the display."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        @contextmanager
        def aside() -> Iterator[None]:
            bar.stop()
            yield
            bar.start()

        yield advance, aside
