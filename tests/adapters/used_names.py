"""Which names of optional libraries the code uses, and which of them the installed libraries lack.

``python -m tests.adapters.used_names`` prints ``library: how many names, of which version`` for each library that is
installed, and then each name that is missing with its place. It needs no GPU.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dynstore.adapters.libraries import INSTALL_LINES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("adapters", "algorithms", "benchmarks", "dynstore")
MAY_USE = re.compile(rf"\brequire\(|^ *(import|from) ({'|'.join(INSTALL_LINES)})\b", re.MULTILINE)


class Use(NamedTuple):
    """A name that is used: the module, and what is taken from it, such as ("comms", "nccl"); and where."""

    module: str
    names: tuple[str, ...]
    place: str


def find_uses() -> list[Use]:
    """Return what the code takes from optional libraries: by imports, and from what ``require`` returns."""
    found = []
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        if MAY_USE.search(text):  # to parse all files takes seconds
            found += _uses_in(ast.parse(text), {}, str(path.relative_to(ROOT)))
    return found


def _uses_in(scope: ast.AST, outer: dict[str, tuple[str, ...]], file: str) -> Iterator[Use]:
    """Yield the uses in a module or a function; ``outer`` is what the names around it stand for."""
    own, inner = _own_nodes(scope)
    known = dict(outer)
    for node in own:
        known.update(_bound_by(node))
        for module, names in _imported_by(node):
            yield Use(module, names, f"{file}:{node.lineno}")
    for node in own:
        chain = _chain_of(node)
        if chain and chain[0] in known:
            module, *names = known[chain[0]]
            yield Use(module, (*names, *chain[1:]), f"{file}:{node.lineno}")
    for function in inner:
        yield from _uses_in(function, known, file)


def _own_nodes(scope: ast.AST) -> tuple[list[Any], list[ast.AST]]:
    """Return the nodes of a scope, and the functions in it. What may be missing, in a ``try``, is left out."""
    own, inner, waiting = [], [], deque(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner.append(node)
        elif isinstance(node, ast.Try) and any(map(_catches_missing, node.handlers)):
            waiting += [*node.handlers, *node.orelse, *node.finalbody]
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            own.append(node)
            waiting += ast.iter_child_nodes(node)
    return own, inner


def _catches_missing(handler: ast.ExceptHandler) -> bool:
    caught = "Exception" if handler.type is None else ast.unparse(handler.type)
    return any(name in caught for name in ("AttributeError", "ImportError", "Exception"))


def _imported_by(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what an import or a call of ``require`` needs."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, ()) for alias in node.names if _is_optional(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_optional(node.module or ""):
        yield from ((str(node.module), (alias.name,)) for alias in node.names)
    elif isinstance(node, ast.Call) and _required(node):
        yield str(_required(node)), ()


def _bound_by(node: ast.AST) -> dict[str, tuple[str, ...]]:
    """Return the names that a statement makes, and the module and the names in it that each stands for."""
    if isinstance(node, ast.Import):
        names = [alias for alias in node.names if _is_optional(alias.name)]
        tops = {alias.name.partition(".")[0]: alias.name.partition(".")[:1] for alias in names if not alias.asname}
        return {**tops, **{alias.asname: (alias.name,) for alias in names if alias.asname}}
    if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_optional(node.module or ""):
        return {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return {}
    target, value = node.targets[0], node.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    made = {}
    for name, given in pairs:
        names: list[str] = []
        while isinstance(given, ast.Attribute):
            names.insert(0, given.attr)
            given = given.value
        if isinstance(name, ast.Name) and isinstance(given, ast.Call) and _required(given):
            made[name.id] = (str(_required(given)), *names)
    return made


def _required(call: ast.Call) -> str | None:
    """Return the module that ``require(caller, "module")`` names, or None."""
    named = call.args[1] if len(call.args) == 2 and getattr(call.func, "id", "") == "require" else None
    return named.value if isinstance(named, ast.Constant) else None


def _is_optional(module: str) -> bool:
    return module.partition(".")[0] in INSTALL_LINES


def _chain_of(node: ast.AST) -> tuple[str, ...]:
    """Return ``a.b.c`` as ("a", "b", "c"), if it is read."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            return ()
        names.insert(0, node.attr)
        node = node.value
    return (node.id, *names) if names and isinstance(node, ast.Name) else ()


def is_missing(use: Use) -> bool:
    """Whether a module lacks what is taken from it. Only modules and classes are looked into."""
    try:
        held: Any = importlib.import_module(use.module)
    except ImportError:
        return True
    for name in use.names:
        if not isinstance(held, type | type(sys)):
            return False
        if hasattr(held, name):
            held = getattr(held, name)
        elif hasattr(held, "__path__") and importlib.util.find_spec(f"{held.__name__}.{name}") is not None:
            held = importlib.import_module(f"{held.__name__}.{name}")
        else:
            return True
    return False


def main() -> int:
    """Print what is used and what is missing; return 1 if anything is."""
    os.environ["RAPIDS_NO_INITIALIZE"] = "1"  # cuDF and RMM look for no GPU
    uses, missing = find_uses(), []
    libraries = sorted({use.module.partition(".")[0] for use in uses})
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            continue
        own = [use for use in uses if use.module.partition(".")[0] == library]
        version = getattr(importlib.import_module(library), "__version__", "")
        print(f"{library} {version}".rstrip() + f": {len({use[:2] for use in own})} names")
        missing += [use for use in own if is_missing(use)]
    for use in missing:
        print(f"missing: {'.'.join((use.module, *use.names))} ({use.place})")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
