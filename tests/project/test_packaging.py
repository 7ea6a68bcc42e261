"""The wheel and the source archive hold the tree, all of it and nothing else; the metadata is true."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

import dynstore
from tools.imports import LINKED, ROOT
from tools.wheels import build, copy_source, read_wheel

README_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
BESIDE = ("benchmarks", "tests", "tools")  # folders of the checkout that no wheel has
MOST_LINES = 98_300  # of Python in the wheel: it may get less. `python -m tools.wheels` counts
MOST_BYTES = 1_800_000
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _tree() -> set[str]:
    """Return what the wheel should hold, as paths inside it."""
    wanted = {"dynstore/py.typed", "dynstore/__init__.pyi", "dynstore/algorithms/__init__.pyi"}
    for folder in ("dynstore", *LINKED):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            if folder == "dynstore" and parts[1] in LINKED:
                continue  # the links to the folders beside
            wanted.add("/".join(parts if folder == "dynstore" else ("dynstore", *parts)))
    for suffix in ("cpp", "hpp", "pyx"):
        wanted |= {
            f"dynstore/adapters/cugraph/borrowed/{path.name}"
            for path in (ROOT / "adapters/cugraph/borrowed").glob(f"*.{suffix}")
        }
    return wanted | {f"dynstore/datasets/data/{name}" for name in ("CollegeMsg.txt.gz", "README.md")}


def _has_build_backend() -> bool:
    found = importlib.util.find_spec("setuptools")
    return found is not None and int(importlib.metadata.version("setuptools").split(".")[0]) >= 77


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is committed or could be, so that building leaves nothing in the tree."""
    if not _has_build_backend():
        pytest.skip("setuptools >= 77 is not installed here")
    return copy_source(tmp_path_factory.mktemp("source") / "dynstore")  # as a clone is called


@pytest.fixture(scope="module")
def wheel(clean_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(clean_copy, "build_wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    held, wanted = read_wheel(wheel).files, _tree()
    assert held - wanted == set(), "in the wheel, not wanted there"
    assert wanted - held == set(), "missing in the wheel"
    assert wheel.name == f"dynstore-{dynstore.__version__}-py3-none-any.whl"


def test_the_wheel_has_one_import_name_and_nothing_of_what_is_beside_it(wheel: Path) -> None:
    held = read_wheel(wheel).files
    assert {name.split("/")[0] for name in held} == {"dynstore"}
    assert {name for name in held if {*BESIDE, "results"} & set(name.split("/"))} == set()
    assert [name for name in held if name.endswith(".gz")] == ["dynstore/datasets/data/CollegeMsg.txt.gz"]


def test_the_wheel_does_not_grow(wheel: Path) -> None:
    """If less is in it, take the new numbers."""
    found = read_wheel(wheel)
    assert sum(found.lines.values()) <= MOST_LINES
    assert found.size <= MOST_BYTES


def test_a_wheel_made_from_the_source_archive_is_the_same(
    clean_copy: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The links of the checkout are not in the archive, and are not needed; MathOverflow is."""
    archive = build(clean_copy, "build_sdist", tmp_path_factory.mktemp("sdist"))
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    assert (source / "dynstore/datasets/data/sx-mathoverflow.txt.gz").is_file()
    assert not any((source / name).exists() for name in BESIDE)
    again = build(source, "build_wheel", tmp_path_factory.mktemp("again"))
    assert read_wheel(again).files == read_wheel(wheel).files


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """An environment with the wheel, and beside it all that is installed here; it runs what is in its `bin`.

    An editable dynstore of this environment is not seen there: a folder that a .pth file names has no .pth files.
    """
    pytest.importorskip("pip")
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    install = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", *options, wheel)
    subprocess.run(install, check=True)
    away = tmp_path_factory.mktemp("away")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["DYNSTORE_CACHE_DIR"] = str(folder / "cache")

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [folder / "bin" / program, *arguments],
            cwd=away, env=variables, capture_output=True, text=True, check=False,
        )  # fmt: skip

    found = run("python", "-c", "import dynstore; print(dynstore.__file__)")
    assert found.stdout == f"{site / 'dynstore' / '__init__.py'}\n", found.stderr
    return run


def test_the_installed_command_measures_beside_all_baselines(
    installed: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    stores = ("--store", "rebuild", "--store", "merge", "--algorithm", "none")
    out = tmp_path / "out.json"
    done = installed("dynstore", "bench", "rmat:10:8", *stores, "--steps=1", "--device=cpu", "--json", str(out))
    assert done.returncode == 0, done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["agree"]
    assert {row["store"] for row in document["rows"]} >= {"rebuild", "merge", "scipy", "numpy-key-sort"}
    assert document["commit"] == "unknown"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "dynstore bench mathoverflow",
            "load: mathoverflow is in a checkout of the repository, and not in this install",
        ),
        ("dynstore stream mathoverflow", "wanted 'collegemsg', or the path of SNAP's file sx-mathoverflow.txt.gz"),
        ("dynstore bench --suite gpma", "in a checkout of the repository: python -m benchmarks.papers --suite gpma"),
        ("python -m dynstore.bench.demo mathoverflow", "load: mathoverflow is in a checkout of the repository"),
    ],
)
def test_what_the_wheel_lacks_is_one_clear_line(
    installed: Callable[..., subprocess.CompletedProcess[str]], command: str, said: str
) -> None:
    done = installed(*command.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.thorough  # it compiles all kernels of these lines; from the checkout, `test_docs` runs them each time
def test_the_readme_is_true_of_the_wheel(installed: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    done = installed("python", "-c", "\n".join(README_BLOCK.findall(readme)))
    assert done.returncode == 0, done.stderr
    assert f"```text\n{done.stdout}```" in readme


def test_an_editable_install_works_beside_the_checkout(
    clean_copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """There the checkout, a folder called dynstore without an `__init__.py`, comes before what is installed."""
    site = tmp_path_factory.mktemp("site")
    wheel = build(clean_copy, "build_editable", tmp_path_factory.mktemp("editable"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        f"import sys, site; assert sys.path[0] == ''; site.addsitedir({str(site)!r})\n"
        "import dynstore, dynstore.algorithms, dynstore.adapters, dynstore.bench\n"
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


def test_the_base_needs_what_it_imports_and_nothing_else() -> None:
    """What is imported outside of extras' own modules is a dependency, and each dependency is imported."""
    from_project = {re.split(r"[<>=\[ ]", line)[0] for line in PROJECT["project"]["dependencies"]}
    sources = [
        ROOT / path.removeprefix("dynstore/") if path.split("/")[1] in LINKED else ROOT / path for path in _tree()
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
