"""The papers' suites: every experiment runs, what a build lacks is named, contestants that differ are found out."""

from __future__ import annotations

import gc
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers import all_papers, gpma, graphvine, gts, lpma, slab_hash
from benchmarks.papers import bench as papers_bench
from benchmarks.papers import run as papers_run
from benchmarks.papers.__main__ import SUITES
from benchmarks.papers.contest import CONTESTANTS, Contestant, Experiment, Figure, PapersJob, PapersResult
from benchmarks.papers.measures import gather_rows
from benchmarks.papers.run import check_papers, run_experiments
from dynstore.backend import get_backend
from dynstore.bench.schema import make_document
from dynstore.bench.suites import OF_PAPERS
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.graph import DynamicGraph
from tests.conftest import DEVICES

REAL_DEVICES = [name for name in DEVICES if name != "cuda-sim"]
TINY = PapersJob(shrink=30_000, steps=1, device="cpu", skip_missing=True)


def ignore(*progress: Any) -> None:
    pass


def run(experiments: tuple[Experiment, ...], **options: Any) -> PapersResult:
    return run_experiments(experiments, replace(TINY, **options), ignore)


def only(name: str) -> tuple[Experiment, ...]:
    return tuple(found for found in all_papers.EXPERIMENTS if found.name == name)


@pytest.mark.thorough
@pytest.mark.parametrize("device", REAL_DEVICES)
def test_every_experiment_runs_in_its_short_form(device: str) -> None:
    data = "pokec,road_usa,germany_osm,rmat-15,coPapersDBLP,twitter,rmat28,rmat30"
    result = run(all_papers.EXPERIMENTS, device=device, data=data)
    assert result.disagreement is None
    wanted = {found.name for found in all_papers.EXPERIMENTS}
    contestants = {found.contestant for found in result.figures}
    if not any(name.startswith("slab-hash at") for name in contestants):
        wanted -= {"slab-hash/fig2a", "slab-hash/fig2c", "slab-hash/fig3"}  # of a store that this build has not
    assert {found.experiment for found in result.figures} == wanted
    assert {"gpma+", "rebuild"} <= contestants
    assert all(found.times and found.batch > 0 for found in result.figures)
    make_document("papers", "x", result.dataset, result.rows, True)


def test_the_papers_suite_is_all_the_others() -> None:
    parts = [gpma, lpma, slab_hash, graphvine, gts]
    assert [found for part in parts for found in part.EXPERIMENTS] == list(all_papers.EXPERIMENTS)
    assert len({found.name for found in all_papers.EXPERIMENTS}) == len(all_papers.EXPERIMENTS)
    assert all_papers.SUITE.make_job().skip_missing
    assert not gpma.SUITE.make_job().skip_missing
    assert {part.SUITE.name for part in [all_papers, *parts]} == SUITES.keys() == set(OF_PAPERS)


def test_what_a_build_lacks_is_left_out_by_papers_and_refused_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTESTANTS, "gpma", Contestant("gpma", "no such store"))
    result = run(only("gpma/fig7"), data="pokec")
    assert "rebuild" in {found.contestant for found in result.figures}
    assert "gpma (DynamicGraph: unknown store 'no such store')" in result.notes[0]
    for options in ({"skip_missing": False}, {"stores": ("gpma+", "no such store")}):
        with pytest.raises(InputError, match="unknown store 'no such store'"):
            check_papers(only("gpma/fig7"), replace(TINY, **options))


def test_an_option_that_a_store_lacks_is_left_out_unless_the_user_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTESTANTS, "gpma", Contestant("gpma", "gpma+", {"no": 1}))
    result = run(only("gpma/fig7"), data="pokec", skip_missing=False, stores=("gpma+",))
    assert any("gpma (DynamicGraph: unknown parameter 'no')" in note for note in result.notes)
    with pytest.raises(InputError, match="unknown parameter 'no'"):
        check_papers(only("gpma/fig7"), replace(TINY, store_options={"gpma+": {"no": 1}}))


