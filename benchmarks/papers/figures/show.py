"""The papers' experiments as tables: our figures, the papers' printed ones beside them, the ratios that they state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.contest import Experiment, Figure, PapersJob, PapersResult
from benchmarks.papers.figures.page import Table, render_papers
from benchmarks.papers.figures.printed import (
    BESIDE,
    BULK,
    CLAIMS,
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
    Printed,
    Value,
)
from benchmarks.papers.figures.printed_gts import CLAIMS as GTS_CLAIMS
from benchmarks.papers.figures.printed_gts import PRINTED as GTS_PRINTED
from benchmarks.papers.run import check_papers, run_experiments
from dynstore.bench.reports.summary import format_ms

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ALL_CLAIMS", "ALL_PRINTED", "PapersSuite", "claim_table", "find_ratios", "part_tables", "tables"]

ALL_PRINTED, ALL_CLAIMS = PRINTED | GTS_PRINTED, CLAIMS + GTS_CLAIMS
Key = tuple[str, str, int]  # data set, row, the paper's batch
STATISTICS = ("mean", "p99", "maximum")
# Counts of lpma's statistics: what it moved, what the paper's bottom-up would have moved besides, and growth elsewhere.
MOVED, MOVED_TWICE, LEFT = "segments_moved", "segments_saved", "segments_left_by_growth"
# Kinds of claims that compare rows of one contestant: which, and what of their times.
OF_ROWS: dict[str, tuple[tuple[str, ...], Callable[..., float]]] = {
    "transfer": ((FROM_DEVICE, FROM_HOST), lambda device, host: 1 - device / host),
    "mixed": ((TOGETHER, CUT), lambda together, cut: cut / together),
    "hidden": ((IN_TURN, BESIDE, COPIES), lambda in_turn, beside, copies: (in_turn - beside) / copies),
    "kernels of BFS": (("BFS, kernels", "BFS, transfer"), lambda kernels, transfer: kernels / transfer),
    "kernels of PageRank": (("PageRank, kernels", "PageRank, transfer"), lambda kernels, transfer: kernels / transfer),
    "hybrid BFS": (("BFS, hybrid", "BFS, edge"), lambda hybrid, edge: edge / hybrid),
    "hybrid PageRank": (("PageRank, hybrid", "PageRank, edge"), lambda hybrid, edge: edge / hybrid),
}
# What figures of runs over a link have besides: bytes over it in a run; the time that these take at the link's speed,
# as a share of the time taken; the share of pages that were on the device; and the cost model's ms.
BESIDES = ("MB", "of the link", "hits", "model")
SHARES = ("saved", "left", "transfer", "hidden")  # kinds of claims that are shares


@dataclass(frozen=True)
class PapersSuite:
    """Some experiments of papers; ``skip_missing``: what this build does not have is left out and named."""

    name: str
    experiments: Sequence[Experiment]
    skip_missing: bool = False

    def make_job(self, **options: Any) -> PapersJob:
        """Return the job of a :class:`PapersJob`'s options."""
        return PapersJob(skip_missing=self.skip_missing, **options)

    def check(self, job: PapersJob) -> None:
        """Check what can be checked without data; see :func:`check_papers`."""
        check_papers(self.experiments, job)

    def run(self, job: PapersJob, progress: Any, finished: Any) -> PapersResult:
        """Run the experiments; see :func:`run_experiments`."""
        return run_experiments(self.experiments, job, progress, finished)

    def show_part(self, console: Console, result: PapersResult, figures: list[Figure]) -> None:
        """Print what one data set adds."""
        _print_tables(console, part_tables(result, figures))

    def show(self, console: Console, result: PapersResult) -> None:
        """Print what is more than the parts: data sets side by side, and ratios over all of them."""
        _print_tables(console, tables(result, after_parts=True))

    def render(self, document: Mapping[str, Any], result: PapersResult) -> str:
        """Return the page."""
        return render_papers(document, result, tables(result))


def tables(result: PapersResult, after_parts: bool = False) -> list[Table]:
    """Return the data sets, a table for each experiment, and the stated ratios.

    After the parts have been shown, only the tables that say more: several data sets side by side, or means of them.
    """
    sets = [(label, f"{vertices:,}", f"{edges:,}") for label, vertices, edges in result.sets.values()]
    found = [Table("Data", ("data set, or what stands in for it", "vertices", "edges"), sets)]
    for experiment in result.experiments:
        figures = [figure for figure in result.figures if figure.experiment == experiment.name]
        if len({figure.data for figure in figures}) > 1 or (
            figures and (not after_parts or _means_printed(experiment.name))
        ):
            found.append(_table(experiment, figures, result.shrink))
    claims = claim_table(result)
    return [*found, claims] if claims.lines else found


