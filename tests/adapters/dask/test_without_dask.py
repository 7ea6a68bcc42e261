"""Where Dask is missing, the line to type is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dynstore.adapters import libraries
from dynstore.adapters.dask import DaskGraph
from dynstore.errors import MissingDependencyError


def test_without_dask_the_line_to_type_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(libraries, "importlib", SimpleNamespace(import_module=import_module))
    with pytest.raises(MissingDependencyError, match=r"DaskGraph: distributed cannot be imported.*'dynstore\[dask\]'"):
        DaskGraph()