def test_stores_and_options_of_the_user() -> None:
    options = {"merge": {}, "gpma+": {"build_density": 0.6}}
    result = run(only("slab-hash/table5"), data="luxembourg_osm", stores=("merge", "gpma+"), store_options=options)
    assert [found.contestant for found in result.figures] == ["gpma+", "merge"]
    with pytest.raises(InputError, match="nothing to run"):
        run(only("slab-hash/fig2a"), stores=("merge",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "--steps is 0"),
        ({"shrink": 0}, "--shrink is 0"),
        ({"seed": -1}, "--seed is -1"),
        ({"limit_s": 0.0}, "--limit-seconds is 0; wanted more than 0"),
        ({"data": "pokek"}, "unknown data set 'pokek'; known: .* Did you mean 'pokec'"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"store_options": {"no": {}}}, "--store-option names the store 'no'; wanted one of adjlists, "),
    ],
)
def test_jobs_that_cannot_run(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_papers(gpma.EXPERIMENTS, replace(TINY, **options))


def test_a_store_that_loses_edges_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    insert = DynamicGraph.insert_edges

    def lose(graph: DynamicGraph, edges: Any, **options: Any) -> Any:
        return insert(graph, (edges[0][1:], edges[1][1:]) if graph.store_name == "merge" else edges, **options)

    monkeypatch.setattr(DynamicGraph, "insert_edges", lose)
    result = run(only("gpma/fig7"), data="pokec", stores=("gpma+", "merge"))
    assert (result.disagreement or "").startswith("gpma/fig7, pokec, merge: holds (")


def test_other_answers_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = DynamicGraph.has_edges

    def wrong(graph: DynamicGraph, edges: Any) -> Any:
        return lookup(graph, edges) & (graph.store_name != "merge")

    monkeypatch.setattr(DynamicGraph, "has_edges", wrong)
    result = run(only("lpma/edges"), data="pokec", stores=("gpma+", "merge"))
    assert re.match(r"lpma/edges, pokec, merge: 3 edges, -1 of gpma\+( level)? and of it: ", result.disagreement or "")


def test_what_fails_costs_only_its_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    compact = DynamicGraph.snapshot

    def fail(error: Exception) -> None:
        def snapshot(graph: DynamicGraph, transposed: bool = False) -> Any:
            if graph.store_name == "merge" and graph.number_of_edges() == 64:
                raise error
            return compact(graph, transposed)

        monkeypatch.setattr(DynamicGraph, "snapshot", snapshot)

    job = {"data": "wiki", "shrink": 10**6, "stores": ("merge", "gpma+")}
    fail(OutOfMemoryError("no room"))
    result = run(only("lpma/csr"), **job)
    contestants = {found.contestant for found in result.figures}
    assert ("gpma+" in contestants, "merge" in contestants) == (True, False)
    assert result.disagreement is None
    assert any("lpma/csr: merge does not fit: wiki (no room)" in note for note in result.notes)
    fail(InputError("broken"))
    result = run(only("lpma/csr"), **job)
    assert result.disagreement == "lpma/csr, wiki, merge: broken"


def test_a_slow_contestant_gets_no_further_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers_bench, "PATIENCE_S", 0.0)
    result = run(only("gpma/fig7"), data="pokec", stores=("gpma+",), steps=5)
    assert {len(found.times) for found in result.figures} == {1}
    assert "gpma/fig7: gpma+ had time for 1 of 5 steps, batch 1: pokec" in result.notes


def test_every_part_is_told_when_it_is_finished() -> None:
    told: list[tuple[int, list[tuple[str, str]]]] = []

    def finished(result: PapersResult, part: list[Figure]) -> None:
        told.append((len(result.rows), sorted({(found.experiment, found.data) for found in part})))

    job = replace(TINY, data="pokec,reddit", stores=("merge",), tables=("fig7", "fig8"))
    result = run_experiments(gpma.EXPERIMENTS, job, ignore, finished)
    wanted = [[(name, data)] for data in ("reddit", "pokec") for name in ("gpma/fig7", "gpma/fig8")]
    assert [part for _, part in told] == wanted
    assert [count for count, _ in told] == sorted({count for count, _ in told})
    assert len(result.rows) == len(result.figures) == told[-1][0]


