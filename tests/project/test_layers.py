"""The rules of the house, read from the source: who imports whom, who names which library, how large things are."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tools.imports import LINKED, ROOT, imports_of, list_modules, named_in_strings, short_name

MAX_LINES = 600
MAX_FILES = 20  # of a folder, `__init__.py` not counted
MAX_PARAMETERS = 8  # of a device function: arrays that go together are one record
MAX_KERNEL_PARAMETERS = 16  # of a kernel, records counted once


def read_layers(text: str) -> list[list[str]]:
    """Return the layers of CONTRIBUTING.md, the lowest first: the indented lines below "The layer rule".

    A line has names; what stands behind them, after two blanks or more, says what they are.
    """
    rule = text.partition("## The layer rule\n")[2].partition("\n- ")[0]
    lines = [line[4:].partition("  ")[0] for line in rule.splitlines() if line.startswith("    ")]
    return [line.split() for line in lines if line.strip()]


# A module imports from its own group and the groups before it. The longest name that fits counts.
LAYERS = read_layers((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# What several structures are built of. Any other package below `stores` is one structure.
SHARED = ("base", "derived", "pma", "rows", "table")
# Who else may name a structure: its rows are walked there, or measured.
NAMED_IN = {
    "algorithms.paged": "paged",
    "algorithms.slabs": "slab_hash",
    "benchmarks.out_of_core": "paged",
    "benchmarks.ranks": "paged",
}

# library -> who may import it at all (names of modules, and what lies under them); * is any one name
CUDA = ("cuda", "*.cuda", "*.*.cuda", "*.*.*.cuda")
LIBRARIES = {
    "cudf": ("input.frames", "adapters"),
    "cugraph": ("adapters", "benchmarks"),
    "cuda": ("cuda.launch", "adapters"),
    "cupy": ("input", "backend", "pins", *CUDA, "distributed.nccl", "adapters", "bench", "benchmarks"),
    "cupyx": (*CUDA, "adapters", "bench", "benchmarks"),
    "dask": ("adapters", "benchmarks"),
    "dask_cuda": ("benchmarks",),
    "dask_cudf": ("adapters", "benchmarks"),
    "distributed": ("adapters", "benchmarks"),
    "greenlet": ("cuda.simulator",),
    "hypothesis": ("testing",),
    "llvmlite": ("cuda.memory", "stores.table.cpu.memory"),
    "mpi4py": ("distributed.mpi",),
    "networkx": ("adapters.networkx", "io.networkx_files"),
    "numba": ("host_compiler", "stores.table.cpu.memory", *CUDA),
    "pandas": ("input", "ids", "io", "adapters", "bench", "benchmarks"),
    "polars": ("input", "io", "adapters", "benchmarks"),
    "pyarrow": ("input", "io", "adapters", "benchmarks"),
    "pylibcudf": ("input.frames", "adapters"),
    "pylibcugraph": ("adapters", "benchmarks"),
    "pytest": ("testing",),
    "rich": ("cli", "bench", "benchmarks", "terminal"),
    "rmm": ("adapters", "benchmarks"),
    "scipy": ("adapters", "bench", "benchmarks"),
    "torch": ("adapters.pyg",),
    "torch_geometric": ("adapters.pyg",),
    "typer": ("cli",),
}
NUMBA_CUDA = "cuda.compiler"
# library -> who may import it when imported itself, so that others stay light
AT_IMPORT = {
    "greenlet": LIBRARIES["greenlet"],
    "hypothesis": ("testing",),
    "llvmlite": LIBRARIES["llvmlite"],
    "numba": LIBRARIES["numba"],
    "pytest": ("testing",),
    "rich": ("bench.reports.console", "bench.demo.__main__"),
    "typer": ("cli",),
}


# layer whose types the layers below may name: they are handed a backend, and import none
HANDED_DOWN = "backend"


def below(name: str, places: tuple[str, ...]) -> bool:
    """Whether a name is one of some places, or lies under one."""
    parts = name.split(".")
    return any(
        len(parts) >= len(place := pattern.split("."))
        and all(p in ("*", n) for p, n in zip(place, parts, strict=False))
        for pattern in places
    )


def rank_of(name: str) -> int | None:
    """Return the layer of a module, None where it has none."""
    parts = name.split(".")
    return next((RANK[known] for end in range(len(parts), 0, -1) if (known := ".".join(parts[:end])) in RANK), None)


def layer_of(name: str) -> str:
    """Return a layer's name as messages have it."""
    return next(known for known in sorted(RANK, key=len, reverse=True) if below(name, (known,)))


