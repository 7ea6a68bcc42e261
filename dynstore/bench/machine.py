"""The machine, versions and commit of a figure, and what is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import dynstore
from dynstore.adapters.cugraph.borrowed.loading import describe
from dynstore.adapters.networkx_info import FUNCTIONS
from dynstore.backend import cuda_problem, get_backend

__all__ = ["Finding", "describe_machine", "find_commit", "find_versions", "look_around", "share_memory"]

UNKNOWN = "unknown"
POOL_BYTES = 1 << 30  # where a memory pool begins; it grows
VERSIONED = ("numpy", "numba", "pandas", "scipy", "cupy", "numba_cuda", "cudf", "cugraph")


@dataclass(frozen=True)
class Finding:
    """One item that ``dynstore info`` checks; ``remedy`` is the command that installs it."""

    name: str
    found: str | None
    remedy: str = ""


def describe_machine() -> dict[str, Any]:
    """Return cpu, cores, memory_bytes, gpu (None without one), driver and os."""
    gpu, driver = _gpu()
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpu": gpu,
        "driver": driver,
        "os": f"{platform.system()} {platform.release()}",
    }


def find_versions() -> dict[str, str]:
    """Return the versions of Python, dynstore and its optional packages, if installed; nothing is imported for this."""
    versions = {"python": platform.python_version(), "dynstore": dynstore.__version__}
    for module in VERSIONED:
        version = _version_of(module)
        if version is not None:
            versions[module] = version
    return versions


def find_commit() -> str:
    """Return the commit of the checkout that dynstore runs from ("-dirty" if it was changed), else "unknown".

    The environment variable ``DYNSTORE_COMMIT`` gives it if the files were copied without their history.
    """
    if os.environ.get("DYNSTORE_COMMIT"):
        return os.environ["DYNSTORE_COMMIT"]
    root = Path(dynstore.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return UNKNOWN
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    if commit is None:
        return UNKNOWN
    changed = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed else commit


def look_around() -> list[Finding]:
    """Return the findings on the GPU and the optional packages."""
    gpu, driver = _gpu()
    problem = cuda_problem()
    cuda = "pip install 'dynstore[cuda13]'  # or dynstore[cuda12]"
    rapids = "pip install 'dynstore[rapids]'"
    return [
        Finding("Python", platform.python_version()),
        Finding("NumPy", _version_of("numpy")),
        Finding("Numba", _version_of("numba")),
        Finding("pandas", _version_of("pandas")),
        Finding("GPU", gpu, "the host kernels (--device cpu) need none"),
        Finding("NVIDIA driver", driver, "GPUs need it: https://www.nvidia.com/drivers"),
        Finding("CuPy", _version_of("cupy"), cuda),
        Finding("numba-cuda", _version_of("numba_cuda"), cuda),
        Finding("cuDF", _version_of("cudf"), rapids),
        Finding("cuGraph", _version_of("cugraph"), rapids),
        Finding("cuGraph path", describe(), rapids),
        Finding("pyarrow", _version_of("pyarrow"), "pip install pyarrow"),
        Finding("SciPy", _version_of("scipy"), "pip install 'dynstore[bench]'"),
        Finding("NetworkX", _networkx(), "pip install 'dynstore[networkx]'"),
        Finding("device 'auto'", "cuda" if problem is None else f"cpu ({problem})"),
    ]


@lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _version_of(module: str) -> str | None:
    """Return a package's version from its metadata, whatever its distribution is called."""
    if importlib.util.find_spec(module) is None:
        return None
    for distribution in _distributions().get(module, [module.replace("_", "-")]):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return UNKNOWN


def _networkx() -> str | None:
    """Return NetworkX's version, and whether it finds the backend: by an entry point of the installed dynstore."""
    version = _version_of("networkx")
    if version is None:
        return None
    registered = importlib.metadata.entry_points(group="networkx.backends").names
    if "dynstore" not in registered:
        return f"{version}; backend 'dynstore' is not registered: pip install 'dynstore[networkx]'"
    return f"{version}; backend 'dynstore' is registered, with {len(FUNCTIONS)} functions"


def _gpu() -> tuple[str | None, str | None]:
    """Return the first GPU's name and the driver's version, from nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return None, None
    text = _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if not text:
        return None, None
    name, _, driver = text.splitlines()[0].partition(",")
    return name.strip() or None, driver.strip() or None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or UNKNOWN


def _cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def share_memory(device: str) -> None:
    """On a GPU with RAPIDS, have one memory pool: without one, each allocation is a cudaMalloc (docs/frames.md)."""
    from dynstore.adapters.memory import share_pool

    if get_backend(device).on_gpu and importlib.util.find_spec("rmm") is not None:
        share_pool(initial_bytes=POOL_BYTES)