def part_tables(result: PapersResult, figures: list[Figure]) -> list[Table]:
    """Return what one data set adds to the tables of experiments."""
    added = {name: [found for found in figures if found.experiment == name] for name in (f.experiment for f in figures)}
    named = {found.name: found for found in result.experiments}
    return [_table(named[name], of_it, result.shrink, with_means=False) for name, of_it in added.items()]


def _means_printed(name: str) -> bool:
    """Whether a paper prints means over data sets."""
    return name in ALL_PRINTED and any(data == MEAN for data, _, _ in ALL_PRINTED[name].values)


def _table(experiment: Experiment, figures: list[Figure], shrink: int, with_means: bool = True) -> Table:
    contestants = list(dict.fromkeys(figure.contestant for figure in figures))
    means = _means_printed(experiment.name)
    printed = ALL_PRINTED.get(experiment.name) if with_means or not means else None
    cells: dict[tuple[Key, str], float] = {}
    batches: dict[Key, int] = {}
    for statistic in STATISTICS if experiment.curves else STATISTICS[:1]:
        for figure in figures:
            key = _key(figure, statistic)
            cells[key, figure.contestant] = _shown(experiment, figure, statistic)
            batches[key] = figure.batch
    labels = {figure.data: figure.label for figure in figures} | {MEAN: MEAN}
    if means and with_means:
        _add_means(cells, batches, contestants)
    lines = []
    besides = {(_key(figure), figure.contestant): _besides(figure) for figure in figures}
    more = [(name, what) for name in contestants for what in BESIDES if any(
        what in found for (_, other), found in besides.items() if other == name
    )]  # fmt: skip
    for key, batch in batches.items():
        data, row, paper_batch = key
        ours = (format_ms(cells.get((key, name))) for name in contestants)
        further = (besides.get((key, name), {}).get(what, "") for name, what in more)
        theirs = (_text(value) for value in _printed_values(printed, key))
        lines.append((labels[data], row, _batch_text(batch, paper_batch), *ours, *further, *theirs))
    headings = (what if len(contestants) == 1 else f"{name}: {what}" for name, what in more)
    head = (
        "data",
        "row",
        "batch",
        *contestants,
        *headings,
        *(f"{name}*" for name in (printed.columns if printed else ())),
    )
    paper = PAPERS[experiment.name.split("/")[0]]
    title = f"{experiment.name}, {experiment.title}, {experiment.unit}"
    caption = ""
    if printed is not None:
        remark = f"; {printed.remark}" if printed.remark else ""
        caption = f"* printed, not measured here: {printed.place}, {printed.unit}, {paper.machine}{remark}"
        if shrink > 1:
            caption += f"; batches of ours, and stand-ins, are {shrink} times smaller than those behind these figures"
    return Table(title, head, lines, caption)


def _besides(figure: Figure) -> dict[str, str]:
    """Return what a figure has that reads pages over a link, by heading."""
    counts, found = figure.counts, {}
    if "bound_ns" in counts:
        found["MB"] = f"{(figure.num_bytes or 0) / 1e6:,.1f}"
        found["of the link"] = f"{counts['bound_ns'] / (sum(figure.times) * 1e6):.0%}"
    if counts.get("read_pages"):
        found["hits"] = f"{counts['hits'] / counts['read_pages']:.0%}"
    if "model_ns" in counts:
        found["model"] = format_ms(counts["model_ns"] / 1e6 / len(figure.times))
    return found


def _key(figure: Figure, statistic: str = STATISTICS[0]) -> Key:
    row = figure.row or figure.algorithm or ""
    return figure.data, row if statistic == STATISTICS[0] else f"{row}, {statistic}", figure.paper_batch


def _shown(experiment: Experiment, figure: Figure, statistic: str) -> float:
    """Return a figure in its table's unit: the mean of its times, or what follows from that; or another statistic."""
    if statistic != STATISTICS[0]:
        return float(np.percentile(figure.times, 99)) if statistic == "p99" else max(figure.times)
    if experiment.unit == "ms":
        return figure.mean_ms
    if experiment.unit == "MB":
        return (figure.num_bytes or 0) / 1e6
    if experiment.unit == "pages":
        return float(figure.counts["pages"])
    return figure.batch / figure.mean_ms / 1e3


def _add_means(cells: dict[tuple[Key, str], float], batches: dict[Key, int], contestants: Sequence[str]) -> None:
    """Add for each batch the mean over the data sets."""
    for paper_batch, batch in {key[2]: batch for key, batch in batches.items()}.items():
        batches[MEAN, "", paper_batch] = batch
        for name in contestants:
            values = [value for (key, other), value in cells.items() if other == name and key[2] == paper_batch]
            if values:
                cells[(MEAN, "", paper_batch), name] = float(np.mean(values))


def _printed_values(printed: Printed | None, key: Key) -> Sequence[Value]:
    if printed is None:
        return ()
    data, _, batch = key
    none = (Value(None),) * len(printed.columns)
    return printed.values.get(key) or printed.values.get((data, "", batch), none)


