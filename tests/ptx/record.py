"""A pytest plugin: with which types of arguments the tests launch each kernel, added to ``signatures.json``.

    PYTHONPATH=tests/ptx python -m pytest -p record -n auto

in the packages of ``make test``, where kernels run in Numba's simulator. What the file holds already stays in it, so
a few tests will do for a kernel that is new. Types are written as Numba shows them: ``int32[::1]`` is a row without
gaps, ``int32[:,::1]`` a table without gaps, ``int32[:]`` a row with gaps, ``int64`` a number.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

COMPILER = "dynstore.cuda.compiler"  # where the class `Kernel` stands
PACKAGES = ("dynstore.", "benchmarks.")
SIGNATURES = Path(__file__).with_name("signatures.json")
CARRIED = "ptx_signatures"  # under which a worker hands over what it saw

Launches = set[tuple[str, str]]  # a kernel's name, and its arguments' types
_launches: Launches = set()


def describe_types(arguments: tuple[Any, ...]) -> list[str]:
    """Name the types that a kernel is compiled for, as ``describe_arguments`` and ``find_layout`` decide on them."""
    described: list[str] = []
    for argument in arguments:
        kind = type(argument)
        if hasattr(argument, "arrays"):  # Packed
            described += describe_types(argument.arrays)
        elif kind in (bool, int, float):
            described.append(np.dtype(kind).name)
        else:
            name, strides = argument.dtype.name, argument.strides
            if strides == ():
                described.append(name)
            elif len(strides) == 1:
                is_whole = strides == (argument.itemsize,) or argument.size < 2
                described.append(f"{name}[{'::1' if is_whole else ':'}]")
            else:
                last = "::1" if argument.flags.c_contiguous else ":"
                described.append(f"{name}[{':,' * (argument.ndim - 1)}{last}]")
    return described


def pytest_sessionstart() -> None:
    """Note each launch from here on; not before, as Numba may be imported only after ``conftest.py``."""
    kernel = importlib.import_module(COMPILER).Kernel
    start = kernel._start

    def start_noted(self: Any, blocks: int, args: tuple[Any, ...], *options: Any) -> None:
        if getattr(self._compiled, "py_func", self._compiled).__module__.startswith(PACKAGES):  # not one of a test
            _launches.add((self.name, ", ".join(describe_types(args))))
        start(self, blocks, args, *options)

    kernel._start = start_noted


class Gathering:
    """Takes over what the workers of pytest-xdist saw."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        _launches.update(map(tuple, getattr(node, "workeroutput", {}).get(CARRIED, ())))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workeroutput"):
        config.pluginmanager.register(Gathering())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[CARRIED] = sorted(_launches)
    else:
        add_signatures(_launches)


def add_signatures(launches: Launches) -> None:
    """Write the file again, with the launches that it lacks."""
    known: dict[str, list[str]] = json.loads(SIGNATURES.read_text(encoding="utf-8")) if SIGNATURES.exists() else {}
    everything = launches | {(name, signature) for name, signatures in known.items() for signature in signatures}
    merged: dict[str, list[str]] = {}
    for name, signature in sorted(everything):
        merged.setdefault(name, []).append(signature)
    SIGNATURES.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
