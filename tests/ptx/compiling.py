"""The package's kernels, compiled to PTX by Numba without a GPU."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import platform
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PACKAGE = "dynstore"
LABORATORY = "benchmarks"  # a folder beside; in older checkouts it is a part of the package, by a link
FOLDERS = {"_cuda", "cuda"}  # in which, or in files called so, kernels stand
SKIPPED = {"simulated", "simulator"}  # these stand in for Numba's CUDA when they are imported
CAPABILITY = (9, 0)
COMPILERS = ("numba", "numba-cuda", "llvmlite", "nvidia-nvvm")


def describe_compilers() -> dict[str, str]:
    """Return the versions on which PTX depends; Python's, because Numba reads its bytecode."""
    versions = {name: importlib.metadata.version(name) for name in COMPILERS}
    return {"python": platform.python_version().rpartition(".")[0], **versions}


def find_kernels(tree: Path) -> list[Any]:
    """Return the kernels of a checkout, by name, then by number of parameters."""
    sys.path.insert(0, str(tree))
    for module in _list_modules(tree):
        importlib.import_module(module)
    found = importlib.import_module(PACKAGE).__file__
    if found is None or tree.resolve() not in Path(found).resolve().parents:
        raise SystemExit(f"{PACKAGE} was not imported from the checkout that was asked for")
    # All that exist, so also those that no module names.
    kernels = [one for one in gc.get_objects() if type(one).__name__ == "Kernel" and _is_ours(type(one))]
    return sorted(kernels, key=lambda kernel: (kernel.name, count_parameters(kernel)))


def count_parameters(kernel: Any) -> int:
    """Return how many arguments a launch passes; older checkouts know no records."""
    if hasattr(kernel, "parameters"):
        return kernel.parameters.count
    return kernel._compiled.py_func.__code__.co_argcount


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith(f"{PACKAGE}.")  # the class `Kernel` is


def _list_modules(tree: Path) -> Iterator[str]:
    """Yield modules of kernels; the links to the folders beside the package are followed."""
    pending = [tree / PACKAGE]
    if not (tree / PACKAGE / LABORATORY).exists():
        pending.append(tree / LABORATORY)
    for folder in pending:
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                pending.append(path)
            elif path.suffix == ".py":
                parts = path.relative_to(tree).with_suffix("").parts
                if FOLDERS.intersection(parts) and parts[-1] not in SKIPPED:
                    yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def compile_kernel(kernel: Any, signature: str) -> str:
    """Return a kernel's PTX for the types of its arguments, as ``signatures.json`` writes them."""
    _prepare_numba()
    from numba import cuda, types

    arguments = [_read_type(each) for each in signature.split(", ")] if signature else []
    if hasattr(kernel, "parameters"):
        arguments = kernel.parameters.group_types(arguments)
    options = kernel._compiled.targetoptions
    kept = {name: options[name] for name in ("fastmath", "opt", "launch_bounds") if options.get(name) is not None}
    text, _ = cuda.compile(
        kernel._compiled.py_func,
        types.void(*arguments),
        cc=CAPABILITY,
        output="ptx",
        device=False,
        abi="numba",
        **kept,
    )
    return text


def describe_launch(kernel: Any) -> str:
    """Say what else decides the cost of a kernel: PTX holds neither its block's size nor the limit on registers."""
    return f"threads {kernel.threads}, registers {kernel._compiled.targetoptions.get('max_registers')}"


def _read_type(described: str) -> Any:
    import numpy as np
    from numba import types
    from numba.np import numpy_support

    name, bracket, axes = described.partition("[")
    element = numpy_support.from_dtype(np.dtype(name))
    return types.Array(element, axes.count(",") + 1, "C" if "::1" in axes else "A") if bracket else element


class _InOrder(dict[Any, None]):
    """A set that keeps the order in which it got its items."""

    def add(self, item: Any) -> None:
        self[item] = None


@cache
def _prepare_numba() -> None:
    """Let Numba compile for a GPU that is not there, and the same way each time.

    A kernel's PTX depends on the order in which NVVM gets the modules of its device functions. Numba keeps them in a
    set, which is ordered by address, and hands over each as often as it is reached. Here they come once each, in the
    order in which the code calls them.
    """
    warnings.simplefilter("ignore")
    from numba.cuda import codegen, dispatcher

    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    library = codegen.CUDACodeLibrary
    make = library.__init__

    def make_in_order(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._linking_libraries = _InOrder()

    def list_modules(self: Any) -> list[Any]:
        modules = _InOrder()
        modules.add(self._module)
        for one in self._linking_libraries:
            for module in one.modules:
                modules.add(module)
        return list(modules)

    library.__init__ = make_in_order
    library.modules = property(list_modules)
