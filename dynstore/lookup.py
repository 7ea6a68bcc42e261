"""Modules that methods of a graph call, although they are built on graphs: the package's top names them.

So no file of a lower layer names one of a higher layer.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

__all__ = ["MODULES", "provide", "provided"]

MODULES: dict[str, str] = {}


def provide(modules: Mapping[str, str]) -> None:
    """Say which modules :func:`provided` returns, by short names; they are imported on first use."""
    MODULES.update(modules)


def provided(name: str) -> ModuleType:
    """Return the module that was provided by this name."""
    return importlib.import_module(MODULES[name])
