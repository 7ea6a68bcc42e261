"""The documents of the laboratory's commands, written as those of ``dynstore bench`` are."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynstore.bench.schema import check_document, make_document

__all__ = ["extend_document", "write_document"]


def write_document(
    path: Path,
    suite: str,
    arguments: Sequence[str] | None,
    dataset: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    agree: bool = True,
    module: str | None = None,
) -> None:
    """Write the document of ``python -m benchmarks.MODULE``; by default that is the suite with underscores.

    ``arguments``: those of its ``main``; None for what was typed. The others: see :func:`make_document`.
    """
    typed = shlex.join(sys.argv[1:] if arguments is None else arguments)
    module = module or suite.replace("-", "_")
    command = f"python -m benchmarks.{module} {typed}".strip()
    document = make_document(suite, command, dataset, rows, agree)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def extend_document(
    document: Mapping[str, Any], dataset: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], agree: bool
) -> dict[str, Any]:
    """Return the document of the same run some time later; the machine is not described again."""
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    rows = [dict(row) for row in rows]
    later = {**document, "date": date, "dataset": dict(dataset), "agree": agree, "rows": rows}
    check_document(later)
    return later
