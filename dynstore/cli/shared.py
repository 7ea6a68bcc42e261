"""What several commands use: the check of a device's name, and the console that they print on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from dynstore import terminal

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "COMMENT_HELP",
    "DELIMITER_HELP",
    "DEVICE_HELP",
    "HEADER_HELP",
    "IDS_HELP",
    "check_device",
    "open_console",
    "read_delimiter",
    "say",
]

DEVICE_HELP = "Where to run: cpu, cuda (a GPU), or auto: a GPU if one can be used."
DELIMITER_HELP = "What stands between two fields: a character, tab or ::; ' ' for any blanks. By default it is found."
HEADER_HELP = "Whether the first row of a text file has names. By default it is found, or asked for."
COMMENT_HELP = "What lines begin with that are left out. By default # and %, if such lines are above the first row."
IDS_HELP = "What ids of a text file are: integer or text. By default the first rows decide."
WIDTH = 160  # of tables in a file or a pipe


def check_device(name: str) -> None:
    """Refuse all but the public devices."""
    from dynstore.backend import DEVICES, unknown_device

    if name not in DEVICES:
        raise unknown_device(name)


def read_delimiter(typed: str | None) -> str | None:
    """Return the delimiter that was typed."""
    return "\t" if typed in ("\\t", "tab") else typed


def open_console() -> Console:
    """Return a console on stdout: as wide as the terminal, or as ``COLUMNS`` says; wide enough for tables elsewhere."""
    console = terminal.open_console()
    return console if console.is_terminal or "COLUMNS" in os.environ else terminal.open_console(width=WIDTH)


def say(text: object) -> None:
    """Print a text on stdout, with control characters escaped: it may have names from elsewhere."""
    typer.echo(terminal.visible_lines(text))
