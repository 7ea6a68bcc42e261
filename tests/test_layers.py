"""The layer rule, read from the source: who imports whom, who names which library, how long files are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "dynstore": ROOT / "dynstore",
    "dynstore.algorithms": ROOT / "algorithms",
    "dynstore.adapters": ROOT / "adapters",
    "dynstore.benchmarks": ROOT / "benchmarks",
}
MAX_LINES = 450

# Lowest first; a module imports from its own group and the groups before it.
LAYERS = [
    ("errors", "config", "interrupts", "typing"),
    ("arguments", "arrays", "bits", "caches", "frames", "pins", "scratch"),
    ("id_columns",),
    ("blocks", "edge_batch", "hash_table", "lists", "slabs", "slots"),
    ("levels",),
    ("_cpu", "_cuda"),
    ("backend",),
    ("snapshot",),
    ("stores",),
    ("vertex_ids", "id_tables"),
    ("vertex_map",),
    ("delta", "queries"),
    ("orientations",),
    ("tracked",),
    ("conversions", "graph"),
    ("io", "datasets"),
    ("algorithms",),
    ("adapters",),
    ("benchmarks",),
    ("cli", "testing"),
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# library -> who may import it at all (module names below dynstore, and what lies under them)
LIBRARIES = {
    "cudf": ("frames", "adapters"),
    "cugraph": ("adapters", "benchmarks"),
    "cuda": ("_cuda", "adapters"),
    "cupy": ("arrays", "backend", "frames", "pins", "_cuda", "algorithms._cuda", "adapters", "benchmarks"),
    "cupyx": ("_cuda", "algorithms._cuda", "adapters", "benchmarks"),
    "greenlet": ("_cuda.simulated",),
    "hypothesis": ("testing",),
    "llvmlite": ("_cuda.wide_access",),
    "networkx": ("adapters.networkx",),
    "numba": ("_cpu", "_cuda", "algorithms._cpu", "algorithms._cuda", "benchmarks"),
    "pandas": ("arrays", "id_columns", "id_tables", "frames", "io", "adapters", "benchmarks"),
    "polars": ("arrays", "io", "adapters"),
    "pyarrow": ("arrays", "io", "adapters"),
    "pylibcudf": ("frames", "adapters"),
    "pylibcugraph": ("adapters", "benchmarks"),
    "pytest": ("testing",),
    "rich": ("cli", "benchmarks"),
    "rmm": ("adapters", "benchmarks"),
    "scipy": ("adapters", "benchmarks"),
    "typer": ("cli",),
}
NUMBA_CUDA = ("_cuda.compiler",)
# library -> who may import it when imported itself, so that others stay light
AT_IMPORT = {
    "greenlet": LIBRARIES["greenlet"],
    "hypothesis": ("testing",),
    "llvmlite": LIBRARIES["llvmlite"],
    "numba": LIBRARIES["numba"],
    "pytest": ("testing",),
    "rich": ("benchmarks.console",),
    "typer": ("cli",),
}


# module -> the higher layer that it may name in a string, to be imported when a method is called
BY_NAME = {"conversions": "adapters", "tracked": "algorithms"}
# layer whose types the layers below may name: they are handed a backend, and import none
HANDED_DOWN = "backend"


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
    """Yield the modules of dynstore that a source names in strings, as importlib gets them, and the lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.fullmatch(r"dynstore\.(\w+)[\w.]*", node.value)
            if found:
                yield found[1], node.lineno


