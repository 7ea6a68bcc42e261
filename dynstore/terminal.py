"""Text from elsewhere on its way to a terminal: names of vertices, columns and files, messages of other programs.

Terminals obey control characters: they move the cursor, change titles, turn the direction of writing round. So these
are shown as Python writes them, such as ``\\x1b``. All else stays as it is. Rich would obey markup, too, such as
``[red]``; :func:`open_console` makes a console that obeys neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["open_console", "visible", "visible_lines"]

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
