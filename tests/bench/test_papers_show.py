"""The papers' figures: complete as PAPERS prints them, beside ours, and never among the measured ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.papers import all_papers, slab_hash
from benchmarks.papers import run as papers_run
from benchmarks.papers.__main__ import main
from benchmarks.papers.contest import CONTESTANTS, Contestant, Figure, PapersResult
from benchmarks.papers.data import DATA_SETS
from benchmarks.papers.figures import show
from benchmarks.papers.figures.printed import (
    BESIDE,
    BULK,
    COPIES,
    CUT,
    FROM_DEVICE,
    FROM_HOST,
    IN_TURN,
    MEAN,
    PAPERS,
    PRINTED,
    TOGETHER,
    Claim,
)
from benchmarks.papers.figures.show import ALL_CLAIMS, ALL_PRINTED, claim_table, find_ratios, tables
from dynstore.bench.schema import check_document
from dynstore.errors import InputError

EXPERIMENTS = {found.name: found for found in all_papers.EXPERIMENTS}


def figure(contestant: str, *times: float, data: str = "pokec", row: str = "", batch: int = 10, **more) -> Figure:
    given = {"experiment": "x", "label": f"{data} here", "device": "cpu", "operation": "insert", "algorithm": None}
    return Figure(
        **{**given, **more}, data=data, contestant=contestant, row=row, batch=batch, paper_batch=batch, edges=9,
        times=list(times),
    )  # fmt: skip


def test_every_printed_table_belongs_to_an_experiment_and_its_sets() -> None:
    for name, printed in ALL_PRINTED.items():
        assert printed.unit == EXPERIMENTS[name].unit
        assert all(len(values) == len(printed.columns) for values in printed.values.values())
        sets = {data for data, _, _ in printed.values}
        assert sets == {MEAN} or sets == set(EXPERIMENTS[name].data)
    assert {name.split("/")[0] for name in EXPERIMENTS} == set(PAPERS)


def test_some_printed_figures() -> None:
    assert [found.value for found in PRINTED["slab-hash/table2"].values[MEAN, "", 1 << 20]] == [83.54, None, 664.52]
    assert [found.value for found in PRINTED["graphvine/table4"].values["europe_osm", "", 10**7]] == [
        8442.63,
        None,
        33.288,
    ]
    assert [found.value for found in PRINTED["graphvine/table5"].values["rgg_n_2_24_s0", "", BULK]] == [
        None,
        None,
        9142,
    ]
    doubtful = {
        (name, key) for name, table in PRINTED.items() for key, found in table.values.items() if found[-1].doubtful
    }
    assert ("slab-hash/table5", ("rgg_n_2_24_s0", "", BULK)) in doubtful
    assert len(doubtful) == 1 + 5  # and the totals of road_usa


def test_claims_are_about_contestants_and_sets_that_there_are() -> None:
    for claim in ALL_CLAIMS:
        experiment = EXPERIMENTS[claim.experiment]
        labels = {found if isinstance(found, str) else found.label for found in experiment.contestants}
        assert {claim.of, claim.over} - {""} <= labels, claim
        assert set(claim.data) <= set(experiment.data)
        assert claim.low is not None or claim.high is not None
    for experiment in all_papers.EXPERIMENTS:
        assert set(experiment.data) <= set(DATA_SETS)
        assert all(isinstance(found, Contestant) or found in CONTESTANTS for found in experiment.contestants)


@pytest.mark.parametrize(
    ("claim", "ratios"),
    [
        (Claim("x", "p", "t", "faster", "a", "b"), [4.0, 10.0]),
        (Claim("x", "p", "t", "faster", "a", "b", batch=100), [10.0]),
        (Claim("x", "p", "t", "faster", "a", "b", data=("wiki",)), []),
        (Claim("x", "p", "t", "faster", "a", "b", row="other"), []),
        (Claim("x", "p", "t", "growth", "a"), [5.0]),
        (Claim("x", "p", "t", "spike", "b"), [1.5, 1.0]),
        (Claim("x", "p", "t", "saved", "a", "c"), [0.2]),
        (Claim("x", "p", "t", "saved", "a", "b"), []),
        (Claim("x", "p", "t", "left", "a"), [0.5]),
        (Claim("x", "p", "t", "transfer", "d"), [0.75]),
        (Claim("x", "p", "t", "mixed", "e"), [3.0]),
        (Claim("x", "p", "t", "hidden", "f"), [0.75]),
    ],
)
def test_ratios(claim: Claim, ratios: list[float]) -> None:
    counts = {"segments_moved": 3, "segments_saved": 1, "segments_left_by_growth": 3}
    figures = [
        figure("a", 1.0, counts=counts), figure("b", 2.0, 4.0, 6.0), figure("a", 2.0, batch=100),
        figure("b", 20.0, batch=100), figure("c", 1.0, counts={"segments_moved": 4, "segments_saved": 1}),
    ]  # fmt: skip
    figures += [figure("d", 1.0, row=FROM_DEVICE), figure("d", 4.0, row=FROM_HOST)]
    figures += [figure("e", 2.0, row=TOGETHER), figure("e", 6.0, row=CUT), figure("e", 6.0, row=CUT, batch=100)]
    figures += [figure("f", 10.0, row=IN_TURN), figure("f", 7.0, row=BESIDE), figure("f", 4.0, row=COPIES)]
    assert find_ratios(claim, figures) == pytest.approx(ratios)


def test_tables_have_ours_and_theirs_side_by_side() -> None:
    (rates,) = [found for found in slab_hash.EXPERIMENTS if found.name == "slab-hash/table2"]
    result = PapersResult("cpu", [rates], 0, 2)
    result.sets["road_usa"] = "grid for road_usa", 10, 20
    for data, time_ms in (("road_usa", 1.0), ("ldoor", 0.5)):
        result.figures.append(figure("gpma+", time_ms, data=data, batch=1 << 16, experiment=rates.name))
    sets, table = tables(result)
    assert list(sets.lines) == [("grid for road_usa", "10", "20")]
    assert table.head == ("data", "row", "batch", "gpma+", "Hornet*", "faimGraph*", "slab hash*")
    assert table.lines[0] == ("road_usa here", "", "65,536", "65.5", "–", "–", "–")
    assert table.lines[2] == (MEAN, "", "65,536", "98.3", "33.7", "92.5", "501")
    assert "printed, not measured here: Table II" in table.caption
    assert "TITAN V" in table.caption
    assert "are 2 times smaller" in table.caption


def test_stated_ratios_that_were_not_measured_are_named() -> None:
    result = PapersResult("cpu", [], 0, 1, [figure("gpma+", 1.0, experiment="gpma/fig7")])
    assert [line[3:5] for line in claim_table(result).lines] == [
        ("up to 18.3x", "not measured"),
        ("up to 20.4x", "not measured"),
    ]


SHORT = ["--shrink", "30000", "--steps", "1", "--device", "cpu"]


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, document = tmp_path / "out.html", tmp_path / "out.json"
    arguments = ["coPapersDBLP,pokec", "--suite", "papers", "--store", "gpma+", "--store", "rebuild", *SHORT]
    arguments += ["--json", str(document), "--report", str(page), "--seed", "3"]
    assert main(arguments) == 0
    read = json.loads(document.read_text())
    check_document(read)
    assert read["command"] == f"python -m benchmarks.papers {' '.join(arguments)}"
    assert (read["suite"], read["dataset"]["name"], read["dataset"]["seed"]) == ("papers", "pokec, coPapersDBLP", 3)
    assert {row["store"].split(", ")[0] for row in read["rows"]} <= {"gpma+", "rebuild", "gpma+ level"}
    text = page.read_text()
    assert "graphvine/table3" in capsys.readouterr().out
    assert "<td>124.647</td>" not in document.read_text()
    assert re.search(r"<td>RMAT for coPapersDBLP, 1/30000</td><td></td><td>all [\d,]+</td>.*<td>125</td>", text)
    assert "<h2>lpma/load, RMAT for pokec, 1/30000, batches of 3: one time a batch</h2><figure><svg" in text
    assert ("<td>all batches, p99</td>" in text, "<td>all batches, maximum</td>" in text) == (True, True)
    assert "PVLDB 11(1), 2017" in text


def test_a_run_that_is_stopped_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document, load, arguments = tmp_path / "out.json", papers_run.load_ring, ["pokec,random", "--suite"]

    def load_one(backend: object, name: str, *more: object) -> object:
        if name == "random":
            raise KeyboardInterrupt
        return load(backend, name, *more)

    monkeypatch.setattr(papers_run, "load_ring", load_one)
    arguments += ["gpma", "--store", "merge", "--table", "fig7", "--json", str(document), *SHORT]
    with pytest.raises(KeyboardInterrupt):
        main(arguments)
    assert capsys.readouterr().out.count("gpma/fig7, Fig. 7") == 1
    read = json.loads(document.read_text())
    check_document(read)
    assert (read["dataset"]["name"], len(read["rows"])) == ("pokec", len({row["batch"] for row in read["rows"]}))
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_part_is_printed_once_and_sets_side_by_side_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--suite", "slab-hash", "--store", "merge", "--limit-seconds", "60", *SHORT]
    # Table VI is printed as means, which come on top at the end.
    for table, data, titles in (
        ("table5", "ldoor", 1),
        ("table5", "ldoor,road_usa", 3),
        ("table6", "ldoor", 2),
        ("table6", "ldoor,road_usa", 3),
    ):
        assert main([*arguments, data, "--table", table]) == 0
        said = capsys.readouterr().out
        assert said.count(f"slab-hash/{table}, Table V") == titles
        assert ("mean of its sets" in said) == (table == "table6")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "gpma", "--data-dir", "no"], "--data-dir is 'no', which is no folder"),
        (["collegemsg", "--suite", "gpma"], "unknown data set 'collegemsg'; known: 'graph500-200', 'pokec', "),
        (["--suite", "gpma", "--store-option", "build_density=0.6"], "wanted STORE:KEY=VALUE"),
        (["--store", "gpma+", "--device", "abacus"], "unknown device 'abacus'"),
        (["--suite", "gpma", "--steps", "0"], "papers: --steps is 0; wanted at least 1"),
        (["--json", "no/out.json"], "cannot write 'no/out.json'"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        main([*arguments, "--device", "cpu"] if "--device" not in arguments else arguments)


def test_a_disagreement_is_said_and_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_wrong(*given: object) -> PapersResult:
        result = papers_run.run_experiments(*given)  # type: ignore[arg-type]
        result.disagreement = "merge holds other edges"
        return result

    document = tmp_path / "out.json"
    monkeypatch.setattr(show, "run_experiments", run_wrong)
    arguments = ["pokec", "--suite", "gpma", "--store", "merge", "--table", "fig7", *SHORT, "--json", str(document)]
    assert main(arguments) == 1
    assert "merge holds other edges" in capsys.readouterr().out
    assert json.loads(document.read_text())["agree"] is False
