"""One memory pool for all libraries on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dynstore.errors import InputError, MissingDependencyError
from tests.adapters.tables.test_cudf import cudf

__all__ = ["cudf"]  # a fixture

ROOT = Path(__file__).resolve().parents[3]
POOL_PROGRAM = """
import cupy, dynstore
from dynstore.adapters.memory import share_pool
before = cupy.cuda.get_allocator()
G = dynstore.DynamicGraph(device="cuda"); G.insert_edges(([0, 1], [1, 2]))
assert cupy.cuda.get_allocator() == before, "dynstore must not change the allocator"
pool = share_pool(initial_bytes=2**27 + 1, maximum_bytes=2**30)
assert (pool.resource, pool.made) == ("PoolMemoryResource", True), pool
import rmm
resource = rmm.mr.get_current_device_resource()
assert resource.pool_size() == 2**27 + 256, resource.pool_size()
H = dynstore.DynamicGraph(device="cuda"); H.insert_edges((range(9), range(9)))
assert type(H.snapshot().indices.data.mem).__name__ == "UnownedMemory"
G.insert_edges(([5], [6])); G.delete_edges(([0], [1]))
assert (G.number_of_edges(), H.number_of_edges()) == (2, 9)
again = share_pool()
assert (again.resource, again.made) == ("PoolMemoryResource", False), again
assert rmm.mr.get_current_device_resource() is resource
print("shared")
"""


def test_share_pool_makes_one_pool_and_only_when_asked(cudf: Any) -> None:
    done = subprocess.run([sys.executable, "-c", POOL_PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "shared\n", done.stderr


def test_share_pool_without_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynstore.adapters.memory import share_pool

    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingDependencyError, match=r"^share_pool: cupy cannot be imported .*: pip install"):
        share_pool()
    with pytest.raises(InputError, match="share_pool: initial_bytes is -1; wanted 0 or more"):
        share_pool(initial_bytes=-1)
