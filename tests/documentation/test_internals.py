"""The pages on internals name what there is: files, kernels and device functions; each kernel is on one page."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "internals"
PAGES = [*sorted(FOLDER.glob("*.md")), ROOT / "docs" / "glossary.md"]
NAMES = [page.name for page in PAGES]
# Packages below dynstore/stores whose page has another name.
OTHER_PAGES = {"rebuild": "merge.md"}
LONGEST_LINE, LONGEST_ROW = 120, 210

DEFINED = re.compile(r"^\s*(?:def\s+([kd]_\w+)|([kd]_\w+)\s*=)", flags=re.MULTILINE)
KERNEL = re.compile(r"^def (k_\w+)", flags=re.MULTILINE)
NAMED = re.compile(r"\b[kd]_[a-z0-9]\w*")
QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.(?:py|md|json|txt|toml)")
FOLDER_NAME = re.compile(r"(?:dynstore|adapters|algorithms|tests|docs|benchmarks)/[\w./-]+")
PACKAGE = re.compile(r"^Package: `([\w/]+)`$", flags=re.MULTILINE)
ROW = re.compile(r"^\| `(k_\w+)` \| `([\w./-]+)` \|", flags=re.MULTILINE)
PLACEHOLDERS = {"k_verb_noun", "d_verb_noun"}


@cache
def _sources() -> dict[Path, str]:
    """Return the text of each file of the library; the links in ``dynstore`` lead to folders that are here, too."""
    folders = [ROOT / name for name in ("dynstore", "adapters", "algorithms")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    return {path: path.read_text(encoding="utf-8") for path in paths if path.resolve() == path}


@cache
def _defined() -> frozenset[str]:
    found = {first or second for text in _sources().values() for first, second in DEFINED.findall(text)}
    return frozenset(found | PLACEHOLDERS)


def _kernels() -> set[tuple[str, Path]]:
    """Return all CUDA kernels but those of algorithms, with their files."""
    return {
        (name, path)
        for path, text in _sources().items()
        if ROOT / "algorithms" not in path.parents and ("cuda" in path.parts or path.name == "cuda.py")
        for name in KERNEL.findall(text)
    }


def _package(text: str) -> Path:
    found = PACKAGE.search(text)
    return ROOT / found.group(1) if found else ROOT


def _find(name: str, text: str) -> Path | None:
    """Return the file or folder of a name: below the page's package, the root, or ``dynstore``."""
    places = [base / name for base in (_package(text), ROOT, ROOT / "dynstore")]
    return next((place for place in places if place.exists()), None)


def _missing_names(text: str) -> list[str]:
    shown = set(re.findall(r"^def (\w+)\(", text, flags=re.MULTILINE))  # in code of the page's own
    return sorted(set(NAMED.findall(text)) - _defined() - shown)


def _missing_files(text: str) -> list[str]:
    quoted = [name for name in QUOTED.findall(text) if FILE.fullmatch(name) or FOLDER_NAME.fullmatch(name)]
    return [name for name in quoted if _find(name, text) is None]


def _listed(texts: dict[str, str]) -> dict[tuple[str, Path | None], list[str]]:
    """Return the pages on which each kernel has a row of a table."""
    found: dict[tuple[str, Path | None], list[str]] = defaultdict(list)
    for page, text in texts.items():
        for name, file in ROW.findall(text):
            found[name, _find(file, text)].append(page)
    return found


def _texts() -> dict[str, str]:
    return {page.name: page.read_text(encoding="utf-8") for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert _missing_names(text) == []
    if page.name not in ("new-algorithm.md", "new-store.md"):  # these name files that the reader is about to write
        assert _missing_files(text) == []


@pytest.mark.parametrize(("page", "least"), [("a-batch-s-way.md", 11), ("a-streamed-batch-s-way.md", 10)])
def test_the_walk_names_what_is_there(page: str, least: int) -> None:
    """Each step of a batch's way names a file and what is defined in it."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    steps = re.findall(r"`(dynstore/[\w/]+\.py)`,\s+`(\w+)`", text)
    assert len(steps) >= least
    wrong = [
        step
        for step in steps
        if not re.search(rf"(def|class) {step[1]}\b", (ROOT / step[0]).read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_lines_are_short(page: Path) -> None:
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        longest = LONGEST_ROW if line.startswith("|") else LONGEST_LINE
        assert len(line) <= longest, f"{page.name}:{number} has {len(line)} characters; wanted at most {longest}"


def test_every_store_has_a_page() -> None:
    stores = ROOT / "dynstore" / "stores"
    for folder in sorted([*stores.iterdir(), *(stores / "papers").iterdir()]):
        if (folder / "__init__.py").exists() and folder.name != "papers":
            page = FOLDER / OTHER_PAGES.get(folder.name, f"{folder.name}.md")
            assert page.exists(), f"{folder.relative_to(ROOT)} has no page {page.name}"
            assert f"`{folder.relative_to(ROOT)}`" in page.read_text(encoding="utf-8")


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    for page in FOLDER.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def test_every_kernel_is_on_one_page() -> None:
    kernels, listed = _kernels(), _listed(_texts())
    assert len(kernels) > 50
    assert sorted(map(str, kernels - listed.keys())) == [], "kernels without a row"
    assert sorted(map(str, listed.keys() - kernels)) == [], "rows without a kernel"
    assert {kernel: pages for kernel, pages in listed.items() if len(pages) != 1} == {}


def test_the_checks_find_mistakes() -> None:
    text = "Package: `dynstore/stores/pma`\n| `k_no_such` | `cuda/windows.py` | `d_no_such` |\n`cuda/no_such.py`"
    assert _missing_names(text) == ["d_no_such", "k_no_such"]
    assert _missing_files(text) == ["cuda/no_such.py"]
    assert _missing_files("`dynstore/stores/no_such`") == ["dynstore/stores/no_such"]
    texts = _texts()
    (row,) = (line for line in texts["cuda.md"].splitlines() if line.startswith("| `k_probe`"))
    probe = "k_probe", ROOT / "dynstore" / "cuda" / "compiler.py"
    assert probe in _listed(texts)
    assert probe not in _listed({"cuda.md": texts["cuda.md"].replace(row, "")})
    twice = _listed(texts | {"another.md": f"Package: `dynstore/cuda`\n{row}"})
    assert twice[probe] == ["cuda.md", "another.md"]
