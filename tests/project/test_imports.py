"""Importing dynstore is light, and what is public is what ``__all__`` says."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks
import dynstore

ROOT = Path(__file__).resolve().parents[2]


def loaded_by(code: str) -> set[str]:
    """Return the top-level names in sys.modules after running ``code`` in a new interpreter."""
    program = (
        f"import sys, json\nbefore = set(sys.modules)\n{code}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def foreign(modules: set[str]) -> set[str]:
    """Return the top-level names that are neither dynstore nor the standard library."""
    tops = {name.partition(".")[0] for name in modules}
    return {name for name in tops - set(sys.stdlib_module_names) - {"dynstore"} if not name.startswith("__editable__")}


def test_importing_dynstore_loads_nothing_else() -> None:
    loaded = loaded_by("import dynstore")
    assert foreign(loaded) == set()
    assert {name for name in loaded if name.startswith("dynstore")} == {"dynstore", "dynstore.lookup"}


@pytest.mark.parametrize("name", ["dynstore.errors", "dynstore.typing"])
def test_the_lowest_layer_needs_nothing(name: str) -> None:
    assert foreign(loaded_by(f"import {name}")) == set()


@pytest.mark.parametrize(
    "code",
    ["import dynstore.graph", "import dynstore.algorithms", "dynstore = __import__('dynstore'); dynstore.DynamicGraph"],
)
def test_the_graph_needs_numpy_only(code: str) -> None:
    assert foreign(loaded_by(code)) <= {"numpy"}


def test_a_graph_on_the_host_loads_no_frame_library_until_a_frame_is_asked_for() -> None:
    code = "import dynstore; G = dynstore.DynamicGraph(device='cpu'); G.insert_edges(([0], [1])); G.neighbors(0)"
    assert not foreign(loaded_by(code)) & {"pandas", "pyarrow", "polars", "networkx", "typer", "rich", "cupy"}
    assert "pandas" in foreign(loaded_by(f"{code}; G.degree()")) | foreign(
        loaded_by("import cudf" if _has("cudf") else "pass")
    )


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def test_the_command_loads_no_numba_before_it_works() -> None:
    assert not foreign(loaded_by("import dynstore.cli")) & {"numba", "pandas", "pyarrow", "cupy", "scipy", "networkx"}


def test_all_is_what_is_public() -> None:
    assert sorted(dynstore.__all__, key=str.lower) == sorted(set(dynstore.__all__), key=str.lower)
    for name in dynstore.__all__:
        assert getattr(dynstore, name) is not None
        assert name in dir(dynstore)
    with pytest.raises(AttributeError, match="has no attribute 'pagerankk'"):
        _ = dynstore.pagerankk
    namespace: dict[str, object] = {}
    exec("from dynstore import *", namespace)
    assert {name for name in namespace if name != "__builtins__"} == set(dynstore.__all__)


@pytest.mark.parametrize("package", ["dynstore", "dynstore.algorithms"])
def test_type_checkers_see_the_same_public_names(package: str) -> None:
    """The stub has a line for each name, and a star for each family of algorithms."""
    module = importlib.import_module(package)
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    shown = {
        node.target.id for node in stub.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                star = alias.name == "*"
                shown |= set(importlib.import_module(str(node.module)).__all__) if star else {str(alias.asname)}
    assert shown == set(module.__all__)


def _all_modules() -> list[str]:
    names = ["dynstore"]
    for package in (dynstore, benchmarks):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name != "dynstore.__main__":
                names.append(info.name)
    return names


@pytest.mark.parametrize("name", _all_modules())
def test_the_all_of_every_module_names_its_public_functions_and_classes(name: str) -> None:
    if name == "dynstore.cuda.simulator":
        pytest.importorskip("greenlet")
    module = importlib.import_module(name)
    kernels = not {"cpu", "cuda"}.isdisjoint(name.split("."))
    if module.__file__ is None or not Path(module.__file__).read_text(encoding="utf-8"):
        return  # packages that hold modules only
    listed = set(getattr(module, "__all__", ()))
    for public in listed:
        assert hasattr(module, public), f"{name}.__all__ names {public}, which is not there"
    own = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == name
    }
    if kernels:  # kernels and device functions are reached through launchers
        own = {key for key in own if not key.startswith(("k_", "d_"))}
    assert own <= listed, f"{name}: public but not in __all__: {sorted(own - listed)}"


@pytest.mark.parametrize("name", ["algorithms", "adapters"])
def test_the_folders_at_the_root_cannot_be_imported_by_themselves(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"ImportError: {name}: this folder is a part of dynstore; import dynstore.{name}"
    )
    subprocess.run([sys.executable, "-c", f"import dynstore.{name}"], check=True, cwd=ROOT, env=dict(os.environ))


def test_the_laboratory_is_imported_from_the_root_and_is_no_part_of_dynstore() -> None:
    program = "import benchmarks.floors, importlib.util; assert importlib.util.find_spec('dynstore.benchmarks') is None"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=dict(os.environ))
