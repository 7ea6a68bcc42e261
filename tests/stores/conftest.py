"""Fixtures of the tests of what is CUDA's own."""

from __future__ import annotations

import pytest

from dynstore.backend import get_backend


@pytest.fixture
def device():
    from dynstore._cuda import compiler

    if compiler.SIMULATED:
        return "cuda-sim"
    if not get_backend().on_gpu:
        pytest.skip("no CUDA device")
    return "cuda"


@pytest.fixture
def launches(monkeypatch):
    """The names of the kernels that are started."""
    from dynstore._cuda import compiler

    names, start = [], compiler.Kernel._start
    monkeypatch.setattr(
        compiler.Kernel, "_start", lambda self, *args, **kw: (names.append(self.name), start(self, *args, **kw))
    )
    return names
