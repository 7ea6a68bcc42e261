"""Compiled kernels on disk: ``CACHE/kernels/k_name-DIGEST.kernel``, a checksum, the name of the entry and the cubin.

Numba's own ``cache=True`` checks only the file that defines a kernel. It takes a stale kernel after a device function
in another file has changed. Here the digest covers all that Numba compiles: the code of the kernel and of all that it
calls, the numbers that they name, as loaded in this process, the argument types and the compiler. So a file is never
out of date. A kernel that names anything else is not kept.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import os
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dynstore.caches import find_cached, write_cached

__all__ = ["describe_function", "find_place", "read_kernel", "write_kernel"]

# Their versions stand for their contents.
LIBRARIES = ("llvmlite", "math", "numba", "numpy")
COMPILERS = (
    *("numba", "numba-cuda", "llvmlite", "numpy", "cuda-bindings", "cuda-core"),
    *("nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink-cu12"),
)
NUMBERS = (bool, int, float, np.number, np.bool_)
# Numba's settings that do not change the code.
INDIFFERENT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
CHECKSUM = hashlib.sha256().digest_size
_log = logging.getLogger("dynstore")


def find_place(compiled: Any, signature: tuple[Any, ...], driver_version: int) -> Path | None:
    """Return the path for a Numba dispatcher's kernel for some types; None if it cannot be kept."""
    function = compiled.py_func
    parts = describe_function(function)
    if parts is None:
        return None
    # The second: the toolkit's version and the GPU's compute capability.
    compiler = (_describe_compilers(), compiled.targetctx.codegen().magic_tuple(), driver_version)
    options = sorted(compiled.targetoptions.items())
    key = "\0".join((*parts, *map(_describe_type, signature), repr(options), repr(compiler)))
    return find_cached("kernels", key, f"{function.__name__}-", ".kernel")


def _describe_type(one: Any) -> str:
    """Describe the type of a parameter; Numba's name for a record is without those of its fields."""
    return f"{one} {getattr(one, 'fields', '')}"


@lru_cache(maxsize=1)
def _describe_compilers() -> tuple[Any, ...]:
    """Return what else decides the code: Python (the meaning of bytecode), compiler packages, Numba's settings."""
    versions = []
    for name in COMPILERS:
        try:
            versions.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue  # another CUDA, or not from pip
    settings = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name not in INDIFFERENT
    )
    return sys.implementation.cache_tag, versions, settings


def describe_function(function: FunctionType) -> list[str] | None:
    """Describe all that a function's code depends on, in whatever file; None if that is not known."""
    found = [function]  # all named functions, in order of discovery
    ranks = {function: 0}
    parts: list[str] = []
    for current in found:
        texts, names = _describe_code(current.__code__)
        parts += (f"{current.__module__}.{current.__qualname__} {current.__defaults__!r}", *texts)
        for name, value in _named_values(current, names):
            if isinstance(value, NUMBERS):
                parts.append(f"{name}: {type(value).__name__} {value!r}")
                continue
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in LIBRARIES:
                parts.append(f"{name}: module {value.__name__}")
                continue
            if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):  # a record
                parts.append(f"{name}: record {value._fields!r}")
                continue
            if hasattr(value, "targetoptions"):  # a device function
                parts.append(_describe_options(value))
                value = value.py_func
            elif not isinstance(value, FunctionType):  # an intrinsic stands for the function that defines it
                value = getattr(value, "__wrapped__", value)
            if not isinstance(value, FunctionType):
                _log.debug("%s is not kept: it names %s, a %s", function.__name__, name, type(value).__name__)
                return None
            if value not in ranks:
                ranks[value] = len(found)
                found.append(value)
            parts.append(f"{name}: function {ranks[value]}")
    return parts


@cache
def _describe_code(code: CodeType) -> tuple[list[str], tuple[str, ...]]:
    """Describe a code object, and return the names in it; cached, as many kernels share most functions."""
    texts: list[str] = []
    names: dict[str, None] = {}
    for part in _codes(code):
        constants = [constant for constant in part.co_consts if not isinstance(constant, CodeType)]
        variables = (part.co_names, part.co_varnames, part.co_freevars, part.co_cellvars, part.co_argcount)
        texts.append(f"{part.co_code.hex()} {part.co_exceptiontable.hex()} {variables!r} {constants!r}")
        names |= dict.fromkeys(part.co_names)
    return texts, tuple(names)


@cache
def _describe_options(compiled: Any) -> str:
    """Describe how a device function is compiled; this never changes."""
    return repr(sorted(compiled.targetoptions.items()))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those inside it: comprehensions, inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _named_values(function: FunctionType, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the globals and outer variables among a function's names, with their present values."""
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def read_kernel(place: Path) -> tuple[str, bytes] | None:
    """Return the kept entry name and cubin; None if there are none, or the file is damaged."""
    try:
        content = place.read_bytes()
    except OSError:
        return None
    checksum, kept = content[:CHECKSUM], content[CHECKSUM:]
    if hashlib.sha256(kept).digest() != checksum:
        _log.debug("%s is damaged", place)
        return None
    name, _, image = kept.partition(b"\0")
    return name.decode(), image


def write_kernel(place: Path, name: str, image: bytes) -> None:
    """Keep a compiled kernel, completely or not at all; if writing fails, the next process compiles again."""
    kept = name.encode() + b"\0" + image
    write_cached(place, hashlib.sha256(kept).digest() + kept)
