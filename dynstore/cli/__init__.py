"""The ``dynstore`` command.

Exit codes: 0 done; 1 the stores disagreed, or the machine could not do it; 2 the input cannot be used; 130 Ctrl-C. An
error is one line on stderr, ``dynstore: error: ...``.
"""

from __future__ import annotations

from dynstore.cli.program import app, main

__all__ = ["app", "main"]
