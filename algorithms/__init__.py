"""Graph analytics with cuGraph's signatures, columns and conventions.

Functions are imported on first use, so importing this package loads no kernel. ``ALGORITHMS`` lists all of them, with
their requirements on the graph and the paper that each follows. ``__init__.pyi`` says the same to type checkers.
"""

from __future__ import annotations

import importlib
from typing import Any

if __name__ != "dynstore.algorithms":
    raise ImportError(f"{__name__}: this folder is a part of dynstore; import dynstore.algorithms")

# Public name -> module of this package. All other public names are those of algorithms.
_HOMES = {"ALGORITHMS": "registry", "Monitor": "tracking", "find_algorithm": "registry", "track": "tracking"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"dynstore.algorithms.{_HOMES[name]}"), name)
    elif name == "__all__":
        value = sorted({*_HOMES, *_records()})
    elif name.startswith("__") or name not in _records():
        raise AttributeError(f"module 'dynstore.algorithms' has no attribute {name!r}")
    else:
        value = _records()[name].function
    globals()[name] = value
    return value


def _records() -> dict[str, Any]:
    records: dict[str, Any] = importlib.import_module("dynstore.algorithms.registry").ALGORITHMS
    return records


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_records()})
