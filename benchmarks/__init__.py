"""The benchmark suites behind ``dynstore bench``: engine, checks, result schema and report."""

from __future__ import annotations

if __name__ != "dynstore.benchmarks":
    raise ImportError(f"{__name__}: this folder is a part of dynstore; import dynstore.benchmarks")

__all__: list[str] = []
