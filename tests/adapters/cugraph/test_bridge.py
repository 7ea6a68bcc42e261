"""Building the library that lends graphs: where it is kept, what it needs, and what happens when it cannot be had."""

from __future__ import annotations

import csv
import platform
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import dynstore
from dynstore.adapters.cugraph.borrowed import builder, loading, self_test, toolchain, wheel
from dynstore.adapters.cugraph.borrowed.builder import BuildError, build, build_commands, cache_key, library_path
from dynstore.adapters.cugraph.borrowed.loading import describe, load_bridge
from dynstore.adapters.cugraph.borrowed.toolchain import (
    HEADERS,
    LIBRARIES,
    cuda_major,
    find_toolchain,
    rapids_version,
)
from dynstore.adapters.cugraph.borrowed.wheel import make_wheel
from dynstore.bench.machine import look_around
from dynstore.errors import MissingDependencyError

COMPILER = """#!{python}
import pathlib, sys
if "{fail}":
    sys.exit("borrowed_graph.cpp:1:1: fatal error: {fail}")
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("built")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of RAPIDS and CUDA that are looked for, a cache of its own, and no other CUDA."""
    site = tmp_path / "site"
    for header in HEADERS:
        package = {"cugraph": "libcugraph", "cugraph_c": "libcugraph", "raft": "libraft", "rmm": "librmm"}
        package["rapids_logger"] = "rapids_logger"
        top = header.partition("/")[0]
        folder = site / package[top] if top in package else site / "nvidia" / "cu13"
        path = folder / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for library in LIBRARIES:
        name = library.replace("*", ".13")
        folder = {"libcugraph": site / "libcugraph/lib64", "librmm": site / "librmm/lib64"}
        place = next((to for prefix, to in folder.items() if name.startswith(prefix)), site / "nvidia/cu13/lib")
        place.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    (site / "pylibcugraph").mkdir()
    (site / "pylibcugraph" / "__init__.py").touch()
    (site / "pylibcugraph" / "VERSION").write_text("26.10.00\n")
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(loading.SWITCH, raising=False)
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain, "_prefixes", list)
    monkeypatch.setattr(toolchain, "search_places", lambda site: [site])
    python_include = tmp_path / "python"
    python_include.mkdir()
    (python_include / "Python.h").touch()
    real = sysconfig.get_path
    monkeypatch.setattr(
        toolchain.sysconfig, "get_path", lambda name: str(python_include) if name == "include" else real(name)
    )
    monkeypatch.setattr(
        toolchain.importlib.util, "find_spec", lambda name: None if name == "pylibcugraph" else object()
    )
    monkeypatch.setattr(loading, "find_rapids", lambda: site)
    use_compiler(tmp_path, monkeypatch)
    load_bridge.cache_clear()
    yield site
    load_bridge.cache_clear()


def use_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str = "c++", fail: str = "") -> Path:
    """Let a script be the compiler, and Cython a command that does nothing."""
    compiler = tmp_path / name
    compiler.write_text(COMPILER.format(python=sys.executable, fail=fail))
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    real = build_commands
    monkeypatch.setattr(
        builder, "build_commands", lambda chain, work: [[sys.executable, "-c", "pass"], real(chain, work)[1]]
    )
    return compiler


# ---------------------------------------------------------------------- where it is kept


def test_the_key_says_release_abi_and_processor() -> None:
    release, minor, cuda, abi, machine, digest = cache_key("26.10.02", "13").split("-")
    assert (release, minor, cuda, machine) == ("rapids", "26.10", "cu13", platform.machine())
    assert abi == ("abi3" if not sysconfig.get_config_var("Py_GIL_DISABLED") else f"cp3{sys.version_info[1]}t")
    assert len(digest) == 12


