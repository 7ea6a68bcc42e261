"""Ranks as processes: over MPI where mpi4py and mpirun are there, over NCCL where there are GPUs."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dynstore.distributed.mpi import MpiCommunicator
from dynstore.errors import MissingDependencyError
from tests.conftest import DEVICES

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(ROOT / "tests" / "distributed" / "processes.py")
EXAMPLE = ROOT / "examples" / "sharded_graph.py"
LENDING = str(ROOT / "tests" / "distributed" / "lending.py")


def start(*command: str) -> str:
    """Run the program in the checkout; it has to end with 0. Return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    # Open MPI wants to be allowed to run as root, as tests in containers do, and more ranks than there are cores.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.update(OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 3])
def test_mpi(ranks: int) -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py: pip install '.[mpi]'")
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("needs mpirun")
    start(mpirun, "-n", str(ranks), sys.executable, "-m", "mpi4py", PROGRAM, "mpi")


def test_example_on_threads(capsys: pytest.CaptureFixture[str]) -> None:
    findings = runpy.run_path(str(EXAMPLE))["main"](batches=2, ranks=3)
    assert findings[0].edges < findings[1].edges
    assert "the same answers on 3 ranks and on one graph" in capsys.readouterr().out


def test_example_by_mpirun() -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py: pip install '.[mpi]'")
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("needs mpirun")
    out = start(mpirun, "-n", "2", sys.executable, "-m", "mpi4py", str(EXAMPLE), "--batches", "2")
    assert "the same answers on 2 ranks and on one graph" in out


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
def test_example_by_torchrun() -> None:
    pytest.importorskip("torch", reason="needs PyTorch: pip install '.[pyg]'")
    ranks = str(max(rank_counts()))
    out = start(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks, str(EXAMPLE))
    assert f"the same answers on {ranks} ranks and on one graph" in out


@pytest.mark.skipif(find_spec("mpi4py") is not None, reason="mpi4py is installed")
def test_without_mpi() -> None:
    with pytest.raises(MissingDependencyError, match="mpi4py is not installed: pip install"):
        MpiCommunicator()


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
def test_nccl() -> None:
    for ranks in rank_counts():
        start(sys.executable, PROGRAM, "nccl", str(ranks))


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
def test_lending() -> None:
    for name in ("pylibcugraph", "raft_dask"):
        if find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install '.[rapids]'")
    for ranks in rank_counts():
        start(sys.executable, LENDING, str(ranks), "--scale", "14")


def rank_counts() -> set[int]:
    """Return how many ranks, with a GPU each, are tried here."""
    import cupy

    return {1, min(2, cupy.cuda.runtime.getDeviceCount())}
