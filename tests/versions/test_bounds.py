"""The lower bounds of pyproject.toml, and what the documents say of them."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from dynstore.adapters.cugraph.borrowed import loading
from tests.versions.bounds import ROOT, find_lowest, list_pythons, list_requirements, read_project
from tests.versions.run import make_pins

PROJECT = read_project()
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
USED = ("bench", "dask", "networkx", "streams")  # by the package itself, of the extra `test`


def made(**tables: Any) -> dict[str, Any]:
    return {"name": "mine", "dependencies": [], "optional-dependencies": {}, **tables}


def test_extras_stand_for_what_they_name() -> None:
    extras = {"a": ["mine[b,c]", "x>=1"], "b": ["y[z]>=2,!=2.5"], "c": ["mine[b]"], "d": ["w"]}
    found = list_requirements(made(dependencies=["base>=3"], **{"optional-dependencies": extras}), ["a"])
    assert [str(each) for each in found] == ["base>=3", "y[z]!=2.5,>=2", "y[z]!=2.5,>=2", "x>=1"]


def test_the_highest_of_several_lower_bounds_counts() -> None:
    lines = ["B_c>=1.9", "b-c>=1.10,<3", "a~=2.1", "d==4", "B-C>=1.2"]
    assert find_lowest(map(Requirement, lines)) == {"a": "2.1", "b-c": "1.10", "d": "4"}
    assert make_pins({"a": "2.1", "b-c": "1.10"}) == "a==2.1\nb-c==1.10\n"


@pytest.mark.parametrize("line", ["free", "free<3", "free!=3"])
def test_a_library_without_a_lower_bound_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=r"^pyproject.toml: `free` has no lower bound; wanted one that is tested$"):
        find_lowest([Requirement("a>=1"), Requirement(line)])
    assert find_lowest([Requirement(line), Requirement("free>=2")]) == {"free": "2"}


def test_pythons_are_those_of_the_classifiers() -> None:
    names = [f"Programming Language :: Python :: {version}" for version in ("3", "3.10", "3.9", "3.11")]
    assert list_pythons(made(classifiers=["Typing :: Typed", *names])) == ["python3.9", "python3.10", "python3.11"]
    allowed = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert [f"python3.{minor}" for minor in range(30) if f"3.{minor}" in allowed] == list_pythons(PROJECT)


def test_every_library_has_a_lower_bound() -> None:
    find_lowest(list_requirements(PROJECT, PROJECT["optional-dependencies"]))
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    lowest = find_lowest(list_requirements(PROJECT))
    assert find_lowest(map(Requirement, built)) == {"setuptools": lowest["setuptools"]}


def test_llvmlite_is_the_one_of_numba() -> None:
    """Numba 0.61 wants llvmlite 0.44; each release of Numba goes with one of llvmlite."""
    lowest = find_lowest(list_requirements(PROJECT))
    assert int(lowest["llvmlite"].split(".")[1]) == int(lowest["numba"].split(".")[1]) - 17


def test_the_page_names_the_bounds_and_versions_that_can_be() -> None:
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) \|", INSTALL, flags=re.MULTILINE)
    shown = {name: oldest for name, oldest, _ in rows}
    lowest = find_lowest(list_requirements(PROJECT))
    wanted = find_lowest(list_requirements(PROJECT, USED)).keys() | {"polars"}
    assert shown == {name: lowest[name] for name in sorted(wanted)}
    assert list(shown) == sorted(shown)
    assert all(Version(oldest) < Version(newest) for _, oldest, newest in rows)


def test_the_lowest_rapids_is_the_same_everywhere() -> None:
    """In pyproject.toml, in what `dynstore info` and the adapter compare with, and in the documents."""
    lowest = find_lowest(list_requirements(PROJECT, ["rapids"]))
    assert {lowest["cudf-cu13"], lowest["cugraph-cu13"]} == {"{}.{:02}".format(*loading.OLDEST)}
    said = lowest["cudf-cu13"]
    for page in ("install.md", "cugraph.md"):
        text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        named = set(re.findall(r"cuGraph (\d\d\.\d\d) or later", text))
        assert named == {said}, page


def test_the_installed_libraries_are_within_the_bounds() -> None:
    """As `make test` installs them; elsewhere a library may be missing."""
    wrong = {}
    for requirement in list_requirements(PROJECT):
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong[str(requirement)] = version
    assert wrong == {}
