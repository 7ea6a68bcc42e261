"""Compiled kernels on disk: where, under which key, and that nothing fails where they cannot be kept."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import types

from dynstore.caches import cache_folder
from dynstore.cuda import kernel_cache
from dynstore.cuda.kernel_cache import describe_function, find_place, read_kernel, write_kernel
from dynstore.cuda.launch import Entry, find_entry

DEVICES = os.environ.get("DYNSTORE_TEST_DEVICES", "")
DEVICE_FILE = """
SHIFT = 5

def d_inner(value):
    return value >> SHIFT

def d_outer(value, step=1):
    return d_inner(value) + step

def d_unrelated(value):
    return value
"""
KERNEL_FILE = """
import numpy as np
from kept_device import d_outer

LIMIT = np.uint32(7)
TABLE = np.arange(3)

def k_write(out):
    for slot in range(3):
        if out[slot] < LIMIT:
            out[slot] = d_outer(np.int64(out[slot]))

def k_look_up(out):
    out[0] = TABLE[1]
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> ModuleType:
    spec = importlib.util.spec_from_loader(name, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    exec(source, module.__dict__)
    return module


def load_kernels(monkeypatch: pytest.MonkeyPatch, *edit: str) -> ModuleType:
    """Load the two files, after an edit: what was there, and what is there now."""
    texts = [text.replace(*edit) if edit else text for text in (DEVICE_FILE, KERNEL_FILE)]
    assert (texts != [DEVICE_FILE, KERNEL_FILE]) == bool(edit)
    load(monkeypatch, "kept_device", texts[0])
    return load(monkeypatch, "kept_kernel", texts[1])


# ---------------------------------------------------------------------- where they are kept


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("DYNSTORE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "dynstore"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "dynstore"


@pytest.mark.skipif("cuda" in DEVICES, reason="needs the simulator")
def test_the_simulator_keeps_nothing(cache: Path) -> None:
    from dynstore.cuda.compiler import k_probe

    k_probe.launch(1, np.zeros(1, dtype=np.int32))
    assert not cache.exists()


# ---------------------------------------------------------------------- under which key


@pytest.mark.parametrize(
    "edit",
    [
        ("out[slot] <", "out[slot] <="),
        ("range(3)", "range(4)"),
        ("np.int64(", "np.int32("),
        ("np.uint32(7)", "np.uint32(8)"),
        ("np.uint32(7)", "np.int32(7)"),
        ("np.uint32(7)", "7"),
        ("value >>", "value <<"),
        ("SHIFT = 5", "SHIFT = 6"),
        ("SHIFT = 5", "SHIFT = 5.0"),
        ("SHIFT = 5", "SHIFT = True"),
        ("step=1", "step=2"),
        ("d_inner(value) +", "d_unrelated(value) +"),
    ],
    ids=" to ".join,
)
def test_the_key_changes_with_what_a_kernel_depends_on_in_any_file(
    monkeypatch: pytest.MonkeyPatch, edit: tuple[str, str]
) -> None:
    before = describe_function(load_kernels(monkeypatch).k_write)
    assert before is not None
    assert describe_function(load_kernels(monkeypatch).k_write) == before
    assert describe_function(load_kernels(monkeypatch, *edit).k_write) not in (None, before)


@pytest.mark.parametrize("edit", [("return value\n", "return -value\n"), ("SHIFT = 5", "\n# moved\nSHIFT = 5")])
def test_the_key_stays_with_what_a_kernel_does_not_name(monkeypatch: pytest.MonkeyPatch, edit: tuple[str, str]) -> None:
    before = describe_function(load_kernels(monkeypatch).k_write)
    assert describe_function(load_kernels(monkeypatch, *edit).k_write) == before


def test_the_key_changes_with_how_a_device_function_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def described(**options: Any) -> list[str] | None:
        module = load_kernels(monkeypatch)
        module.d_outer = FakeDispatcher(module.d_outer, options=options)
        return describe_function(module.k_write)

    assert described(fastmath=False) != described(fastmath=True)


def test_the_key_changes_with_the_definition_of_an_intrinsic(monkeypatch: pytest.MonkeyPatch) -> None:
    def described(*edit: str) -> list[str] | None:
        module = load_kernels(monkeypatch, *edit)
        module.d_outer = SimpleNamespace(__wrapped__=module.d_outer)
        return describe_function(module.k_write)

    before = described()
    assert before is not None
    assert described() == before
    assert described("value >>", "value <<") not in (None, before)
    assert described("np.uint32(7)", "np.uint32(8)") not in (None, before)


def test_the_key_changes_with_a_function_that_is_given_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by what reloads modules in a notebook."""
    module, other = load_kernels(monkeypatch), load_kernels(monkeypatch, "value >>", "value <<")
    before = describe_function(module.k_write)
    inner = module.d_outer.__globals__["d_inner"]
    inner.__code__ = other.d_outer.__globals__["d_inner"].__code__
    assert describe_function(module.k_write) == describe_function(other.k_write) != before


def test_the_key_changes_with_outer_variables() -> None:
    def make(step: Any) -> FunctionType:
        def k_step(out: Any) -> None:
            out[0] += step

        return k_step

    assert describe_function(make(1)) == describe_function(make(1))
    assert describe_function(make(1)) != describe_function(make(2))
    assert describe_function(make("1")) is None


def test_a_kernel_that_names_an_array_is_not_kept(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    module = load_kernels(monkeypatch)
    assert describe_function(module.k_look_up) is None
    compiled = FakeDispatcher(module.k_look_up)
    assert find_place(compiled, ("int32",), 13000) is None


def test_every_kernel_of_ours_can_be_kept() -> None:
    code = """
import importlib, pkgutil
import dynstore
from dynstore.cuda.compiler import Kernel
from dynstore.cuda.kernel_cache import describe_function
kernels = set()
for found in pkgutil.walk_packages(dynstore.__path__, "dynstore."):
    if "cuda" in found.name.split(".") and found.name != "dynstore.cuda.simulator":
        module = importlib.import_module(found.name)
        kernels |= {value for value in vars(module).values() if isinstance(value, Kernel)}
parts = {kernel.name: describe_function(kernel._compiled.py_func) for kernel in kernels}
assert len(kernels) > 100, len(kernels)
assert any("dynstore.cuda.warp.d_lane" in part for part in parts["k_keep_runs"]), "device functions of other files"
print([name for name, found in parts.items() if found is None])
"""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr[-2000:]


def test_the_place_changes_with_types_compilers_and_settings(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    kernel = load_kernels(monkeypatch).k_write

    def place(signature: str = "int32", driver: int = 13000, **changes: Any) -> Path | None:
        kernel_cache._describe_compilers.cache_clear()
        return find_place(FakeDispatcher(kernel, **changes), (signature,), driver)

    seen = [place()]
    assert seen[0] is not None
    assert (seen[0].parent, place()) == (cache / "kernels", seen[0])
    seen += [place("int64"), place(driver=13010), place(magic=((13, 4), (10, 0))), place(magic=((13, 5), (9, 0)))]
    seen += [place(options={"debug": True})]
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_CUDA_DEFAULT_PTX_CC", "8.0")
        seen.append(place())
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_NUM_THREADS", "2")
        assert place() == seen[0]
    with monkeypatch.context() as patch:
        patch.setattr(kernel_cache.importlib.metadata, "version", lambda name: "0")
        seen.append(place())
    kernel_cache._describe_compilers.cache_clear()
    assert len(set(seen)) == len(seen)


def test_the_place_changes_with_the_fields_of_a_record(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    kernel = load_kernels(monkeypatch).k_write

    def place(*fields: str) -> Path | None:
        record = types.NamedTuple((types.int32, types.int32), namedtuple("Ends", fields))
        return find_place(FakeDispatcher(kernel), (record,), 13000)

    assert place("src", "dst") == place("src", "dst") != place("dst", "src")


# ---------------------------------------------------------------------- files


def test_a_file_comes_back_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "kernels" / "k_write-1.kernel"
    assert read_kernel(place) is None
    for image in (b"\x7fELF\0\0", b"\x7fELF again"):
        write_kernel(place, "_Z7k_write", image)
        assert read_kernel(place) == ("_Z7k_write", image)
    assert list(place.parent.iterdir()) == [place]
    whole = place.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + b"?", whole + b"0"):
        place.write_bytes(damaged)
        assert read_kernel(place) is None


def test_what_cannot_be_moved_into_its_place_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "k_write-1.kernel"
    (place / "in the way").mkdir(parents=True)
    write_kernel(place, "_Z7k_write", b"\x7fELF")
    assert read_kernel(place) is None
    assert list(tmp_path.iterdir()) == [place]


# ---------------------------------------------------------------------- finding a kernel


class FakeDispatcher:
    """What Numba makes of a kernel, as far as it is asked; counts how often it compiles."""

    def __init__(
        self, function: Any, magic: Any = ((13, 4), (9, 0)), options: Any = None, linked: Any = frozenset()
    ) -> None:
        self.py_func, self.targetoptions, self.compilations = function, options or {}, 0
        self.targetctx = SimpleNamespace(codegen=lambda: SimpleNamespace(magic_tuple=lambda: magic))
        self._linked = linked

    def compile(self, signature: tuple[Any, ...]) -> Any:
        self.compilations += 1
        library = SimpleNamespace(
            get_cufunc=lambda: SimpleNamespace(handle=1),
            get_cubin=lambda: SimpleNamespace(code=b"\x7fELF"),
            _linking_files=self._linked,
        )
        return SimpleNamespace(_codelibrary=library, entry_name="_Z7k_write")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The driver's functions that finding a kernel calls; a kernel compiled here has handle 1, one from disk 2."""
    fake = SimpleNamespace(
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        CUdevice_attribute=SimpleNamespace(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16),
        cuDriverGetVersion=lambda: (0, 13000),
        cuCtxGetDevice=lambda: (0, 0),
        cuDeviceGetAttribute=lambda attribute, device: (0, 132),
        cuOccupancyMaxActiveBlocksPerMultiprocessor=lambda handle, threads, shared: (0, 4),
        cuLibraryLoadData=lambda image, *options: (0, image),
        cuLibraryGetKernel=lambda image, name: (0, 2) if (image, name) == (b"\x7fELF", b"_Z7k_write") else (500,),
    )
    from dynstore.cuda import launch

    monkeypatch.setattr(launch, "_driver", lambda: fake)
    return fake


def find(compiled: FakeDispatcher) -> Entry:
    return find_entry(compiled, ("i", int), 256)


def test_the_second_process_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch, cache: Path, driver: SimpleNamespace
) -> None:
    first = FakeDispatcher(load_kernels(monkeypatch).k_write)
    assert (find(first).handle, first.compilations) == (1, 1)
    second = FakeDispatcher(load_kernels(monkeypatch).k_write)
    entry = find(second)
    assert (entry.handle, entry.resident_blocks, second.compilations) == (2, 132 * 4, 0)
    assert entry.layout.size == find(first).layout.size == 8 * 8
    third = FakeDispatcher(load_kernels(monkeypatch, "value >>", "value <<").k_write)
    assert (find(third).handle, third.compilations) == (1, 1)
    assert len(list((cache / "kernels").iterdir())) == 2


@pytest.mark.parametrize("function", ["cuLibraryLoadData", "cuLibraryGetKernel"])
def test_what_the_driver_does_not_load_is_compiled(
    monkeypatch: pytest.MonkeyPatch, cache: Path, driver: SimpleNamespace, function: str
) -> None:
    compiled = FakeDispatcher(load_kernels(monkeypatch).k_write)
    find(compiled)
    monkeypatch.setattr(driver, function, lambda *arguments: (209,))
    assert (find(compiled).handle, compiled.compilations) == (1, 2)


def test_a_folder_that_cannot_be_written_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: SimpleNamespace
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path / "file"))
    compiled = FakeDispatcher(load_kernels(monkeypatch).k_write)
    assert [find(compiled).handle, find(compiled).handle, compiled.compilations] == [1, 1, 2]
    for name in ("DYNSTORE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert [find(compiled).handle, compiled.compilations] == [1, 3]


def test_what_numba_links_more_to_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, cache: Path, driver: SimpleNamespace
) -> None:
    compiled = FakeDispatcher(load_kernels(monkeypatch).k_write, linked={"nrt.cu"})
    assert [find(compiled).handle, find(compiled).handle, compiled.compilations] == [1, 1, 2]
    assert not cache.exists()


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_a_second_process_runs_a_kernel_from_disk(cache: Path) -> None:
    code = """
import cupy, sys
from dynstore.cuda import compiler
from dynstore.cuda import launch
if sys.argv[1] == "kept":
    compiler.k_probe._compiled.compile = None
written = cupy.zeros(1, dtype=cupy.int32)
compiler.k_probe.launch(1, written)
print(int(written[0]))
"""
    for state in ("none", "kept"):
        done = subprocess.run([sys.executable, "-c", code, state], capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr[-2000:]
    assert len(list((cache / "kernels").iterdir())) == 1
