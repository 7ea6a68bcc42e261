"""Sources by faults: how many rows are lost, and how many come twice. Prints the table:

``python -m tests.streams.sources.faults --rounds 20 [--seed 1] [--only kafka] [--json FILE]``

Faults whose server or client is not installed are left out, and named.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tests.conftest  # noqa: F401  # first, as it sets Numba up

Fault = Callable[[np.random.Generator, Path], tuple[int, int]]
# Rounds of `make test`, where they are not five. A round of "killed" kills several times.
FEW = {
    ("file", "killed"): 1,
    ("Redis", "program killed"): 1, ("Redis", "server restarted"): 2, ("Redis", "link cut and slow"): 1,
    ("NATS", "program killed"): 1, ("NATS", "server restarted"): 2, ("NATS", "link cut and slow"): 1,
    ("Redis", "link cut"): 3, ("NATS", "link cut"): 3,
}  # fmt: skip
FEW_OF = {"Kafka (mock cluster)": 1, "Flight": 1}


def _of_files() -> dict[str, Fault]:
    from tests.streams.sources.file_faults import FAULTS

    return dict(FAULTS)


def _of_kafka() -> dict[str, Fault]:
    from tests.streams.sources.test_kafka import FAULTS

    return FAULTS


def _of_flight() -> dict[str, Fault]:
    from tests.streams.sources.test_flight import FAULTS

    return FAULTS


def _of_redis() -> dict[str, Fault]:
    from tests.streams.sources.test_broker_faults import FAULTS, Redis

    return FAULTS[Redis]


def _of_nats() -> dict[str, Fault]:
    from tests.streams.sources.test_broker_faults import FAULTS, Nats

    return FAULTS[Nats]


SOURCES: dict[str, Callable[[], dict[str, Fault]]] = {
    "file": _of_files,
    "Kafka (mock cluster)": _of_kafka,
    "Flight": _of_flight,
    "Redis": _of_redis,
    "NATS": _of_nats,
}


def list_faults(only: str = "") -> Iterator[tuple[str, str, Fault]]:
    """Yield sources, the names of faults, and what runs one round of them; ``only``: sources whose name has this."""
    for source, faults in SOURCES.items():
        if only.lower() in source.lower():
            try:
                found = faults()
            except pytest.skip.Exception as missing:
                print(f"{source} is left out: {missing}")
                continue
            for name, fault in found.items():
                yield source, name, fault


def quick_rounds(source: str, name: str) -> int:
    """Return how many rounds `make test` runs."""
    return FEW.get((source, name), FEW_OF.get(source, 5))


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
    logging.getLogger("dynstore").setLevel(logging.ERROR)  # what streams say of each fault
    print("| source | fault | rounds | rows lost | rows doubled | rounds failed | seconds |")
    print("|---|---|---|---|---|---|---|")
    outcomes = []
    for source, name, fault in list_faults(options.only):
        try:
            outcomes.append(run(source, name, fault, options.rounds, options.seed))
        except pytest.skip.Exception as missing:
            print(f"{source}, {name}: left out: {missing}")
            continue
        shown = (f"{value:.0f}" if isinstance(value, float) else str(value) for value in outcomes[-1])
        print("| " + " | ".join(shown) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=1) + "\n")
    return int(any(outcome.lost or outcome.doubled or outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
