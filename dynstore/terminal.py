"""Text from elsewhere on its way to a terminal: names of vertices, columns and files, messages of other programs.

Terminals obey control characters: they move the cursor, change titles, turn the direction of writing round. So these
are shown as Python writes them, such as ``\\x1b``. All else stays as it is.
"""

from __future__ import annotations

import re

__all__ = ["visible"]

# C0 and DEL, C1; marks, embeddings and isolates of direction; separators of lines; halves of characters.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    r"""Return a text of one line that a terminal shows as it is, with control characters escaped.

    >>> print(visible("ann\x1b[31m"), visible("Zoë"))
    ann\x1b[31m Zoë
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))
