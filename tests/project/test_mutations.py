"""The list of mutations is up to date: each text is in its file once, and each test exists."""

from __future__ import annotations

from pathlib import Path

from tests.mutations.places import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]


def test_every_mutation_has_its_place() -> None:
    counts = {m.name: (ROOT / m.file).read_text(encoding="utf-8").count(m.old) for m in MUTATIONS}
    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert len(counts) == len(MUTATIONS) >= 30


def test_every_mutation_has_tests() -> None:
    missing = [f"{m.name}: {test}" for m in MUTATIONS for test in m.tests if not (ROOT / test.split("::")[0]).exists()]
    assert missing == []
    assert all(m.tests and m.old != m.new for m in MUTATIONS)
