"""What the files of dynstore and of the laboratory import.

Modules of dynstore go by their names below it: ``stores.merge.store``. Those of the laboratory, which is no part of it,
go by their whole names: ``benchmarks.floors``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["LABORATORY", "LINKED", "ROOT", "Import", "imports_of", "list_modules", "named_in_strings", "short_name"]

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("algorithms", "adapters")  # folders beside, to which dynstore has links
LABORATORY = "benchmarks"  # the folder beside that is no part of dynstore


class Import(NamedTuple):
    """One imported name: ``from a import b`` gives ``a.b`` (which may be a module or something in one)."""

    name: str
    line: int
    at_import: bool
    for_types: bool  # in an ``if TYPE_CHECKING`` block, which never runs


def imports_of(source: str) -> Iterator[Import]:
    """Yield what a source imports."""

    def walk(node: ast.AST, at_import: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, at_import, for_types)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"relative import in line {child.lineno}"
                for alias in child.names:
                    yield Import(f"{child.module}.{alias.name}", child.lineno, at_import, for_types)
            elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                for part in child.body:
                    yield from walk(ast.Module([part], []), False, True)
                for part in child.orelse:
                    yield from walk(ast.Module([part], []), at_import, for_types)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, at_import and not function, for_types)

    yield from walk(ast.parse(source), True, False)


def named_in_strings(source: str) -> Iterator[tuple[str, int]]:
    """Yield the modules of ours that a source names in strings, as importlib gets them, and the lines.

    ``backend.kernels("dynstore.ids", "table")`` names ``ids.cpu.table`` and ``ids.cuda.table``.
    """
    if not re.search(r"[\"'](dynstore|benchmarks)\.", source):
        return  # most do not, and parsing all takes long
    tree, folders = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("kernels"):
            names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            package = short_name(names[0]) if names else None
            if package is not None:
                folders.add(id(node.args[0]))
                for side in ("cpu", "cuda"):
                    yield ".".join([package, side, *names[1:]]), node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in folders:
            found = short_name(node.value.removesuffix("."))
            if found is not None and re.fullmatch(r"\w[\w.]*", found):
                yield found, node.lineno


def short_name(name: str) -> str | None:
    """Return the name of a module or of something in one as it goes here; None if it is not ours."""
    top, _, rest = name.partition(".")
    return rest if top == "dynstore" and rest else name if top == LABORATORY and rest else None


def list_modules() -> dict[str, Path]:
    """Return the files by the names of their modules; that of dynstore itself is empty."""
    found = {}
    for top in ("dynstore", *LINKED, LABORATORY):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts[top == "dynstore" :]
            if top != "dynstore" or parts[0] not in LINKED:
                found[".".join(part for part in parts if part != "__init__")] = path
    return found
