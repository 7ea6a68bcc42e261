"""Files of ours that need each other: ``python -m tools.circles``; a line for each circle of files.

All imports count: those within functions, those for types, and modules that are named in strings. The links to the
folders beside are followed. ``backend.kernels("dynstore.ids", "table")`` stands for the files of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import networkx as nx

from tools.imports import imports_of, list_modules, named_in_strings, short_name

__all__ = ["circles_of", "links_of"]


def links_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return which modules each module needs; ``sources``: their texts by the names of the modules."""
    return {module: set(_needed_by(source, sources)) - {"", module} for module, source in sources.items()}


def _needed_by(source: str, modules: Mapping[str, str]) -> Iterator[str]:
    for each in imports_of(source):
        name = short_name(each.name) or ""
        while name and name not in modules:  # something in a module
            name = name.rpartition(".")[0]
        yield name
    yield from (name for name, _ in named_in_strings(source) if name in modules)


def circles_of(links: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that need each other, the largest first."""
    graph = nx.DiGraph([(module, other) for module, others in links.items() for other in others])
    circles = [sorted(found) for found in nx.strongly_connected_components(graph) if len(found) > 1]
    return sorted(circles, key=lambda circle: (-len(circle), circle))


def main() -> None:
    """Print the circles."""
    sources = {name: path.read_text(encoding="utf-8") for name, path in list_modules().items()}
    for circle in circles_of(links_of(sources)):
        print(len(circle), *circle)


if __name__ == "__main__":
    main()