def structure_of(name: str) -> str | None:
    """Return the structure that a module belongs to, None where it is of none."""
    parts = name.split(".")
    if parts[:2] == ["stores", "papers"]:
        del parts[1]
    is_structure = parts[0] == "stores" and len(parts) > 2 and parts[1] not in SHARED
    return parts[1] if is_structure else None


def problems(module: str, source: str) -> list[str]:
    """Return what is wrong with a module, named as in the list: ``stores.merge.store``, ``benchmarks.floors``."""
    found = []
    mine = rank_of(module)
    assert mine is not None, f"{module} has no layer"
    for name, line, at_import, for_types in imports_of(source):
        top, other = name.partition(".")[0], short_name(name)
        where = f"{module}:{line}: "
        if other is not None:
            theirs = rank_of(other)
            if theirs is not None and theirs > mine and not (for_types and below(other, (HANDED_DOWN,))):
                found.append(f"{where}{layer_of(module)} is below {layer_of(other)}")
            if {"cpu", "cuda"} <= {*module.split("."), *other.split(".")}:
                found.append(f"{where}cpu and cuda must not know each other")
            structure = structure_of(other)
            if (
                structure not in (None, structure_of(module))
                and NAMED_IN.get(".".join(module.split(".")[:2])) != structure
            ):
                found.append(f"{where}{module} must not name the structure {structure}")
        elif top in LINKED:
            found.append(f"{where}import dynstore.{top}, not {top}")
        elif top in LIBRARIES:
            if not below(module, LIBRARIES[top]):
                found.append(f"{where}{module} must not name {top}")
            if at_import and not below(module, AT_IMPORT.get(top, ())):
                found.append(f"{where}{top} must be imported where it is needed, not with the module")
        if below(name, ("numba.cuda",)) and module != NUMBA_CUDA:
            found.append(f"{where}only {NUMBA_CUDA} names numba.cuda")
    for other, line in named_in_strings(source):
        theirs = rank_of(other)
        if theirs is not None and theirs > mine:
            below_it = f"{layer_of(module)} is below {layer_of(other)}"
            found.append(f"{module}:{line}: {below_it}, and may not name it in a string either")
    return found


MODULES = list_modules()
SOURCES = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}


def test_all_folders_are_there() -> None:
    tops = {name.split(".")[0] for name in MODULES}
    assert tops >= {"algorithms", "adapters", "bench", "benchmarks", "stores", "cuda"}
    assert len(MODULES) > 200


def test_the_list_names_what_is_there() -> None:
    assert len(LAYERS) > 35
    assert len(RANK) == sum(map(len, LAYERS))  # each once
    assert [name for name in RANK if not any(below(module, (name,)) for module in MODULES)] == []


def test_the_list_is_read() -> None:
    text = (
        "## The layer rule\n\nWords.\n\n    one two\n    three.four   what it is\n"
        + 17 * " "
        + "and more\n\n- x\n    y"
    )
    assert read_layers(text) == [["one", "two"], ["three.four"]]


def test_every_module_has_a_layer() -> None:
    assert [name for name in MODULES if name not in ("", "__main__") and rank_of(name) is None] == []


def test_modules_import_only_from_lower_layers() -> None:
    found = [
        each for name, source in SOURCES.items() if name not in ("", "__main__") for each in problems(name, source)
    ]
    assert found == []


