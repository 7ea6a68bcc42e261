"""The ratios that a map of ids is held to are measured on graphs that are the same but for the map."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.costs.id_ratios import MAPPED, PLAIN, PLAIN_32, STRINGS, main, measure, ratios
from dynstore.bench.schema import check_document
from dynstore.errors import InputError


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_all_graphs_are_the_same_but_for_the_map(directed: bool, known: bool) -> None:
    found = {one.name: one for one in measure(7, 6, 20, 3, "cpu", directed, known)}
    assert list(found) == [MAPPED, STRINGS, PLAIN, PLAIN_32]
    edges = found[PLAIN].graph.snapshot().compact()
    for one in found.values():
        twin = one.graph.snapshot().compact()
        np.testing.assert_array_equal(twin.indices, edges.indices)
        assert {name: len(times) for name, times in one.times.items() if name in ("insert", "delete", "update")} == {
            "insert": 3,
            "delete": 3,
            "update": 3,
        }
    assert (found[PLAIN].graph.number_of_vertices() == 128) == known
    compared = list(ratios(list(found.values())))
    assert len(compared) == 10
    assert all(each.ratio > 0 for each in compared)
    update = next(each for each in compared if (each.what, each.against, each.operation) == (MAPPED, PLAIN, "update"))
    assert update.ratio == found[MAPPED].median_ms("update") / found[PLAIN].median_ms("update")


def test_the_command_prints_ratios_and_writes_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    main(["--scale", "7", "--batch", "9", "--steps", "2", "--device", "cpu", "--known", "--json", str(out)])
    assert f"  {STRINGS} / {MAPPED}, update: " in capsys.readouterr().out
    document = json.loads(out.read_text(encoding="utf-8"))
    check_document(document)
    assert {row["store"].partition(",")[0] for row in document["rows"]} == {"directed", "undirected"}
    with pytest.raises(InputError, match=r"costs\.id_ratios: 102 steps of 20 rows need more than 1024 events"):
        measure(7, 8, 20, 100, "cpu", True, True)
