"""Graphs over several ranks measured: ``python -m benchmarks.ranks --help``."""