def test_a_file_says_one_thing() -> None:
    sizes = {str(MODULES[name].relative_to(ROOT)): len(source.splitlines()) for name, source in SOURCES.items()}
    assert {path: lines for path, lines in sizes.items() if lines > MAX_LINES} == {}


def test_a_folder_is_one_room() -> None:
    files = Counter(str(path.parent.relative_to(ROOT)) for path in MODULES.values() if path.name != "__init__.py")
    assert {folder: count for folder, count in files.items() if count > MAX_FILES} == {}


# Kernels that have more so far: the records of the paged structure and its algorithms are a change of their own.
MANY_PARAMETERS = {
    "algorithms.paged.cuda.betweenness": ("k_count_paths", "k_gather_owed"),
    "algorithms.paged.cuda.paths": ("k_choose_nearer", "k_push_ties", "k_relax_leaves"),
    "algorithms.paged.cuda.searches": ("k_pull_leaves", "k_push_leaves"),
    "stores.paged.delta.cuda": ("k_search_runs",),
    "stores.paged.finding.cuda": ("k_search_batch",),
}


def parameters_of(source: str, decorator: str = "device") -> dict[str, int]:
    """Return the number of parameters of each device function, or kernel, of a source."""
    if decorator not in source:
        return {}  # spared the parsing
    return {
        node.name: len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and any(_names(each, decorator) for each in node.decorator_list)
    }


def _names(node: ast.expr, decorator: str) -> bool:
    """Whether a decorator is ``decorator``, or ``partial(decorator, ...)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "partial":
        node = node.args[0]
    return isinstance(node, ast.Name) and node.id == decorator


def count_parameters(decorator: str) -> dict[str, int]:
    return {
        f"{name}.{function}": count
        for name, source in SOURCES.items()
        for function, count in parameters_of(source, decorator).items()
    }


def test_a_device_function_has_few_parameters() -> None:
    counts = count_parameters("device")
    assert len(counts) > 300
    assert {name for name, count in counts.items() if count > MAX_PARAMETERS} == set()


def test_a_kernel_has_few_parameters() -> None:
    counts = count_parameters("kernel")
    assert len(counts) > 200
    allowed = {f"{module}.{name}" for module, names in MANY_PARAMETERS.items() for name in names}
    assert {name for name, count in counts.items() if count > MAX_KERNEL_PARAMETERS} == allowed


def test_parameters_are_counted() -> None:
    source = """
@device
def d_one(a, b, *, c):
    pass

@kernel
def k_two(a):
    pass

@partial(kernel, records={"a": A})
def k_four(a, b):
    pass

if SIMULATED:
    @device
    def d_three():
        pass
