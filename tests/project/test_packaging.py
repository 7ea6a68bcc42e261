"""The wheel and the source archive hold the tree, all of it and nothing else; the metadata is true."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import dynstore

ROOT = Path(__file__).resolve().parents[2]
PACKAGE_DIRS = {"algorithms", "adapters", "benchmarks"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _tree() -> set[str]:
    """Return what the wheel should hold, as paths inside it."""
    wanted = {"dynstore/py.typed"}
    for folder in ("dynstore", *PACKAGE_DIRS):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            if folder == "dynstore" and parts[1] in PACKAGE_DIRS:
                continue  # the links to the folders beside
            wanted.add("/".join(parts if folder == "dynstore" else ("dynstore", *parts)))
    for suffix in ("cpp", "hpp", "pyx"):
        wanted |= {
            f"dynstore/adapters/cugraph/borrowed/{path.name}"
            for path in (ROOT / "adapters/cugraph/borrowed").glob(f"*.{suffix}")
        }
    for path in (ROOT / "dynstore" / "datasets" / "data").iterdir():
        wanted.add(path.relative_to(ROOT).as_posix())
    return wanted


def _has_build_backend() -> bool:
    found = importlib.util.find_spec("setuptools")
    return found is not None and int(importlib.metadata.version("setuptools").split(".")[0]) >= 77


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is committed or could be, so that building leaves nothing in the tree."""
    copy = tmp_path_factory.mktemp("source") / "dynstore"  # as a clone is called
    for name in ("dynstore", *PACKAGE_DIRS):
        ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def _build(source: Path, hook: str, into: Path) -> Path:
    """Run one hook of the build backend in the environment of the tests, which has no network to ask."""
    if not _has_build_backend():
        pytest.skip("setuptools >= 77 is not installed here")
    code = f"from setuptools import build_meta; print(build_meta.{hook}({str(into)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(clean_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(clean_copy, "build_wheel", tmp_path_factory.mktemp("wheel"))


def _contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}


def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    held, wanted = _contents(wheel), _tree()
    assert held - wanted == set(), "in the wheel, not wanted there"
    assert wanted - held == set(), "missing in the wheel"
    assert wheel.name == f"dynstore-{dynstore.__version__}-py3-none-any.whl"


def test_the_wheel_has_one_import_name_and_no_results(wheel: Path) -> None:
    held = _contents(wheel)
    assert {name.split("/")[0] for name in held} == {"dynstore"}
    assert not [name for name in held if "results" in name.split("/")]
    assert any(name.startswith("dynstore/datasets/data/") and name.endswith(".gz") for name in held)


def test_a_wheel_made_from_the_source_archive_is_the_same(
    clean_copy: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The links of the checkout are not in the archive, and are not needed."""
    archive = _build(clean_copy, "build_sdist", tmp_path_factory.mktemp("sdist"))
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    again = _build(source, "build_wheel", tmp_path_factory.mktemp("again"))
    assert _contents(again) == _contents(wheel)


def test_the_installed_wheel_works_away_from_the_tree(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, 'site')\n"
        "import dynstore, dynstore.algorithms, dynstore.adapters, benchmarks\n"
        "G = dynstore.DynamicGraph(device='cpu'); G.insert_edges(([0], [1]))\n"
        "print(dynstore.__file__, G.number_of_edges())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    place, edges = done.stdout.split()
    assert (Path(place).resolve(), edges) == ((tmp_path / "site/dynstore/__init__.py").resolve(), "1")


def test_an_editable_install_works_beside_the_checkout(
    clean_copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """There the checkout, a folder called dynstore without an `__init__.py`, comes before what is installed."""
    site = tmp_path_factory.mktemp("site")
    wheel = _build(clean_copy, "build_editable", tmp_path_factory.mktemp("editable"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        f"import sys, site; assert sys.path[0] == ''; site.addsitedir({str(site)!r})\n"
        "import dynstore, dynstore.algorithms, dynstore.adapters, benchmarks\n"
        "print(dynstore.__file__, dynstore.__version__)"
    )
    # -S: without the site-packages of the tests, where dynstore may be installed, too
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=clean_copy.parent,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(clean_copy / "dynstore" / "__init__.py"), dynstore.__version__]


def test_the_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(path).decode())
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "dynstore = dynstore.cli:main" in archive.read(entry).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert metadata["Version"] == dynstore.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata["Requires-Python"].split(",")) == {">=3.11", "<3.14"}
    extras = set(metadata.get_all("Provides-Extra") or [])
    assert extras == {
        "cuda12",
        "cuda13",
        "rapids",
        "dask",
        "networkx",
        "bench",
        "docs",
        "mpi",
        "pyg",
        "streams",
        "test",
    }


def test_every_package_is_listed() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    found = {path.rsplit("/", 1)[0].replace("/", ".") for path in _tree() if path.endswith("/__init__.py")}
    assert listed == found


def test_the_base_needs_what_it_imports_and_nothing_else() -> None:
    """What is imported outside of extras' own modules is a dependency, and each dependency is imported."""
    from_project = {re.split(r"[<>=\[ ]", line)[0] for line in PROJECT["project"]["dependencies"]}
    sources = [
        ROOT / path.removeprefix("dynstore/") if path.split("/")[1] in PACKAGE_DIRS else ROOT / path for path in _tree()
    ]
    named = set()
    for path in sources:
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    named |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    named.add(node.module.partition(".")[0])
    third_party = named - set(sys.stdlib_module_names) - {"dynstore"}
    optional = {"cupy", "cupyx", "cudf", "cugraph", "pylibcudf", "pylibcugraph", "rmm", "cuda", "networkx"}
    optional |= {"polars", "scipy", "pytest", "hypothesis", "greenlet", "mpi4py"}
    assert third_party - optional == from_project


def test_the_dev_container_installs_extras_that_exist() -> None:
    """The form only: nothing builds the image here. Whole lines are comments in this file, as its readers allow."""
    folder = ROOT / ".devcontainer"
    lines = (folder / "devcontainer.json").read_text(encoding="utf-8").splitlines()
    container = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
    assert (folder / container["build"]["dockerfile"]).exists()
    (named,) = re.findall(r"pip install -e '\.\[([a-z0-9,]+)\]'", container["postCreateCommand"])
    assert {"rapids", "test"} <= set(named.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
