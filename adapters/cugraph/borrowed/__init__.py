"""Graphs for pylibcugraph over dynstore's own memory: C++ and Cython code, compiled on first use.

The wheels of RAPIDS contain their headers, so g++ is enough. The library is kept in the user's cache folder, one per
minor release of RAPIDS. If it cannot be built, or fails its test, pylibcugraph's own SGGraph is used.
"""

from __future__ import annotations

__all__: list[str] = []
