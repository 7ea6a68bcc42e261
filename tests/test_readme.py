"""The README tells the truth: its lines print what is shown, its targets, extras, files and options exist."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import dynstore.stores

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    return text


def test_the_first_program_has_eight_lines_and_shows_what_it_prints() -> None:
    """That it prints it: ``test_docs``."""
    program = _block("python")
    assert len([line for line in program.splitlines() if line.strip()]) == 8
    assert _block("text")


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
    shown = set(re.findall(r"pip install (?:-e )?'\.\[([a-z0-9]+)\]'", README))
    assert shown == set(project["optional-dependencies"])


def test_every_store_is_named() -> None:
    for name in dynstore.stores.STORES:
        assert f'`"{name}"`' in README