def below(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def problems(module: str, source: str) -> list[str]:
    """Return what is wrong with a module, named relative to dynstore: ``stores.merge``."""
    found = []
    mine = module.split(".")[0]
    for name, line, at_import, for_types in imports_of(source):
        top, _, rest = name.partition(".")
        where = f"{module}:{line}: "
        if top == "dynstore":
            other = rest.split(".")[0]
            if RANK.get(other, -1) > RANK[mine] and not (for_types and other == HANDED_DOWN):
                found.append(f"{where}{mine} is below {other}")
            if {"_cpu", "_cuda"} <= {*module.split("."), *rest.split(".")}:
                found.append(f"{where}_cpu and _cuda must not know each other")
        elif top in ("algorithms", "adapters", "benchmarks"):
            found.append(f"{where}import dynstore.{top}, not {top}")
        elif top in LIBRARIES:
            if not below(module, LIBRARIES[top]):
                found.append(f"{where}{module} must not name {top}")
            if at_import and not below(module, AT_IMPORT.get(top, ())):
                found.append(f"{where}{top} must be imported where it is needed, not with the module")
        if below(name, ("numba.cuda",)) and module not in NUMBA_CUDA:
            found.append(f"{where}only {' and '.join(NUMBA_CUDA)} names numba.cuda")
    for other, line in named_in_strings(source):
        if RANK.get(other, -1) > RANK[mine] and BY_NAME.get(module) != other:
            found.append(f"{module}:{line}: {mine} is below {other}, and may not name it in a string either")
    return found


def _modules() -> Iterator[tuple[str, Path]]:
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            relative = path.relative_to(folder)
            if package == "dynstore" and relative.parts[0] in ("algorithms", "adapters", "benchmarks"):
                continue  # the links to the folders beside
            parts = [*package.split(".")[1:], *relative.with_suffix("").parts]
            name = ".".join(part for part in parts if part != "__init__")
            yield name, path


MODULES = dict(_modules())


def test_all_folders_are_there() -> None:
    assert {name.split(".")[0] for name in MODULES} >= {"algorithms", "adapters", "benchmarks", "stores", "_cuda"}
    assert len(MODULES) > 40


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_every_module_has_a_layer(module: str) -> None:
    assert module.split(".")[0] in RANK or module == "__main__"


@pytest.mark.parametrize("module", [name for name in MODULES if name and name != "__main__"])
def test_a_module_imports_only_from_lower_layers(module: str) -> None:
    assert problems(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("module", MODULES)
def test_a_file_says_one_thing(module: str) -> None:
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{MODULES[module].relative_to(ROOT)} has {lines} lines; wanted at most {MAX_LINES}"


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_a_module_has_not_the_name_of_what_it_exports(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert module.rsplit(".", 1)[-1] not in names


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("errors", "import dynstore.graph", "errors is below graph"),
        ("stores.merge", "from dynstore.graph import DynamicGraph", "stores is below graph"),
        ("graph", "def f():\n    from dynstore.algorithms import bfs", "graph is below algorithms"),
        ("graph", "from dynstore import algorithms", "graph is below algorithms"),
        ("_cpu.merge", "from dynstore._cuda import merge", "must not know each other"),
        ("_cuda.merge", "import dynstore._cpu.merge", "must not know each other"),
        ("algorithms._cuda.x", "from dynstore.algorithms._cpu import x", "must not know each other"),
        ("algorithms._cuda.x", "from dynstore._cpu import search", "must not know each other"),
        ("_cuda.merge", "from numba import cuda", "only _cuda.compiler names"),
        ("_cuda.merge", "import numba.cuda.random", "only _cuda.compiler names"),
        ("algorithms._cuda.x", "def f():\n    from numba.cuda import jit", "only _cuda.compiler names"),
        ("graph", "import algorithms", "import dynstore.algorithms"),
        ("graph", "import_module('dynstore.adapters.arrow')", "graph is below adapters, and may not name it"),
        ("graph", "import_module(f'dynstore.adapters.{name}')", "graph is below adapters, and may not name it"),
        ("conversions", "import_module('dynstore.algorithms')", "conversions is below algorithms"),
        ("conversions", "from dynstore.adapters import arrow", "conversions is below adapters"),
        ("tracked", "import_module('dynstore.adapters.arrow')", "tracked is below adapters"),
        ("graph", "def f():\n    import cudf", "graph must not name cudf"),
        ("adapters.networkx_info", "def f():\n    import networkx", "adapters.networkx_info must not name networkx"),
        ("stores.merge", "def f():\n    import cupy", "stores.merge must not name cupy"),
        ("frames", "import cudf", "imported where it is needed"),
        ("io.text", "try:\n    import pandas\nexcept ImportError:\n    pass", "imported where it is needed"),
        ("stores.merge", "class A:\n    from numba import njit", "must not name numba"),
        ("_cuda.x", "if TYPE_CHECKING:\n    from dynstore.stores.lpma import LpmaStore", "_cuda is below stores"),
        (
            "backend",
            "if TYPE_CHECKING:\n    pass\nelse:\n    from dynstore.stores import base",
            "backend is below stores",
        ),
        ("slots", "from dynstore.backend import Backend", "slots is below backend"),
    ],
)
def test_the_rule_sees(module: str, source: str, message: str) -> None:
    assert any(message in problem for problem in problems(module, source)), problems(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bits", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dynstore.backend import Backend"),
        ("frames", "def f():\n    import cudf"),
        ("_cpu.merge", "from numba import njit"),
        ("_cuda.compiler", "from numba import cuda"),
        ("conversions", "import_module('dynstore.adapters.arrow')"),
        ("tracked", "import_module('dynstore.algorithms.tracking')"),
        ("adapters.arrow", "import_module('dynstore.algorithms')"),
        ("_cuda.merge", "from dynstore._cuda.compiler import cuda"),
        ("cli", "import typer\nfrom dynstore.benchmarks import suites"),
    ],
)
def test_the_rule_allows(module: str, source: str) -> None:
    assert problems(module, source) == []


def test_relative_imports_are_refused() -> None:
    with pytest.raises(AssertionError, match="relative import"):
        list(imports_of("from . import x"))
