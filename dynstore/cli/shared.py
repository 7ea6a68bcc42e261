"""What several commands use: the check of a device's name, and the console that they print on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DEVICE_HELP", "check_device", "open_console"]

DEVICE_HELP = "Where to run: cpu, cuda (a GPU), or auto: a GPU if one can be used."
WIDTH = 160  # of tables in a file or a pipe


def check_device(name: str) -> None:
    """Refuse all but the public devices."""
    from dynstore.backend import DEVICES, unknown_device

    if name not in DEVICES:
        raise unknown_device(name)


def open_console() -> Console:
    """Return a console on stdout: as wide as the terminal, or as ``COLUMNS`` says; wide enough for tables elsewhere."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=WIDTH)
