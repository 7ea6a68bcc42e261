"""What the files of dynstore import, by the names of their modules below ``dynstore``: ``stores.merge.store``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["LINKED", "ROOT", "Import", "imports_of", "list_modules", "named_in_strings"]

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("algorithms", "adapters", "benchmarks")  # folders beside, to which dynstore has links


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
    """Yield the modules of dynstore that a source names in strings, as importlib gets them, and the lines.

    ``backend.kernels("dynstore.ids", "table")`` names ``ids.cpu.table`` and ``ids.cuda.table``.
    """
    if not re.search(r"[\"']dynstore\.", source):
        return  # most do not, and parsing all takes long
    tree, folders = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("kernels"):
            names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            if names and names[0].startswith("dynstore."):
                folders.add(id(node.args[0]))
                for side in ("cpu", "cuda"):
                    yield ".".join([names[0].removeprefix("dynstore."), side, *names[1:]]), node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in folders:
            found = re.fullmatch(r"dynstore\.(\w[\w.]*?)\.?", node.value)
            if found:
                yield found[1], node.lineno


def list_modules() -> dict[str, Path]:
    """Return the files by the names of their modules; that of dynstore itself is empty."""
    found = {}
    for top in ("dynstore", *LINKED):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts[top == "dynstore" :]
            if top != "dynstore" or parts[0] not in LINKED:
                found[".".join(part for part in parts if part != "__init__")] = path
    return found
