"""Bridges to other libraries; each module is the only one that names its library."""

from __future__ import annotations

if __name__ != "dynstore.adapters":
    raise ImportError(f"{__name__}: this folder is a part of dynstore; import dynstore.adapters")

__all__: list[str] = []
