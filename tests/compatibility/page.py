"""The page of :mod:`tests.compatibility.run`: counts of modules, and why tests did not pass.

The page is made of what a run found, or of that and a page that is there: modules that did not run again stay as they
are on it.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dynstore
from dynstore.errors import InputError

__all__ = [
    "NOT_RUN",
    "WHILE_IT_RAN",
    "ModuleCounts",
    "Outcomes",
    "count_outcomes",
    "find_lost",
    "make_preface",
    "read_page",
    "render_page",
]

# Node id -> "outcome" ("passed", "failed", "skipped", "not run") and "reason".
Outcomes = Mapping[str, Mapping[str, str]]

NOT_RUN = "not run"
WHILE_IT_RAN = "while it ran"  # so ends the reason of a test during which the process died
OUT_OF_TIME = "timed out"  # so begins the reason of a test that the end of time has stopped
COLUMNS = ("tests", "pass with cuGraph", "pass with the drop-in", "pass with cuGraph only", "not run")
ALL = "all"
LOST, OTHERS = "## Tests that pass with cuGraph only", "## Tests that do not pass with cuGraph, by reason"
NONE = "None."
WIDTH = 100  # of the page's lines
LONGEST = 160  # characters of a reason
FIRST = (
    "dynstore's drop-in for cuGraph has to pass cuGraph's own tests. These are the tests of cuGraph {version}, run "
    "twice: with cuGraph itself, and with `dynstore.adapters.cugraph` of dynstore {dynstore} instead of it ({remark}). "
    "The lists below the table have the tests that do not pass, and the reasons."
)
PREFACE = """\
# Compatibility

{first}

## Run the tests yourself

    python -m tests.compatibility.data DATA --from cugraph/datasets
    export RAPIDS_DATASET_ROOT_DIR=$PWD/DATA
    python -m tests.compatibility.run --out docs/compatibility.md

The first command makes the tests' data. `cugraph/datasets` is a folder of cuGraph's repository. The
command copies it, and computes by NetworkX the results that tests of searches need. Some files are
only in older commits of that repository: `dining_prefs.csv`, and the versions of `small_line`,
`toy_graph` and `toy_graph_undirected` that cuGraph's checksums belong to. Other data sets are only
on cuGraph's server. Without a network, the tests of `utils/test_dataset.py` that load these fail.

The last command needs RAPIDS and pytest-xdist (`pip install '.[test]'`).

| option | what it does |
|---|---|
| module names, such as `structure/test_graph.py` | run only these modules; the rest of the page stays as it is |
| `--jobs 8` | run eight processes at once; they share one GPU and its memory |
| `--test-limit SECONDS` | a test that takes longer fails |
| `--limit SECONDS` | a limit for each of the two runs; the second may use what the first leaves |
| `--json ends.json` | keep the outcomes of all tests |
| `--again ends.json` | run only the tests that have not run yet, and then those that failed |
| `--read ends.json` | run nothing; make the page from kept outcomes |

If a test crashes its process, only this test fails; the others go on in a new process. Tests that
are left when the time of a run is up count as "not run".

## Results