def test_the_key_changes_with_what_the_library_depends_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = cache_key("26.10.00")
    assert cache_key("26.10.01") == key, "one build serves a minor release"
    assert cache_key("26.12.00") != key
    assert cache_key("26.10.00", "12") != cache_key("26.10.00", "13")
    with monkeypatch.context() as patch:
        patch.setattr(builder, "FLAGS", (*builder.FLAGS, "-g"))
        assert cache_key("26.10.00") != key
    with monkeypatch.context() as patch:
        patch.setattr(builder.platform, "machine", lambda: "aarch64")
        assert cache_key("26.10.00") != key
    with monkeypatch.context() as patch:
        patch.setattr(builder.sysconfig, "get_config_var", lambda name: 1)
        assert "-abi3-" not in cache_key("26.10.00")
    for name in builder.SOURCES:
        (tmp_path / name).write_bytes((builder._HERE / name).read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(builder, "_HERE", tmp_path)
        assert cache_key("26.10.00") == key
        (tmp_path / builder.SOURCES[1]).write_text("// changed")
        assert cache_key("26.10.00") != key


# ---------------------------------------------------------------------- what it needs


def test_everything_there_makes_a_toolchain(site: Path) -> None:
    chain = find_toolchain(site)
    assert [path.name for path in chain.libraries] == [name.replace("*", ".13") for name in LIBRARIES]
    assert chain.cython_dir == site
    commands = build_commands(chain, Path("work"))
    compiler = commands[1]
    assert compiler[0] == chain.compiler
    assert "-std=c++20" in compiler
    assert "-DPy_LIMITED_API=0x030b0000" in compiler
    assert all(str(folder) in compiler for folder in chain.include_dirs)
    assert commands[0][1:3] == ["-m", "cython"]


@pytest.mark.parametrize("header", HEADERS)
def test_a_missing_header_gives_the_line_to_type(site: Path, header: str) -> None:
    for path in site.rglob(Path(header).name):
        path.unlink()
    with pytest.raises(MissingDependencyError) as caught:
        find_toolchain(site)
    assert f"the header {header} was not found; to get it: {HEADERS[header]}" in str(caught.value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_missing_library_gives_the_line_to_type(site: Path, library: str) -> None:
    for path in site.rglob(library):
        path.unlink()
    with pytest.raises(MissingDependencyError, match="pip install"):
        find_toolchain(site)


def test_a_missing_compiler_cython_or_python_header_gives_the_line_to_type(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("CXX", str(site / "no-compiler"))
        with pytest.raises(
            MissingDependencyError, match=r"a C\+\+ compiler was not found; to get it: apt install g\+\+"
        ):
            find_toolchain(site)
    with monkeypatch.context() as patch:
        patch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(MissingDependencyError, match=r"pip install 'cython>=3\.1'"):
            find_toolchain(site)
    with monkeypatch.context() as patch:
        patch.setattr(toolchain.sysconfig, "get_path", lambda name: str(site))
        with pytest.raises(MissingDependencyError, match=r"apt install python3\.\d+-dev"):
            find_toolchain(site)


def test_all_that_is_missing_is_one_error(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (*site.rglob("graph.hpp"), *site.rglob("curand.h"), *site.rglob("handle.hpp")):
        path.unlink()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingDependencyError) as caught:
        find_toolchain(site)
    assert str(caught.value) == (
        "BorrowedGraph: a C++ compiler was not found; to get it: apt install g++ (or conda install gxx), or set CXX. "
        "the header cugraph/graph.hpp, the header raft/core/handle.hpp were not found; to get them: "
        "pip install 'dynstore[rapids]'. the header curand.h was not found; to get it: "
        "pip install nvidia-curand, or install the CUDA toolkit and set CUDA_HOME"
    )


def test_the_cuda_of_cugraph_is_in_its_library(site: Path) -> None:
    assert cuda_major(site) == "", "an empty file"
    (site / "pylibcugraph_cu13-26.10.0.dist-info").mkdir()
    assert cuda_major(site) == "13"
    library = site / "libcugraph" / "lib64" / "libcugraph_c.so"
    library.write_bytes(b"\0libraft.so\0libcudart.so.12\0GLIBC")
    assert cuda_major(site) == "12"
    assert library_path(site).parent.name.startswith("rapids-26.10-cu12-")


def test_nvidias_headers_may_lie_elsewhere_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "elsewhere" / "nvidia" / "cu13" / "include"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "elsewhere")])
    assert folder in toolchain._include_dirs(tmp_path / "site")


def test_a_version_that_is_not_written_down_is_unknown(tmp_path: Path) -> None:
    assert rapids_version(tmp_path) == "unknown"


# ---------------------------------------------------------------------- building