def _text(value: Value) -> str:
    return format_ms(value.value) + ("?" if value.doubtful else "")


def _batch_text(batch: int, paper_batch: int) -> str:
    if paper_batch == BULK:
        return f"all {batch:,}"
    return f"{batch:,}" if batch == paper_batch else f"{batch:,} for {paper_batch:,}"


def claim_table(result: PapersResult) -> Table:
    """Return the stated ratios of the experiments that ran, ours beside them."""
    lines = []
    ran = {figure.experiment for figure in result.figures}
    for claim in ALL_CLAIMS:
        if claim.experiment in ran:
            ratios = find_ratios(claim, result.figures)
            share = claim.kind in SHARES
            batch = "" if claim.batch is None else f"{claim.batch:,}"
            sets = ", ".join(claim.data) or "all"
            lines.append((claim.text, sets, batch, _stated(claim), _ours(ratios, share), claim.place))
    return Table(
        "Ratios that the papers state",
        ("ratio", "data", "batch", "stated*", "ours", "place"),
        lines,
        "* printed, not measured here; ours: lowest, highest and median over data sets and batches",
    )


def find_ratios(claim: Claim, figures: Sequence[Figure]) -> list[float]:
    """Return ours for each data set and batch that a claim is about; none where a side was not measured."""
    chosen = [
        figure
        for figure in figures
        if figure.experiment == claim.experiment
        and (claim.row is None or figure.row == claim.row)
        and (not claim.data or figure.data in claim.data)
        and (claim.batch is None or figure.paper_batch == claim.batch)
    ]
    mine = {_key(figure): figure for figure in chosen if figure.contestant == claim.of}
    other = {_key(figure): figure for figure in chosen if figure.contestant == claim.over}
    if claim.kind == "faster":
        return [other[key].mean_ms / figure.mean_ms for key, figure in mine.items() if key in other]
    if claim.kind == "saved":
        pairs = [(_moved(figure), _moved(other[key])) for key, figure in mine.items() if key in other]
        return [1 - one / both for one, both in pairs if both]
    if claim.kind == "left":
        pairs = [(figure.counts.get(LEFT, 0), figure.counts.get(MOVED, 0)) for figure in mine.values()]
        return [left / (left + moved) for left, moved in pairs if left + moved]
    if claim.kind in OF_ROWS:
        rows, ratio = OF_ROWS[claim.kind]
        keys = dict.fromkeys((data, batch) for data, _, batch in mine)
        return [
            ratio(*(mine[data, row, batch].mean_ms for row in rows))
            for data, batch in keys
            if all((data, row, batch) in mine for row in rows)
        ]
    if claim.kind == "spike":
        return [max(figure.times) / float(np.median(figure.times)) for figure in mine.values()]
    larger = {key: (key[0], key[1], 10 * key[2]) for key in mine}
    return [
        mine[next_key].batch / mine[next_key].mean_ms / (mine[key].batch / mine[key].mean_ms)
        for key, next_key in larger.items()
        if next_key in mine
    ]


def _moved(figure: Figure) -> int:
    """Return the segments that the paper's way of a strategy moves, those that it moves again in a batch included."""
    return figure.counts.get(MOVED, 0) + figure.counts.get(MOVED_TWICE, 0)


def _stated(claim: Claim) -> str:
    share = claim.kind in SHARES
    low, high = (None if end is None else _ratio_text(end, share) for end in (claim.low, claim.high))
    if low is None or high is None:
        return f"up to {high}" if low is None else f"over {low}"
    return low if low == high else f"{low} to {high}"


def _ours(ratios: Sequence[float], share: bool) -> str:
    if not ratios:
        return "not measured"
    if len(ratios) == 1:
        return _ratio_text(ratios[0], share)
    low, middle, high = (_ratio_text(float(np.quantile(ratios, q)), share) for q in (0, 0.5, 1))
    return f"{low} to {high}, median {middle}"


def _ratio_text(value: float, share: bool) -> str:
    return f"{100 * value:.0f} %" if share else f"{value:.3g}x"


def _print_tables(console: Console, shown_tables: Sequence[Table]) -> None:
    from rich.table import Table as RichTable

    for found in shown_tables:
        text = [found.head, *found.lines]
        empty = {number for number in range(len(found.head)) if not any(line[number] for line in found.lines)}
        shown = RichTable(
            title=found.title, caption=found.caption, title_justify="left",
            caption_justify="left",
        )  # fmt: skip
        for number, name in enumerate(text[0]):
            if number not in empty:
                shown.add_column(name, justify="left" if number < 2 else "right", overflow="fold")
        for line in found.lines:
            shown.add_row(*(cell for number, cell in enumerate(line) if number not in empty))
        console.print(shown)
