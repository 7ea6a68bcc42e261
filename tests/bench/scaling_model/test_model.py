"""The model finds constants again, names what binds, and prints predictions beside measurements."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scaling_model.__main__ import count, fit_work, main, predict
from benchmarks.scaling_model.counts import ALGORITHMS, Tally, make_graph
from benchmarks.scaling_model.links import ASSUMED, CollectiveCosts, assumed_link, fit_link
from benchmarks.scaling_model.runs import ScalingCase, make_case
from dynstore.bench.schema import check_document
from dynstore.distributed.counting import OPERATIONS
from dynstore.errors import InputError


def even(value: float) -> dict[str, float]:
    return dict.fromkeys(OPERATIONS, value)


def tally_of(size: int, rounds: int, vertices: int, rows: list[int]) -> Tally:
    tally = Tally(size, np.zeros(1, np.int64))
    tally.rounds, tally.vertices, tally.rows = rounds, vertices, np.array(rows)
    return tally


def test_constants_of_the_work_are_found_again() -> None:
    counts = [(3, 1000, 5000), (3, 1000, 800), (5, 100, 900), (2, 10, 4)]
    tallies = [tally_of(1, rounds, vertices, [rows]) for rounds, vertices, rows in counts]
    known = np.array([1e-4, 2e-7, 3e-8])
    found = fit_work(tallies, [float(known @ np.array(each)) for each in counts])
    np.testing.assert_allclose(found, known)
    without = fit_work(tallies, [1e-3 - 1e-8 * rows for _, _, rows in counts])
    assert (without >= 0).all()
    assert without[2] == 0


def test_constants_of_a_link_are_found_again() -> None:
    def times(size: int) -> dict[str, float]:
        found = {name: 1e-5 * (1 + (size - 1).bit_length()) for name in OPERATIONS}
        carried = {
            "all_gather": (1 << 16) * (size - 1),
            "all_to_all": (1 << 21) * (size - 1),
            "all_reduce": 2 * (1 << 21) * (size - 1),
            "broadcast": (1 << 21) * size,
        }
        found["all_to_all, columns"] = found["all_to_all"] + 3e-6 * max(1, size - 1)
        return found | {f"{name}, large": found[name] + nbytes / 1e9 for name, nbytes in carried.items()}

    link = fit_link("test", {size: times(size) for size in (1, 2, 4)})
    for found, wanted in ((link.base, 1e-5), (link.hop, 1e-5), (link.bytes_per_s, 1e9)):
        np.testing.assert_allclose(list(found.values()), wanted)
    np.testing.assert_allclose(link.message, 1e-6)
    assert link.bytes_per_s.keys() == link.hop.keys() == set(OPERATIONS)


def test_what_binds() -> None:
    link = CollectiveCosts("test", even(0.0), even(1e-5), even(1e9), 0.0)
    tally, work = tally_of(4, 1, 0, [10, 10, 10, 30]), np.zeros(3)
    for _ in range(3):
        tally.reduce(8)
    found = predict(tally, link, work)
    assert found.binds == "latency"
    np.testing.assert_allclose(found.latency, 6 * 2 * 1e-2)  # each sum begins with an agreement
    tally.reduce(1_000_000)
    found = predict(tally, link, work)
    assert found.binds == "bandwidth"
    np.testing.assert_allclose(found.bandwidth, 1e3 * (1_000_024 * 1.5 + 4 * 3 * 4096) / 1e9)
    work[2] = 1e-3
    found = predict(tally, link, work, slowdown=2.0)
    assert found.binds == "work"
    np.testing.assert_allclose(found[2:], (2 * 15, 2 * 15))
    tally.rows[:3] = 0
    assert predict(tally, link, work).binds == "skew"


def test_assumed_links_say_so() -> None:
    alone = CollectiveCosts("threads", even(1e-6), even(1e-3), even(1.0), 0.5)
    link = assumed_link("nvlink", alone, None, None)
    assert (link.name, link.base["broadcast"]) == ("nvlink, assumed", 1e-6)
    assert (link.hop["all_gather"], link.bytes_per_s["all_gather"]) == ASSUMED["nvlink"][:2]
    link = assumed_link("infiniband", alone, 3e-6, None)
    assert (link.name, link.hop["broadcast"], link.bytes_per_s["broadcast"]) == ("infiniband, by hand", 3e-6, 50e9)


def test_one_rank_sends_nothing() -> None:
    graph = make_graph(np.array([0, 1, 2]), np.array([1, 2, 0]), np.ones(3), directed=False)
    for algorithm in ALGORITHMS.values():
        tally = algorithm(graph, 1, 0)
        assert not any(nbytes.any() for nbytes in (*tally.nbytes.values(), *tally.messages.values()))
        assert tally.calls["all_gather"] > 1


def test_it_prints_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    sizes = ["--scale", "6", "--edge-factor", "4", "--batch", "32", "--steps", "1", "--predict", "8", "64"]
    main([*sizes, "--json", str(path), "--latency-us", "3", "--weak"])
    lines = capsys.readouterr().out.splitlines()
    tables = [number for number, line in enumerate(lines) if line.startswith("call ")]
    calls = ["insert", "delete", *ALGORITHMS]
    first = [line.split() for line in lines[tables[0] + 1 : tables[0] + 15]]
    assert [(line[0], line[1]) for line in first] == [(name, size) for name in calls for size in "12"]
    second = [line.split() for line in lines[tables[1] + 1 :]]
    assert [line[1:5] for line in second] == [
        ["8", "nvlink,", "by", "hand"],
        ["64", "infiniband,", "by", "hand"],
    ] * len(calls)
    assert {line[-1] for line in second} <= {"latency", "bandwidth", "work", "skew"}
    document = json.loads(path.read_text())
    check_document(document)
    assert document["command"].startswith("python -m benchmarks.scaling_model --scale 6")
    assert len(document["rows"]) == len(calls) * (2 * 2 + 2)
    assert sum("weak: predicted" in row["store"] for row in document["rows"]) == len(calls) * 2
    assert sum("measured" in row["store"] for row in document["rows"]) == len(calls) * 2


def test_a_part_of_a_large_batch_stands_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    case = ScalingCase(8, 8, 20_000)
    graph, source = make_case(case, 1)
    whole = count("insert", graph, source, case, 4, 1)
    monkeypatch.setattr("benchmarks.scaling_model.__main__.MOST_ROWS", 40_000)
    part = count("insert", graph, source, case, 4, 1)
    assert part.calls == whole.calls
    assert part.rows.tolist() == pytest.approx(whole.rows.tolist(), rel=0.05)
    assert part.nbytes["all_to_all"].tolist() == pytest.approx(whole.nbytes["all_to_all"].tolist(), rel=0.05)
    assert part.nbytes["all_gather"].tolist() == whole.nbytes["all_gather"].tolist()


def test_chosen_calls(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--scale", "6", "--edge-factor", "4", "--batch", "32", "--steps", "1", "--ranks", "1", "--predict", "8"]
    main([*sizes, "--calls", "bfs", "insert", "--link", "measured"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(("bfs", "insert", "delete", "pagerank"))] == [
        ["bfs", "1", "threads"], ["insert", "1", "threads"], ["bfs", "8", "threads"], ["insert", "8", "threads"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--ranks", "2", "4"], r"--ranks is \[2, 4\]; wanted 1 and other numbers above it"),
        (["--scale", "3"], "--scale is 3; wanted 6 or more"),
        (["--predict", "8", "0"], r"--predict is \[8, 0\]; wanted numbers of 1 or more"),
        (["--predict-scale", "0"], "--predict-scale is 0; wanted 1 or more"),
        (["--edge-factor", "0"], "--edge-factor is 0; wanted 1 or more"),
        (["--batch", "0"], "--batch is 0; wanted 1 or more"),
        (["--steps", "-1"], "--steps is -1; wanted 1 or more"),
        (["--latency-us", "-1"], "--latency-us is -1; wanted a number above 0"),
        (["--gb-per-s", "nan"], "--gb-per-s is nan; wanted a number above 0"),
    ],
)
def test_wrong_options(arguments: list[str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        main(arguments)