"Not run" counts tests that did not run in at least one of the two runs.
"""


@dataclass
class ModuleCounts:
    """What the page says of one module.

    Attributes
    ----------
    counts : list of int
        A number for each of the page's columns.
    lost : Counter
        Reason -> number of tests that pass with cuGraph only.
    others : Counter
        Reason -> number of tests that do not pass with cuGraph.
    """

    counts: list[int] = field(default_factory=lambda: [0] * len(COLUMNS))
    lost: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)


def find_lost(theirs: Outcomes, ours: Outcomes) -> list[str]:
    """Return the node ids of the tests that pass with cuGraph only."""
    return sorted(name for name in theirs if _passed(theirs, name) and not _passed(ours, name))


def count_outcomes(theirs: Outcomes, ours: Outcomes) -> dict[str, ModuleCounts]:
    """Count outcomes by module.

    Parameters
    ----------
    theirs, ours : mapping
        Node id -> ``outcome`` and ``reason``; with the original cuGraph, with the drop-in.
    """
    lost = set(find_lost(theirs, ours))
    found: dict[str, ModuleCounts] = {}
    for name in sorted({*theirs, *ours}):
        module = found.setdefault(_module(name), ModuleCounts())
        not_run = NOT_RUN in (_outcome(theirs, name), _outcome(ours, name))
        ends = (True, _passed(theirs, name), _passed(ours, name), name in lost, not_run)
        module.counts = [count + end for count, end in zip(module.counts, ends, strict=True)]
        if name in lost:
            end = ours.get(name, {"outcome": NOT_RUN, "reason": "its module was not collected"})
            module.lost[_why(end) if end["outcome"] == NOT_RUN else f"{_test(name)}: {_why(end)}"] += 1
        if name in theirs and not _passed(theirs, name):
            module.others[_why(theirs[name])] += 1
    return found


def render_page(modules: Mapping[str, ModuleCounts], preface: str) -> str:
    """Return the page.

    Parameters
    ----------
    modules : mapping
        Module -> its counts.
    preface : str
        What comes before the table; see :func:`make_preface` and :func:`read_page`.
    """
    rows = [(name, module.counts) for name, module in sorted(modules.items())]
    rows.append((ALL, [sum(column) for column in zip(*(counts for _, counts in rows), strict=True)]))
    lines = [preface.rstrip("\n"), "", f"| module | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    lines += [f"| {name} | {' | '.join(map(str, counts))} |" for name, counts in rows]
    lines += ["", LOST, "", *_items({name: module.lost for name, module in modules.items()})]
    lines += ["", OTHERS, "", *_items({name: module.others for name, module in modules.items()})]
    return "\n".join(lines) + "\n"


def make_preface(version: str, remark: str) -> str:
    """Return what stands before the table: ``version`` is cuGraph's, ``remark`` says where the tests ran."""
    first = FIRST.format(version=version, dynstore=dynstore.__version__, remark=remark)
    return PREFACE.format(first="\n".join(_wrap(first)))


def read_page(page: str) -> tuple[dict[str, ModuleCounts], str]:
    """Return what a page says of its modules, and what stands before its table.

    Raises
    ------
    InputError
        If it is not a page of this command.
    """
    preface, _, rest = page.partition("| module |")
    table, found_lost, rest = rest.partition(LOST)
    lost, found_others, others = rest.partition(OTHERS)
    if not (found_lost and found_others):
        raise InputError(f"compatibility: not a page of this command: wanted a table, {LOST!r} and {OTHERS!r}")
    modules = {}
    for line in table.splitlines():
        row = re.fullmatch(r"\| (\S+) \|([ \d|]+)\|", line)
        if row is None or row[1] == ALL:
            continue
        counts = [int(count) for count in row[2].split("|")]
        if len(counts) not in (len(COLUMNS) - 1, len(COLUMNS)):
            raise InputError(f"compatibility: the page's row {line!r} has {len(counts)} counts")
        modules[row[1]] = ModuleCounts([*counts, *[0] * (len(COLUMNS) - len(counts))])
    for text, name in ((lost, "lost"), (others, "others")):
        for module, count, reason in _read_items(text):
            if module not in modules:
                raise InputError(f"compatibility: the page gives a reason for {module}, but no row")
            getattr(modules[module], name)[reason] += count
    return modules, preface


def _items(reasons: Mapping[str, Counter[str]]) -> list[str]:
    lines = []
    for module, counter in sorted(reasons.items()):
        for reason, count in sorted(counter.items()):
            lines += _wrap(f"- {module}, {count}: {reason}", "  ")
    return lines or [NONE]


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _read_items(text: str) -> Iterator[tuple[str, int, str]]:
    for item in re.findall(r"^- (?:.+)(?:\n  .+)*", text, re.MULTILINE):
        parts = re.fullmatch(r"- (\S+), (\d+): (.*)", " ".join(item.split()))
        if parts is None:
            raise InputError(f"compatibility: the page's item {item!r} is not '- module, count: reason'")
        yield parts[1], int(parts[2]), parts[3]


def _module(name: str) -> str:
    return "/".join(name.partition("::")[0].split("/")[-2:])


def _test(name: str) -> str:
    return f"`{name.partition('::')[2] or name}`"


def _why(end: Mapping[str, Any]) -> str:
    reason = " ".join(str(end["reason"]).split()).removeprefix("Failed: ")  # pytest.fail's, with its own words
    if end["outcome"] == NOT_RUN and reason.startswith(OUT_OF_TIME):
        return "no time was left"
    return reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 3]}..."


def _outcome(outcomes: Outcomes, name: str) -> str:
    return outcomes.get(name, {}).get("outcome", "")


def _passed(outcomes: Outcomes, name: str) -> bool:
    return _outcome(outcomes, name) == "passed"
