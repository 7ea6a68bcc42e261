"""Modules that are commands: a user's error is one line, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from dynstore.errors import InputError, MissingDependencyError
from dynstore.terminal import visible_lines

__all__ = ["run_as_command"]


def run_as_command(main: Callable[[], int | None]) -> NoReturn:
    """Call ``main`` and exit with its result, or with 2 and one line on stderr for a user's error."""
    try:
        code = main() or 0
    except (InputError, MissingDependencyError) as error:
        print(f"error: {visible_lines(error)}", file=sys.stderr)
        code = 2
    sys.exit(code)
