"""What came of the runs, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.utils import canonicalize_name

__all__ = ["Run", "show_runs"]

COUNTS = ("passed", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Run:
    """What came of the tests in one environment.

    Attributes
    ----------
    python : str
        Such as "3.12.1".
    libraries : str
        "newest" or "oldest".
    seconds : float
    counts : dict
        "passed", "failed" and "skipped"; empty if the tests did not run to their end.
    versions : dict
        Of the installed libraries, by name.
    problem : str
        Empty if all is well.
    """

    python: str
    libraries: str
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    def ended(self, seconds: float, **found: Any) -> Run:
        """Return the run with what came of it."""
        return replace(self, seconds=seconds, **found)


def show_runs(runs: Sequence[Run], missing: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the tables.

    Parameters
    ----------
    runs : sequence of Run
    missing : mapping
        Name of a Python that was not found -> why.
    names : sequence of str
        The libraries whose versions are shown.
    """
    rows = [["Python", "libraries", *COUNTS, "seconds", ""]]
    for run in runs:
        counts = [str(run.counts.get(count, "-")) for count in COUNTS]
        rows.append([run.python, run.libraries, *counts, f"{run.seconds:.0f}", run.problem or "all passed"])
    lines = ["", *_align(rows)]
    lines += [f"{name}: {reason}" for name, reason in missing.items()]
    installed = [run for run in runs if run.versions]
    if installed:
        held = [{canonicalize_name(name): version for name, version in run.versions.items()} for run in installed]
        table = [["library", *(f"{run.python} {run.libraries}" for run in installed)]]
        table += [[name, *(versions.get(name, "-") for versions in held)] for name in names]
        lines += ["", *_align(table)]
    return "\n".join(lines)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
