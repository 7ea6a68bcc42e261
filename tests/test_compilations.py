"""Host kernels are compiled in one place and kept on disk where that is possible; a long wait is announced once."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.errors import TypingError

from dynstore import compilations as module
from dynstore.compilations import ANNOUNCEMENT, Compilations, Made, compilations
from dynstore.cuda import launch
from dynstore.host_compiler import njit

ROOT = Path(__file__).resolve().parents[1]
KERNEL_FILE = """
from dynstore.host_compiler import njit

@njit
def d_twice(value):
    return 2 * value

@njit(cache=True)
def k_use(value):
    return d_twice(value) + 1
"""
PROGRAM = """
import importlib.util, sys
import dynstore.compilations
dynstore.compilations.LONG_S = float(sys.argv[2])
spec = importlib.util.spec_from_file_location("dynstore.kept_kernel", sys.argv[1] + "/kept_kernel.py")
sys.modules["dynstore.kept_kernel"] = kept_kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kept_kernel)
print(kept_kernel.k_use(20), dynstore.compilations.compilations.count)
kept_kernel.k_use(1.5)
"""


def run_kernel(folder: Path, long_s: float = 60.0, **environment: str) -> tuple[str, str]:
    """Call the kernel in a new process; return what it prints, and its stderr."""
    if not (folder / "kept_kernel.py").exists():  # some versions of Numba go by the time of the file
        (folder / "kept_kernel.py").write_text(KERNEL_FILE)
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM, str(folder), str(long_s)],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def make_kernel() -> Callable[[Any], Any]:
    """Return a kernel that no process has compiled yet, as far as its name and place tell."""

    def k_add_one(value: Any) -> Any:
        return value + 1

    k_add_one.__module__ = "dynstore.made_by_a_test"
    kernel: Callable[[Any], Any] = njit(k_add_one, cache=True)
    return kernel


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    """Counters as in a new process."""
    monkeypatch.setattr(compilations, "announced", False)
    monkeypatch.setattr(compilations, "seconds", 0.0)
    monkeypatch.setattr(compilations, "count", 0)
    monkeypatch.setattr(compilations, "loaded", 0)
    monkeypatch.setattr(compilations, "kernels", deque(maxlen=4))
    return compilations


# ---------------------------------------------------------------------- where kernels are kept


def test_the_folder_of_the_environment_holds_host_kernels(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))[0] == "41 2"
    assert len(list((folder / "host").rglob("kept_kernel.k_use*.nbi"))) == 1
    assert not list(tmp_path.glob("__pycache__/*.nbi"))
    assert run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))[0] == "41 0"


def test_numbas_own_settings_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import config

    before = config.CACHE_DIR
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path))
    assert make_kernel()(1) == 2
    assert before == config.CACHE_DIR
    assert list(tmp_path.rglob("*k_add_one*.nbc"))


def test_without_a_folder_that_can_be_written_kernels_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(FunctionCache._impl_class, "_locator_classes", FunctionCache._impl_class._locator_classes[:1])
    monkeypatch.setattr(config, "CACHE_DIR", "")  # the tests may run with NUMBA_CACHE_DIR
    with pytest.raises(RuntimeError, match="no locator available"):
        FunctionCache(lambda value: value)
    assert make_kernel()(1) == 2


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_files_cost_a_compilation(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "cache"
    run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))
    for path in folder.rglob(f"*{suffix}"):
        path.write_bytes(path.read_bytes()[:20])
    assert run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))[0] == "41 2"


def test_a_full_disk_costs_nothing_but_the_next_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", refuse)
    assert make_kernel()(1) == 2


# ---------------------------------------------------------------------- what is counted and said


def test_a_long_compilation_is_said_once_on_stderr(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert run_kernel(tmp_path, 0.0, DYNSTORE_CACHE_DIR=cache)[1] == ANNOUNCEMENT + "\n"
    assert run_kernel(tmp_path, 0.0, DYNSTORE_CACHE_DIR=cache)[1] == ""  # nothing is compiled
    (tmp_path / "again").mkdir()
    assert run_kernel(tmp_path / "again", 60.0, DYNSTORE_CACHE_DIR=cache)[1] == ""


def test_the_record_is_a_warning_that_names_the_command(
    fresh: Compilations, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def compile_for(seconds: float) -> None:
        fresh.begin()
        now[0] += seconds
        fresh.end(compile_for, ())

    compile_for(1.5)
    now[0] += 50.0  # other work does not count
    assert caplog.records == []
    compile_for(0.4)
    fresh.begin()
    compile_for(0.05)  # a kernel that another one calls
    assert caplog.records == []
    compile_for(0.1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]  # before the outer one is done
    fresh.end(compile_for, ())
    compile_for(99.0)
    (record,) = caplog.records
    assert record.name == "dynstore"
    assert "python -m dynstore warmup" in record.getMessage()
    assert (fresh.count, fresh.seconds) == (6, pytest.approx(1.5 + 0.4 + 0.15 + 99.0))


def test_a_compilation_that_fails_ends(fresh: Compilations) -> None:
    def k_fail(value: Any) -> Any:
        return value + "text"

    k_fail.__module__ = "dynstore.made_by_a_test"
    kernel = njit(k_fail)
    with pytest.raises(Exception, match="No implementation"):
        kernel(1)
    assert fresh._begun.depth == 0


def test_other_peoples_kernels_are_not_counted(fresh: Compilations) -> None:
    def theirs(value: Any) -> Any:
        return value + 1

    assert njit(theirs)(1) == 2
    assert fresh.count == 0


def test_kernels_for_cuda_are_counted_where_they_are_not_on_disk(
    fresh: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(get_cufunc=lambda: SimpleNamespace(handle=1), _linking_files=[], get_cubin=lambda: None)
    compiled = SimpleNamespace(
        py_func=make_kernel,  # any function: only its name is used
        compile=lambda signature: SimpleNamespace(_codelibrary=library, entry_name="k"),
    )
    monkeypatch.setattr(launch, "_find_files", lambda compiled, kinds, group_types: ((), None, None))
    monkeypatch.setattr(launch, "_count_resident_blocks", lambda handle, threads: 1)
    launch.find_entry(compiled, (), 256)
    assert (fresh.count, fresh.loaded) == (1, 0)
    monkeypatch.setattr(launch, "_load_kept", lambda place, layout, threads: object())
    launch.find_entry(compiled, (), 256)
    assert (fresh.count, fresh.loaded) == (1, 1)
    assert list(fresh.kernels) == [Made(f"{__name__}.make_kernel", "()", how) for how in ("compiled", "loaded")]


def test_kernels_are_named_and_the_hook_gets_them(
    fresh: Compilations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path))
    noted: list[Made] = []
    monkeypatch.setattr(fresh, "on_kernel", noted.append)
    for _ in range(2):  # one more dispatcher of the same function finds its kernel on disk
        kernel = make_kernel()
        kernel(1)
        kernel(2)
    assert noted == list(fresh.kernels)
    assert [made.how for made in noted] == ["compiled", "loaded"]
    assert {made.name for made in noted} == {"dynstore.made_by_a_test.make_kernel.<locals>.k_add_one"}
    assert all("int64" in made.types for made in noted)


def test_ctrl_c_while_a_kernel_is_compiled_comes_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's compiler would drop it, where C calls Python."""

    def function(value: int) -> int:
        return 2 * value

    function.__module__ = "dynstore.tests"
    kernel, came, end = njit(function), [], compilations.end

    def end_after_a_signal(*given: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        came.append(signal.SIGINT)  # so no handler has raised yet
        end(*given)

    monkeypatch.setattr(compilations, "end", end_after_a_signal)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start programs in the background without
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(1)
        assert came == [signal.SIGINT]
        assert kernel(2) == 4
        assert came == [signal.SIGINT]  # it was compiled
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("raises", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("what", ["load_overload", "save_overload"])
def test_ctrl_c_while_a_kernel_is_loaded_or_kept_comes_when_it_is(
    what: str, raises: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM calls Python from C there, too: 56 of 100 were lost while kernels were loaded."""
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path))
    real, after = getattr(FunctionCache, what), []

    def with_a_signal(*given: Any) -> Any:
        found = real(*given)
        if what == "save_overload" or found is not None:
            signal.raise_signal(signal.SIGINT)
            after.append(found)  # so no handler has raised yet
        return found

    first = make_kernel()
    if what == "load_overload":
        first(1)
    monkeypatch.setattr(FunctionCache, what, with_a_signal)

    def handle(number: int, frame: Any) -> None:
        raise raises  # of which an Exception must not count as a damaged file

    before = signal.signal(signal.SIGINT, handle)
    try:
        with pytest.raises(raises):
            make_kernel()(1)
        assert len(after) == 1
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", ["compiled", "loaded"])
def test_ctrl_c_while_a_kernel_for_cuda_is_found_comes_when_it_is(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after = []

    def with_a_signal(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        after.append(how)
        return launch.Entry(0, None, 1, None)  # type: ignore[arg-type]

    library = SimpleNamespace(get_cufunc=lambda: SimpleNamespace(handle=7), _linking_files=["x"])
    made = SimpleNamespace(_codelibrary=library, entry_name="k")
    compiled = SimpleNamespace(py_func=make_kernel, compile=lambda signature: [with_a_signal(), made][1])
    monkeypatch.setattr(launch, "_find_files", lambda compiled, kinds, group_types: ((), None, None))
    monkeypatch.setattr(launch, "_count_resident_blocks", lambda handle, threads: 1)
    monkeypatch.setattr(launch, "_load_kept", with_a_signal if how == "loaded" else lambda *given: None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch.find_entry(compiled, (), 256)
        assert after == [how]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_part_of_kernels_that_borrows_counts_no_references() -> None:
    """A caller keeps its arrays; what would allocate, or hand an array out, is refused."""

    def counted(values: Any, at: int) -> int:
        return int(values[at]) if values[at] > 0 else 0

    def kernel_of(part: Any) -> Any:
        def add_all(values: Any) -> int:
            total = 0
            for at in range(values.shape[0]):
                total += part(values, at)
            return total

        add_all.__module__ = "dynstore.tests"
        return njit(add_all)

    def give(values: Any, at: int) -> Any:
        return values

    def allocate(values: Any, at: int) -> Any:
        return np.empty(at)[0]

    for function in (counted, give, allocate):
        function.__module__ = "dynstore.tests"
    values = np.arange(10)
    kernel, before = kernel_of(njit(counted, borrows=True)), sys.getrefcount(values)
    assert kernel(values) == 45
    assert sys.getrefcount(values) == before
    with pytest.raises(TypeError, match=r"give: it borrows, and returns array\(.*\); wanted numbers"):
        njit(give, borrows=True)(values, 1)
    with pytest.raises(TypingError, match="empty"):
        njit(allocate, borrows=True)(values, 1)
