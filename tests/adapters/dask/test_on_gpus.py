"""Dask clusters of GPUs, in processes of their own: ``on_gpus.py`` says what is compared."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import DEVICES

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
@pytest.mark.parametrize("part", ["answers", "drop-in", "lost"])
def test_on_gpus(part: str) -> None:
    import cupy

    for name in ("dask_cuda", "dask_cudf", "cugraph", "raft_dask"):
        if find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install '.[rapids]'")
    workers = min(2, cupy.cuda.runtime.getDeviceCount())
    if part == "lost" and workers < 2:
        pytest.skip("needs two GPUs")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/adapters/dask/on_gpus.py"), part, "--workers", str(workers)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
