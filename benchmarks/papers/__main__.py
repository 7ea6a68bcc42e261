"""The experiments of papers: ``python -m benchmarks.papers [DATA] --suite gpma``.

DATA: names of the papers' data sets, by comma. Results are printed, and with ``--json`` written, whenever a data set is
done. So a run that is stopped keeps its results.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.documents import extend_document
from benchmarks.papers import all_papers, gpma, graphvine, gts, lpma, slab_hash
from dynstore.bench.machine import share_memory
from dynstore.bench.module_command import run_as_command
from dynstore.bench.outputs import check_outputs, printable, write_outputs
from dynstore.bench.schema import make_document
from dynstore.bench.store_options import read_store_options
from dynstore.cli.shared import open_console
from dynstore.compilations import compilations
from dynstore.terminal import show_progress

if TYPE_CHECKING:
    from benchmarks.papers.contest import Figure, PapersJob, PapersResult
    from benchmarks.papers.figures.show import PapersSuite

__all__ = ["SUITES", "main"]

SUITES = {part.SUITE.name: part.SUITE for part in (all_papers, gpma, lpma, slab_hash, graphvine, gts)}


class _Run:
    """A run of a suite: its document grows with each part that is finished."""

    def __init__(self, suite: PapersSuite, job: PapersJob, command: str, json: Path | None) -> None:
        self.document: dict[str, Any] = {}
        self._suite, self._job, self._command, self._json = suite, job, command, json
        self._console = open_console()

    def go(self) -> PapersResult:
        """Run all, print what there is to say of the whole, and return the result."""
        with show_progress() as (advance, aside):
            result = self._suite.run(self._job, advance, partial(self._keep, aside))
        self._console.print(f"{self._suite.name}: {len(result.rows)} figures on {result.device}", highlight=False)
        self.document = make_document(
            self._suite.name, self._command, result.dataset, result.rows, result.disagreement is None
        )
        for note in result.notes:
            self._console.print(f"  {note}", highlight=False)
        self._suite.show(self._console, result)
        if result.disagreement is not None:
            self._console.print(result.disagreement, style="red", highlight=False)
        return result

    def _keep(self, aside: Any, result: PapersResult, figures: list[Figure]) -> None:
        """Print the finished part; write all parts that are finished so far."""
        agree = result.disagreement is None
        if self.document:
            self.document = extend_document(self.document, result.dataset, result.rows, agree)
        else:
            self.document = make_document(self._suite.name, self._command, result.dataset, result.rows, agree)
        with aside():
            self._suite.show_part(self._console, result, figures)
        if self._json is not None:
            write_outputs({self._json: self.document}, say=False)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("data", nargs="?", help="names of the suite's data sets, by comma; all by default")
    parser.add_argument("--suite", choices=SUITES, default="papers", help="a paper's, or papers: all of them")
    parser.add_argument("--steps", type=int, default=20, help="timed batches a row of a table")
    parser.add_argument("--seed", type=int, default=0, help="of generated graphs and random batches")
    parser.add_argument("--store", action="append", help="repeatable; by default those of each experiment")
    parser.add_argument("--store-option", action="append", metavar="[STORE:]KEY=VALUE", help="repeatable")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--data-dir", type=Path, help="folder with data sets; graphs are generated for missing ones")
    parser.add_argument("--shrink", type=int, default=64, help="divide generated graphs and batches by this number")
    parser.add_argument("--table", action="append", help="such as fig7 or gpma/fig7; repeatable; all by default")
    parser.add_argument("--limit-seconds", type=float, help="start no experiment after so many seconds")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--report", type=Path)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write; return 1 if stores disagree."""
    given = _parse(arguments)
    suite = SUITES[given.suite]
    check_outputs(given.json, given.report)
    job = suite.make_job(
        stores=given.store,
        store_options=read_store_options("papers", given.store_option or (), given.store or ()),
        data=given.data,
        data_dir=given.data_dir,
        tables=given.table,
        limit_s=given.limit_seconds,
        shrink=given.shrink,
        steps=given.steps,
        device=given.device,
        seed=given.seed,
    )
    compilations.announced = True  # warm-ups are shown
    suite.check(job)
    share_memory(given.device)
    typed = sys.argv[1:] if arguments is None else arguments
    run = _Run(suite, job, printable(f"python -m benchmarks.papers {shlex.join(typed)}".strip()), given.json)
    result = run.go()
    outputs: dict[Path, Any] = {} if given.json is None else {given.json: run.document}
    if given.report is not None:
        outputs[given.report] = suite.render(run.document, result)
    write_outputs(outputs)
    return 0 if result.disagreement is None else 1


if __name__ == "__main__":
    run_as_command(main)
