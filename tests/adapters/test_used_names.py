"""The names that the code takes from optional libraries are in the libraries that are installed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.adapters.used_names import Use, _uses_in, find_uses, is_missing

ROOT = Path(__file__).resolve().parents[2]

CODE = """
import cudf, pandas.api.types as types
if TYPE_CHECKING:
    import polars
def both(caller, given):
    from pyarrow import Table as Rows
    cupy, nccl = require(caller, "cupy"), require("x", "raft_dask.common.nccl").nccl
    def inner():
        return cudf.core.Series, Rows.from_pydict, nccl.Comm
    given.array = cupy.cuda.nothing = types.is_string_dtype
    cupy = given
def guarded():
    try:
        import pylibcudf
        from rmm import gone
    except ImportError:
        import rmm
    return require("x", f"{name}"), os.path
"""


def test_names_are_found_where_they_are_used() -> None:
    assert set(_uses_in(ast.parse(CODE), {}, "f")) == {
        Use("cudf", (), "f:2"),
        Use("pandas.api.types", (), "f:2"),
        Use("pyarrow", ("Table",), "f:6"),
        Use("cupy", (), "f:7"),
        Use("raft_dask.common.nccl", (), "f:7"),
        Use("cudf", ("core", "Series"), "f:9"),
        Use("cudf", ("core",), "f:9"),
        Use("pyarrow", ("Table", "from_pydict"), "f:9"),
        Use("raft_dask.common.nccl", ("nccl", "Comm"), "f:9"),
        Use("cupy", ("cuda",), "f:10"),
        Use("pandas.api.types", ("is_string_dtype",), "f:10"),
        Use("rmm", (), "f:17"),
    }


def test_what_is_missing_is_seen() -> None:
    there = [("pandas", ()), ("pandas", ("DataFrame", "merge")), ("pandas", ("api", "types", "is_bool_dtype", "any"))]
    gone = [("pandas.no", ()), ("pandas", ("DataFrames",)), ("pandas", ("DataFrame", "no_method"))]
    assert [use for use in there if is_missing(Use(*use, "f:1"))] == []
    assert [use for use in gone if not is_missing(Use(*use, "f:1"))] == []


def test_the_installed_libraries_have_what_is_used() -> None:
    """No GPU is needed for this: RAPIDS is looked into where it is installed."""
    assert len({use.module.partition(".")[0] for use in find_uses()}) > 15
    command = [sys.executable, "-W", "ignore", "-m", "tests.adapters.used_names"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "missing" not in done.stdout, done.stdout
    assert done.returncode == 0, done.stderr
    assert "pandas 2." in done.stdout or "pandas 3." in done.stdout
