"""The parts of the pages that the records of algorithms say: ``python -m tools.pages`` writes them; a test compares.

Such a part lies between two comments, ``<!-- NAME: python -m tools.pages -->`` and ``<!-- NAME ends -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from dynstore.algorithms.calls import Algorithm
from dynstore.algorithms.registry import ALGORITHMS
from tools.imports import ROOT

__all__ = ["PARTS", "rendered"]

# The order of the pages: searches, ranks, then what takes longer. An algorithm that is not named here comes last.
ORDER = ("bfs", "sssp", "pagerank", "triangle_count", "weakly_connected_components", "betweenness_centrality")
FORMS = {"slabs": "hash slabs", "paged": "pages"}


def _records() -> list[Algorithm]:
    rank = {name: at for at, name in enumerate(ORDER)}
    return sorted(ALGORITHMS.values(), key=lambda record: (rank.get(record.name, len(rank)), record.name))


def _table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|" + "---|" * columns, *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |")


def _answers() -> str:
    return _table("function | answers", ((f"`{each.name}`", each.asks) for each in _records()))


def _served() -> str:
    def row(each: Algorithm) -> tuple[str, ...]:
        needs = [
            *(["undirected"] if each.needs_undirected else []),
            *(["weighted"] if each.needs_weights else []),
            *(["in-edges"] if each.uses_in_edges else []),
        ]
        return (
            f"`{each.name}`",
            ", ".join(needs),
            "yes" if each.tracked else "no",
            ", ".join(FORMS[form] for form in each.forms),
            ", ".join(f"`{name}`" for name in each.cugraph),
            str(len(each.networkx) or "none"),
        )

    head = (
        "function | needs | can be tracked | also reads as they are | is in the drop-in | functions of NetworkX on it"
    )
    return _table(head, map(row, _records()))


def _reference() -> str:
    names = [each.name for each in _records()] + ["explain"]
    listed = ["```{eval-rst}", ".. currentmodule:: dynstore", "", ".. autosummary::", ""]
    listed += [f"   {name}" for name in names] + [""]
    listed += [f".. autofunction:: {name}" for name in names]
    return "\n".join([*listed, "```"])


# Page -> the names of its parts, and what makes them.
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/algorithms.md": {"answers": _answers, "served": _served},
    "docs/reference/algorithms.md": {"functions": _reference},
}


def rendered(page: str) -> str:
    """Return a page with its parts made anew.

    Raises
    ------
    ValueError
        If a part has no place in the page.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, make in PARTS[page].items():
        begin, end = f"<!-- {name}: python -m tools.pages -->\n", f"\n<!-- {name} ends -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), flags=re.DOTALL)
        made = f"{begin}\n{make()}\n{end}"
        text, count = pattern.subn(lambda _, made=made: made, text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{page}: the part {name!r} has {count} places; wanted one")
    return text


def main() -> None:
    """Write all parts."""
    for page in PARTS:
        Path(ROOT / page).write_text(rendered(page), encoding="utf-8")


if __name__ == "__main__":
    main()
