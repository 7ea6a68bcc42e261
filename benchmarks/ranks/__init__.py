"""Graphs over several ranks measured: ``python -m dynstore.benchmarks.ranks --help``."""
