"""The measurement of what expiry costs runs, on small sizes, and says what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.costs.expire import WAYS, main, measure
from dynstore.bench.schema import check_document
from dynstore.errors import InputError


@pytest.mark.parametrize("options", [[], ["--no-directed", "--timestamps", "int32"], ["--in-edges"]])
def test_all_ways_are_shown(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "8", "--batch", "50", "--steps", "3", "--device", "cpu", *options])
    lines = capsys.readouterr().out.splitlines()
    assert "edges expire a step, median of 3" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == list(WAYS)
    assert lines[2].split()[2] == "1.00"


def test_each_way_is_timed_in_each_step() -> None:
    costs = measure(8, 4, 20, 4, "cpu")
    assert [len(costs.times[way]) for way in WAYS] == [4] * 4
    assert len(costs.expired) == 4
    assert all(0 < count <= 20 for count in costs.expired)
    with pytest.raises(InputError, match=r"costs\.expire: 6 steps of 20 rows need more than 64 events"):
        measure(4, 4, 20, 4, "cpu")


def test_the_document_has_a_row_for_each_way(tmp_path: Path) -> None:
    main(["--scale", "8", "--batch", "50", "--steps", "3", "--device", "cpu", "--json", str(tmp_path / "expire.json")])
    document = json.loads((tmp_path / "expire.json").read_text())
    check_document(document)
    assert [row["store"] for row in document["rows"]] == [f"{way}, directed, int64 times" for way in WAYS]
    assert document["dataset"]["name"] == "rmat:8:16"
