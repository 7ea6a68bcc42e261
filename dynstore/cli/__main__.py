"""``python -m dynstore.cli``: the same as the ``dynstore`` command."""

from __future__ import annotations

from dynstore.cli import main

if __name__ == "__main__":
    main()
