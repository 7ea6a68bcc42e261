"""The README tells the truth: its lines print what is shown, its targets, extras, files and options exist."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import dynstore.stores

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_has_a_program_for_each_reader() -> None:
    """That they run, and print what is shown: ``test_docs``."""
    prose = re.sub(r"^(```.*?^```|\|.*?$|    .*?$)", "", README, flags=re.DOTALL | re.MULTILINE)
    assert 300 < len(prose.split()) < 700
    programs = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
    assert [language for language, _ in programs] == ["python", "text", "python", "diff"]
    assert "networkx" in programs[2][1]
    assert "cugraph" in programs[3][1]


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"make ([a-z-]+)", README)) | {"help"}
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert {"demo", "test", "test-gpu", "help"} <= named <= targets
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"make {target}" in help_text for target in targets)
    assert subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout == help_text


def test_the_install_table_is_the_extras() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").split("Several extras")[0]
    shown = set(re.findall(r"pip install (?:-e )?'\.\[([a-z0-9]+)\]'", page))
    assert shown == set(project["optional-dependencies"])


def test_every_store_is_named() -> None:
    page = (ROOT / "docs" / "choosing-a-store.md").read_text(encoding="utf-8")
    for name in dynstore.stores.STORES:
        assert f"`{name}`" in page
