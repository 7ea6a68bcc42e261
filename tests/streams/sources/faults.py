"""The table of sources by faults: how many rows are lost, and how many come twice.

``python -m tests.streams.sources.faults --rounds 20 [--seed 1] [--only kafka] [--json FILE]``

Faults for which a server is not installed are left out, and named.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tests.conftest  # noqa: F401  # first, as it sets Numba up
from tests.streams.sources import test_broker_faults, test_file_faults, test_flight, test_kafka

Fault = Callable[[np.random.Generator, Path], tuple[int, int]]
TABLES: dict[str, dict[str, Fault]] = {
    "file": dict(test_file_faults.FAULTS),
    "Kafka (mock cluster)": dict(test_kafka.FAULTS),
    "Flight": dict(test_flight.FAULTS),
    "Redis": {},
    "NATS": {},
}
for full, through in test_broker_faults.FAULTS.items():
    kind, _, fault_name = full.partition(": ")
    TABLES[{"Redis": "Redis", "Nats": "NATS"}[kind]][fault_name] = through


class Outcome(NamedTuple):
    """What some rounds of a fault have shown.

    ``failed``: rounds that did not end as they should, such as with another error.
    """

    source: str
    fault: str
    rounds: int
    lost: int
    doubled: int
    failed: int
    seconds: float


def run(source: str, name: str, fault: Fault, rounds: int, seed: int) -> Outcome:
    """Run some rounds of a fault, each in a folder of its own."""
    lost = doubled = failed = 0
    begun = time.perf_counter()
    for number in range(rounds):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                found = fault(np.random.default_rng([seed, number]), Path(folder))
            except Exception as error:
                failed += 1
                print(f"{source}, {name}, round {number} of seed {seed}: {type(error).__name__}: {error}")
                continue
            lost, doubled = lost + found[0], doubled + found[1]
    return Outcome(source, name, rounds, lost, doubled, failed, time.perf_counter() - begun)


def main(arguments: Any = None) -> int:
    """Print the table; return 1 if a row was lost or came twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="sources whose name has this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    test_broker_faults.nats_source.LOOK_S = 0.05  # so often the source looks whether the server still knows it
    print("| source | fault | rounds | rows lost | rows doubled | rounds failed | seconds |")
    print("|---|---|---|---|---|---|---|")
    outcomes = []
    for source, faults in TABLES.items():
        for name, fault in faults.items() if options.only.lower() in source.lower() else ():
            try:
                outcomes.append(run(source, name, fault, options.rounds, options.seed))
            except pytest.skip.Exception as missing:
                print(f"| {source} | {name} | left out: {missing} | | | | |")
                continue
            shown = (f"{value:.0f}" if isinstance(value, float) else str(value) for value in outcomes[-1])
            print("| " + " | ".join(shown) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=1) + "\n")
    return int(any(outcome.lost or outcome.doubled or outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
