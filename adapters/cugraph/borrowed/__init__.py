"""Graphs for pylibcugraph over dynstore's own memory: C++ and Cython that is compiled here, on first use.

The wheels of RAPIDS ship their headers, so g++ is enough. What is built is kept in the user's cache folder, one library
per minor release of RAPIDS; where it cannot be built, or fails its test, pylibcugraph's own SGGraph does the work.
"""

from __future__ import annotations

__all__: list[str] = []