def test_tables_are_chosen_by_name_or_by_what_is_behind_the_slash() -> None:
    for tables, wanted in (
        (("table2",), {"slab-hash/table2", "graphvine/table2"}),
        (("slab-hash/table2", "fig7"), {"slab-hash/table2", "gpma/fig7"}),
    ):
        data = "pokec,luxembourg_osm" if "fig7" in tables else "luxembourg_osm,coPapersDBLP"
        result = run(all_papers.EXPERIMENTS, tables=tables, data=data, stores=("merge",))
        assert {found.experiment for found in result.figures} == wanted
        assert {found.name for found in result.experiments} == wanted
    with pytest.raises(InputError, match=r"unknown table 'fig6'; known: .*'gpma/fig7'"):
        check_papers(gpma.EXPERIMENTS, replace(TINY, tables=("fig6",)))
    with pytest.raises(InputError, match=r"unknown data set 'reddit'; known: 'delaunay_n23', 'ldoor', "):
        check_papers(all_papers.EXPERIMENTS, replace(TINY, tables=("slab-hash/table6",), data="reddit"))


def test_experiments_that_show_figures_of_one_measurement_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    insert, seen = DynamicGraph.insert_edges, []
    monkeypatch.setattr(DynamicGraph, "insert_edges", lambda *given: seen.append(1) or insert(*given))
    job, counts = {"data": "luxembourg_osm", "stores": ("merge",)}, []
    for tables in (("table2",), ("table3",), ("table2", "table3")):
        seen.clear()
        result = run(slab_hash.EXPERIMENTS, tables=tables, **job)
        counts.append(len(seen))
        shown = {(found.experiment.rpartition("/")[2], found.operation) for found in result.figures}
        assert shown == {(table, {"table2": "insert", "table3": "delete"}[table]) for table in tables}
        assert all(note.startswith(f"slab-hash/{'+'.join(tables)}: too few edges") for note in result.notes)
    assert counts[0] == counts[1] == counts[2]


def test_what_is_not_reached_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, 1.0, 9.0, 9.0])  # the start; then before each part and contestant
    monkeypatch.setattr(papers_run, "read_clock", lambda: next(now))
    job = {"data": "pokec", "stores": ("gpma+", "merge"), "limit_s": 5.0}
    result = run(
        (*only("slab-hash/table5"), *only("gpma/fig7"), *only("gpma/fig8")), **job, store_options={"gpma+": {}}
    )
    assert {(found.experiment, found.contestant) for found in result.figures} == {("gpma/fig7", "gpma+")}
    assert result.notes[-1] == "not run, because the time was up: gpma/fig7 pokec (merge), gpma/fig8 pokec"


def test_a_collection_between_contestants_does_not_look_at_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(papers_run, "quiet", lambda: frozen.append(gc.get_freeze_count()) or nullcontext())
    run(only("gpma/fig7"), data="pokec", stores=("merge",))
    assert frozen[0] > 10_000
    assert gc.get_freeze_count() == 0


def test_host_baselines_run_on_the_host_beside_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(papers_run, "get_backend", lambda name: made.append(name) or get_backend("cpu"))
    monkeypatch.setitem(CONTESTANTS, "pma", Contestant("pma", "merge", on_host=True))
    result = run(only("gpma/fig7"), data="pokec", device="cuda", stores=("merge",))
    assert {found.contestant for found in result.figures} == {"merge", "pma"}
    assert set(made) == {"cuda", "cpu"}


@pytest.mark.parametrize("store", ["gpma+", "merge"])
def test_gathered_rows_are_the_successors(store: str, rng: np.random.Generator) -> None:
    graph = DynamicGraph(store=store, device="cpu")
    ids = rng.integers(0, 50, (2, 400))
    graph.insert_edges((ids[0], ids[1]))
    graph.delete_edges((ids[0, ::3], ids[1, ::3]))
    vertices = rng.integers(0, graph.number_of_vertices(), 30, dtype=np.int32)
    found = gather_rows(graph.snapshot(), vertices)
    assert found.tolist() == np.concatenate([graph.successors(int(vertex)) for vertex in vertices]).tolist()
    assert gather_rows(graph.snapshot(), vertices[:0]).shape == (0,)


def test_a_file_is_read_whole_and_that_is_said(tmp_path: Path) -> None:
    lines = "".join(f"{i % 50} {i % 41}\n" for i in range(900))
    (tmp_path / "soc-pokec-relationships.txt").write_text(lines)
    result = run(only("gpma/fig7"), data="pokec,reddit", data_dir=tmp_path, stores=("merge",))
    assert "read whole, though batches are 30000 times smaller; see --shrink: pokec" in result.notes
    assert result.sets["pokec"][:2] == ("pokec (soc-pokec-relationships.txt)", 50)
    assert result.disagreement is None