def test_it_is_built_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(site)
    assert path == library_path(site)
    assert path.read_text() == "built"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "nothing else stays behind"
    monkeypatch.setattr(builder, "find_toolchain", lambda site: pytest.fail("looked for a compiler again"))
    assert build(site) == path


def test_a_failed_build_is_not_tried_again_until_something_changes(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_compiler(tmp_path, monkeypatch, fail="concepts: No such file")
    with pytest.raises(BuildError, match=r"c\+\+ failed with exit code 1: .*concepts: No such file"):
        build(site)
    with pytest.raises(BuildError, match="as tried before; to try again, delete"):
        build(site)
    assert "concepts: No such file" in str(describe())
    use_compiler(tmp_path, monkeypatch, name="newer-c++")
    assert build(site).is_file()
    assert not library_path(site).with_name(builder.FAILED).exists()


def test_a_cache_that_cannot_be_written_is_a_reason(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(site / "pylibcugraph" / "VERSION"))
    with pytest.raises(BuildError, match="cannot be written"):
        build(site)


@pytest.mark.parametrize("missing", ["release", "version of CUDA"])
def test_a_wheel_is_for_a_release_and_a_cuda(site: Path, tmp_path: Path, missing: str) -> None:
    if missing == "release":
        (site / "pylibcugraph_cu13-26.10.0.dist-info").mkdir()
        (site / "pylibcugraph" / "VERSION").unlink()
    with pytest.raises(MissingDependencyError, match=f"the {missing} of pylibcugraph in .* was not found"):
        make_wheel(site, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_an_installed_package_brings_the_library(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "pylibcugraph_cu13-26.10.0.dist-info").mkdir()
    made = make_wheel(site, tmp_path / "dist")
    assert made.name.startswith(f"dynstore_borrowed_cu13-26.10.{dynstore.__version__}-cp311-abi3-linux_")
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith("RECORD"))
        assert [row[0] for row in csv.reader(archive.read(record).decode().splitlines())] == names
        archive.extractall(site)
    monkeypatch.setattr(builder, "find_toolchain", lambda site: pytest.fail("looked for a compiler"))
    library = build(site)
    assert library.relative_to(site).parts == ("dynstore_borrowed", library_path(site).parent.name, builder.LIBRARY)
    pass_the_test(monkeypatch, "pass")
    assert load_bridge().borrowed_graph is Lender
    assert str(library) in str(describe())
    assert library_path(site).with_name(loading.PASSED).is_file(), "notes go to the cache"
    (site / "pylibcugraph" / "VERSION").write_text("26.12.00\n")
    assert builder.find_library(site) is None, "it is for one release"


def test_a_wheel_that_cannot_be_made_says_all_that_is_missing(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wheel, "find_rapids", lambda: None)
    assert wheel.main(["--out", str(site / "dist")]) == 2
    assert (
        capsys.readouterr().err
        == "make wheels: pylibcugraph was not found; to get it: pip install 'dynstore[rapids]'\n"
    )
    monkeypatch.setattr(wheel, "find_rapids", lambda: site)
    monkeypatch.setenv("CXX", "no-such-compiler")
    (site / "libcugraph" / "include" / "cugraph" / "graph.hpp").unlink()
    assert wheel.main(["--out", str(site / "dist")]) == 2
    message = capsys.readouterr().err
    assert "a C++ compiler was not found" in message
    assert "the header cugraph/graph.hpp was not found" in message
    assert not (site / "dist").exists()


# ---------------------------------------------------------------------- deciding


@pytest.mark.parametrize(("version", "borrowed"), [("25.12.00", False), ("26.08.01", False), ("27.02.00", True)])
def test_releases_before_the_oldest_are_refused_and_later_ones_noted(
    site: Path, monkeypatch: pytest.MonkeyPatch, version: str, borrowed: bool
) -> None:
    (site / "pylibcugraph" / "VERSION").write_text(version)
    build(site)
    pass_the_test(monkeypatch, "pass")
    bridge = load_bridge()
    assert (bridge.borrowed_graph is Lender) == borrowed
    note = (
        f"RAPIDS {version} (dynstore's tests ran with 26.10 only)"
        if borrowed
        else f"RAPIDS {version} is older than 26.10"
    )
    assert note in bridge.reason
    assert note in str(describe())


def test_a_failed_test_is_remembered(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(site)
    pass_the_test(monkeypatch, "import sys; sys.exit('weights are in another place')")
    assert "weights are in another place" in load_bridge().reason
    monkeypatch.setattr(loading.subprocess, "run", lambda *args, **options: pytest.fail("tested again"))
    load_bridge.cache_clear()
    note = library_path(site).with_name(loading.NOT_PASSED)
    reason = f"self-test: exit code 1: weights are in another place (as tested before; to test again, delete {note})"
    assert reason in load_bridge().reason
    assert reason in str(describe())
    (site / "pylibcugraph" / "VERSION").write_text("26.10.01\n")
    assert "to be tested on first use" in str(describe())


def test_switched_off(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loading.SWITCH, "off")
    assert load_bridge() == loading.Bridge(None, "DYNSTORE_BORROWED=off")
    assert "DYNSTORE_BORROWED=off" in str(describe())


def test_without_pylibcugraph_there_is_nothing_to_lend_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_rapids", lambda: None)
    load_bridge.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"pip install 'dynstore\[rapids\]'"):
        load_bridge()
    assert describe() is None
    (finding,) = [finding for finding in look_around() if finding.name == "cuGraph path"]
    assert (finding.found, finding.remedy) == (None, "pip install 'dynstore[rapids]'")


def test_no_compiler_means_sggraph(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    bridge = load_bridge()
    assert bridge.borrowed_graph is None
    assert "apt install g++" in bridge.reason
    assert str(describe()).startswith(
        "SGGraph, a rebuild for each version: BorrowedGraph: a C++ compiler was not found"
    )


def test_a_library_that_cannot_be_opened_means_sggraph(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_first_test", lambda library, site: None)
    bridge = load_bridge()
    assert bridge.borrowed_graph is None
    assert "self-test" in bridge.reason


class Lender:
    pass


class ShardLender:
    pass


def pass_the_test(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the process that tests the library run ``code`` instead."""
    real = loading.subprocess.run
    monkeypatch.setattr(
        loading.subprocess, "run", lambda command, **options: real([sys.executable, "-c", code], **options)
    )
    classes = SimpleNamespace(BorrowedGraph=Lender, BorrowedMGGraph=ShardLender)
    monkeypatch.setattr(loading, "open_library", lambda path: classes)
    monkeypatch.setattr(loading, "problem_of", lambda lender: None)


def test_a_library_that_passes_is_used_and_tested_once_a_version(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "to be built with" in str(describe())
    library = build(site)
    assert "to be tested on first use" in str(describe())
    pass_the_test(monkeypatch, "pass")
    bridge = load_bridge()
    assert (bridge.borrowed_graph, bridge.borrowed_mg_graph) == (Lender, ShardLender)
    assert str(library) in bridge.reason
    assert "built and tested" in str(describe())
    monkeypatch.setattr(loading.subprocess, "run", lambda *args, **options: pytest.fail("tested again"))
    monkeypatch.setattr(loading, "problem_of", lambda lender: pytest.fail("tested again"))
    load_bridge.cache_clear()
    assert load_bridge().borrowed_graph is Lender
    (site / "pylibcugraph" / "VERSION").write_text("26.10.01\n")
    assert "to be tested on first use" in str(describe())


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "signal 11: no message"),
        ("import sys; sys.exit('distances [0, 2, 1]; wanted [0, 1, 2]')", "exit code 1: distances [0, 2, 1]; wanted"),
    ],
)
def test_a_library_that_fails_in_its_own_process_never_gets_into_ours(
    site: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    build(site)
    pass_the_test(monkeypatch, code)
    monkeypatch.setattr(loading, "open_library", lambda path: pytest.fail("opened"))
    bridge = load_bridge()
    assert bridge.borrowed_graph is None
    assert f"the library failed its self-test: {reason}" in bridge.reason


def test_where_no_second_process_can_run_ours_tests_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(site)
    pass_the_test(monkeypatch, f"import sys; sys.exit({self_test.COULD_NOT_RUN})")
    assert load_bridge().borrowed_graph is Lender
    assert "to be tested on first use" in str(describe()), "only a process of its own settles it"
    load_bridge.cache_clear()
    monkeypatch.setattr(loading, "problem_of", lambda lender: "3 vertices and 0 edges; wanted 3 and 2")
    assert "3 vertices and 0 edges" in load_bridge().reason
