"""The JSON document of a benchmark, schema 1: made here, checked here. Other tools read it; it does not change."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dynstore.bench.machine import describe_machine, find_commit, find_versions
from dynstore.errors import InputError

__all__ = ["OPERATIONS", "SCHEMA", "check_document", "make_document"]

SCHEMA = 1
OPERATIONS = ("update", "delete", "insert", "snapshot", "algorithm", "total", "build", "convert")
_NUMBER = (int, float)
_TOP: dict[str, Any] = {
    "schema": int,
    "suite": str,
    "command": str,
    "commit": str,
    "date": str,
    "machine": dict,
    "versions": dict,
    "dataset": dict,
    "agree": bool,
    "rows": list,
}
_DATASET: dict[str, Any] = {"name": str, "vertices": int, "edges": int, "seed": (int, type(None))}
# Only in documents of the demo.
_HEADLINE: dict[str, Any] = {
    "what": str,
    "batch": int,
    "today_ms": _NUMBER,
    "dynstore_ms": _NUMBER,
    "times": _NUMBER,
}
_ROW: dict[str, Any] = {
    "store": str,
    "device": str,
    "operation": str,
    "algorithm": (str, type(None)),
    "batch": int,
    "edges": int,
    "steps": int,
    "median_ms": _NUMBER,
    "p90_ms": _NUMBER,
    "p99_ms": _NUMBER,
    "max_ms": _NUMBER,
    "bytes": (int, type(None)),
}


def make_document(
    suite: str,
    command: str,
    dataset: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    agree: bool,
    headline: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make the document of a run that has just ended, and check it.

    Parameters
    ----------
    suite, command : str
    dataset : mapping
        ``name``, ``vertices`` (distinct ids), ``edges`` (events) and ``seed`` (None if nothing is random).
    rows : sequence of mappings
    agree : bool
        Whether all stores held the right edges and gave the same answers.
    headline : mapping, optional
        ``what``, ``batch`` (events), ``today_ms``, ``dynstore_ms`` and ``times``: the demo's best figure.
    """
    document = {
        "schema": SCHEMA,
        "suite": suite,
        "command": command,
        "commit": find_commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": find_versions(),
        "dataset": dict(dataset),
        "agree": agree,
        "rows": [dict(row) for row in rows],
    }
    if headline is not None:
        document["headline"] = dict(headline)
    check_document(document)
    return document


def check_document(document: Any) -> None:
    """Refuse anything that is no document of schema 1.

    Raises
    ------
    InputError
        Naming the place of the first fault.
    """
    headline = {"headline": dict} if isinstance(document, dict) and "headline" in document else {}
    _check_keys("document", document, _TOP | headline)
    if document["schema"] != SCHEMA:
        raise InputError(f"document: schema {document['schema']}; wanted {SCHEMA}")
    try:
        datetime.datetime.fromisoformat(document["date"])
    except ValueError as error:
        raise InputError(f"document: date {document['date']!r} is not an ISO date") from error
    _check_keys("dataset", document["dataset"], _DATASET)
    for name, version in document["versions"].items():
        if not isinstance(version, str):
            raise InputError(f"versions: {name!r} is {version!r}; wanted text")
    if headline:
        _check_keys("headline", document["headline"], _HEADLINE)
    for number, row in enumerate(document["rows"]):
        _check_row(f"rows[{number}]", row)


def _check_row(where: str, row: Any) -> None:
    _check_keys(where, row, _ROW)
    if row["operation"] not in OPERATIONS:
        raise InputError(f"{where}: operation {row['operation']!r}; wanted one of {', '.join(OPERATIONS)}")
    if (row["operation"] == "algorithm") != (row["algorithm"] is not None):
        raise InputError(f"{where}: operation {row['operation']!r} with algorithm {row['algorithm']!r}")
    times = [row[key] for key in ("median_ms", "p90_ms", "p99_ms", "max_ms")]
    if not all(0 <= low <= high for low, high in pairwise(times)):
        raise InputError(f"{where}: times {times} must be numbers of at least 0 that do not fall")


def _check_keys(where: str, got: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(got, dict):
        raise InputError(f"{where}: got {type(got).__name__}; wanted an object")
    missing = [key for key in wanted if key not in got]
    extra = [key for key in got if key not in wanted]
    if missing or extra:
        raise InputError(f"{where}: missing keys {missing}, unknown keys {extra}")
    for key, kind in wanted.items():
        value = got[key]
        flag = isinstance(value, bool) and kind is not bool  # a bool is an int in Python, not in JSON
        if flag or not isinstance(value, kind):
            raise InputError(f"{where}: {key!r} is {value!r}, which has the wrong type")