"""
    assert parameters_of(source) == {"d_one": 3, "d_three": 0}
    assert parameters_of(source, "kernel") == {"k_two": 1, "k_four": 2}


def test_no_module_has_the_name_of_what_it_exports() -> None:
    found = []
    for name, source in SOURCES.items():
        names = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        if name.rsplit(".", 1)[-1] in names:
            found.append(name)
    assert found == []


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("errors", "import dynstore.graph", "errors is below graph"),
        ("stores.merge.store", "from dynstore.graph import DynamicGraph", "stores is below graph"),
        ("stores.pma.store", "from dynstore.stores.papers.gpma.store import GPMAStore", "stores.pma is below stores"),
        ("stores.table.slots", "from dynstore.batches.sorted import EdgeBatch", "stores.table is below batches"),
        ("stores.papers.gpma.store", "from dynstore.stores.lpma.store import X", "must not name the structure lpma"),
        ("algorithms.community.api", "from dynstore.stores.slab_hash import slabs", "must not name the structure"),
        ("graph", "def f():\n    from dynstore.algorithms import bfs", "graph is below algorithms"),
        ("graph", "from dynstore import algorithms", "graph is below algorithms"),
        ("stores.merge.cpu", "from dynstore.stores.merge import cuda", "must not know each other"),
        ("stores.pma.cuda.x", "import dynstore.stores.table.cpu.search", "must not know each other"),
        ("stores.pma.cpu.x", "from dynstore.cuda import warp", "must not know each other"),
        ("algorithms.traversal.cuda.x", "from dynstore.algorithms.rows.cpu import slots", "must not know each other"),
        ("cuda.warp", "from dynstore.stores.table.cuda import search", "cuda is below stores.table"),
        ("cuda.warp", "from numba import cuda", "only cuda.compiler names"),
        ("stores.merge.cuda", "import numba.cuda.random", "only cuda.compiler names"),
        ("algorithms.rows.cuda.x", "def f():\n    from numba.cuda import jit", "only cuda.compiler names"),
        ("graph", "import algorithms", "import dynstore.algorithms"),
        ("graph", "import_module('dynstore.adapters.arrow')", "graph is below adapters, and may not name it"),
        ("graph", "import_module(f'dynstore.adapters.{name}')", "graph is below adapters, and may not name it"),
        ("graph.conversions", "import_module('dynstore.algorithms')", "graph.conversions is below algorithms"),
        ("graph.conversions", "from dynstore.adapters import tables", "graph.conversions is below adapters"),
        ("graph.core", "import_module('dynstore.adapters.arrow')", "graph.core is below adapters"),
        ("cli", "from benchmarks import floors", "cli is below benchmarks"),
        ("bench.suites", "SUITES = {'gts': 'benchmarks.papers.gts'}", "bench is below benchmarks, and may not name it"),
        ("benchmarks.floors", "from dynstore.stores.merge.store import x", "must not name the structure merge"),
        ("graph", "def f():\n    import cudf", "graph must not name cudf"),
        ("adapters.networkx_info", "def f():\n    import networkx", "adapters.networkx_info must not name networkx"),
        ("stores.merge.store", "def f():\n    import cupy", "stores.merge.store must not name cupy"),
        ("input.frames", "import cudf", "imported where it is needed"),
        ("io.text", "try:\n    import pandas\nexcept ImportError:\n    pass", "imported where it is needed"),
        ("stores.merge.store", "class A:\n    from numba import njit", "must not name numba"),
        ("stores.merge.cpu", "from numba import njit", "must not name numba"),
        (
            "stores.table.cuda.x",
            "if TYPE_CHECKING:\n    from dynstore.stores.lpma import y",
            "stores.table is below stores",
        ),
        (
            "backend",
            "if TYPE_CHECKING:\n    pass\nelse:\n    from dynstore.stores import base",
            "backend is below stores",
        ),
        ("pins", "from dynstore.backend import Backend", "pins is below backend"),
    ],
)
def test_the_rule_sees(module: str, source: str, message: str) -> None:
    assert any(message in problem for problem in problems(module, source)), problems(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bits", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dynstore.backend import Backend"),
        ("input.frames", "def f():\n    import cudf"),
        ("host_compiler", "import numba"),
        ("stores.merge.cpu", "from dynstore.host_compiler import njit"),
        ("cuda.compiler", "from numba import cuda"),
        ("adapters.tables.arrow", "import_module('dynstore.algorithms')"),
        ("stores.merge.cuda", "from dynstore.cuda.compiler import cuda"),
        ("stores.gpma_plus.cuda.x", "from dynstore.stores.pma.cuda import windows"),
        ("algorithms.slabs.cuda", "from dynstore.stores.slab_hash.cuda import probe"),
        ("cli", "import typer\nfrom dynstore.bench import suites"),
        ("benchmarks.papers.figures.show", "from benchmarks.papers import run\nfrom dynstore.bench import timing"),
    ],
)
def test_the_rule_allows(module: str, source: str) -> None:
    assert problems(module, source) == []


def test_relative_imports_are_refused() -> None:
    with pytest.raises(AssertionError, match="relative import"):
        list(imports_of("from . import x"))
