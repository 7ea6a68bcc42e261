"""The requirements of building: RAPIDS and CUDA headers, a compiler, Cython; and the command that installs each."""

from __future__ import annotations

import importlib.util
import mmap
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from dynstore.errors import MissingDependencyError

__all__ = ["Toolchain", "cuda_major", "find_rapids", "find_toolchain", "rapids_version", "search_places"]

CALLER = "BorrowedGraph"
RAPIDS_LINE = "pip install 'dynstore[rapids]'"
CUDA_LINE = "pip install {}, or install the CUDA toolkit and set CUDA_HOME"
# A header of each included package, and the command that installs it.
HEADERS = {
    "cugraph/graph.hpp": RAPIDS_LINE,
    "cugraph_c/graph.h": RAPIDS_LINE,
    "raft/core/handle.hpp": RAPIDS_LINE,
    "rmm/device_uvector.hpp": RAPIDS_LINE,
    "rapids_logger/logger.hpp": RAPIDS_LINE,
    "cuda/stream": RAPIDS_LINE,
    "cuda_runtime_api.h": CUDA_LINE.format("nvidia-cuda-runtime"),
    "crt/host_defines.h": CUDA_LINE.format("nvidia-cuda-crt"),
    "cublas_v2.h": CUDA_LINE.format("nvidia-cublas"),
    "curand.h": CUDA_LINE.format("nvidia-curand"),
    "cusolverDn.h": CUDA_LINE.format("nvidia-cusolver"),
    "cusparse.h": CUDA_LINE.format("nvidia-cusparse"),
}
LIBRARIES = {
    "libcugraph.so": RAPIDS_LINE,
    "libcugraph_mg.so": RAPIDS_LINE,
    "libcugraph_c.so": RAPIDS_LINE,
    "librmm.so": RAPIDS_LINE,
    "libcudart.so*": CUDA_LINE.format("nvidia-cuda-runtime"),
}
RUNTIME = b"libcudart.so."
COMPILER_LINE = "apt install g++ (or conda install gxx), or set CXX"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The tools and folders that were found; ``include_dirs`` in search order."""

    compiler: str
    include_dirs: tuple[Path, ...]
    libraries: tuple[Path, ...]
    python_include: Path
    cython_dir: Path

    def fingerprint(self) -> str:
        """Return what a failed build depended on: if it changes, the build is tried again."""
        return "\n".join([self.compiler, *map(str, self.include_dirs), *map(str, self.libraries)])


def find_rapids() -> Path | None:
    """Return the folder that pylibcugraph is installed in, without importing it; None if it is not installed."""
    spec = importlib.util.find_spec("pylibcugraph")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent.parent


def rapids_version(site: Path) -> str:
    """Return the version of pylibcugraph in a folder, such as "26.10.00"."""
    try:
        return (site / "pylibcugraph" / "VERSION").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def find_toolchain(site: Path) -> Toolchain:
    """Find everything that building needs.

    Parameters
    ----------
    site : Path
        From :func:`find_rapids`.

    Raises
    ------
    MissingDependencyError
        With all that is missing, and the lines to type.
    """
    missing: list[tuple[str, str]] = []
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or ""
    if shutil.which(compiler) is None:
        missing.append(("a C++ compiler", COMPILER_LINE))
    if importlib.util.find_spec("Cython") is None:
        missing.append(("Cython", "pip install 'cython>=3.1'"))
    python_include = Path(sysconfig.get_path("include"))
    if not (python_include / "Python.h").is_file():
        missing.append(("Python.h", f"apt install python{sys.version_info[0]}.{sys.version_info[1]}-dev"))
    include_dirs = [folder for folder in _include_dirs(site) if folder.is_dir()]
    for header, line in HEADERS.items():
        if not any((folder / header).is_file() for folder in include_dirs):
            missing.append((f"the header {header}", line))
    library_dirs = [folder for folder in _library_dirs(site) if folder.is_dir()]
    libraries = []
    for pattern, line in LIBRARIES.items():
        found = [path for folder in library_dirs for path in sorted(folder.glob(pattern))]
        if found:
            libraries.append(found[0])
        else:
            missing.append((f"the library {pattern}", line))
    if missing:
        raise MissingDependencyError(f"{CALLER}: {'. '.join(_say(missing))}")
    return Toolchain(compiler, tuple(include_dirs), tuple(libraries), python_include, site)


def _say(missing: list[tuple[str, str]]) -> list[str]:
    """Return a sentence for each command, with all that it brings."""
    things: dict[str, list[str]] = {}
    for what, line in missing:
        things.setdefault(line, []).append(what)
    sentences = []
    for line, names in things.items():
        verb, pronoun = ("was", "it") if len(names) == 1 else ("were", "them")
        sentences.append(f"{', '.join(names)} {verb} not found; to get {pronoun}: {line}")
    return sentences


def cuda_major(site: Path) -> str:
    """Return the major version of CUDA that cuGraph in a folder was built for, such as "13"; "" if it cannot be found.

    It is in the name of the CUDA runtime that libcugraph_c loads, or of the package.
    """
    for folder in _library_dirs(site):
        library = folder / "libcugraph_c.so"
        if library.is_file() and library.stat().st_size:
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                place = data.find(RUNTIME)
                if place >= 0:
                    name = data[place + len(RUNTIME) : place + len(RUNTIME) + 4]
                    return name.partition(b"\0")[0].partition(b".")[0].decode("ascii", "replace")
    named = sorted(site.glob("pylibcugraph_cu*-*.dist-info"))
    return named[0].name.partition("_cu")[2].partition("-")[0] if named else ""


def _prefixes() -> list[Path]:
    """Return folders in which a CUDA toolkit or a conda environment may be."""
    named = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"))
    return [Path(prefix) for prefix in (*named, "/usr/local/cuda") if prefix]


def search_places(site: Path) -> list[Path]:
    """Return the folders that packages are imported from: NVIDIA's may be apart from RAPIDS."""
    return list(dict.fromkeys([site, *(Path(entry) for entry in sys.path if entry)]))


def _include_dirs(site: Path) -> list[Path]:
    packages = ("libcugraph", "libraft", "librmm", "rapids_logger")
    folders = [place / package / "include" for package in packages for place in search_places(site)]
    # CCCL of the release that RAPIDS was built with, before that of a CUDA toolkit
    folders += [place / "libcugraph" / "include" / "rapids" for place in search_places(site)]
    for place in search_places(site):
        folders += sorted((place / "nvidia").glob("*/include"))
    for prefix in _prefixes():
        folders += [prefix / "include" / "rapids", prefix / "include", prefix / "targets" / "x86_64-linux" / "include"]
    return folders


def _library_dirs(site: Path) -> list[Path]:
    folders = [place / package / "lib64" for package in ("libcugraph", "librmm") for place in search_places(site)]
    for place in search_places(site):
        folders += sorted((place / "nvidia").glob("*/lib"))
    for prefix in _prefixes():
        folders += [prefix / "lib64", prefix / "lib", prefix / "targets" / "x86_64-linux" / "lib"]
    return folders
