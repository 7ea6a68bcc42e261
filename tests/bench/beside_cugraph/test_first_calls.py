"""What of the benchmark of first calls can be tested without a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.beside_cugraph import first_calls
from benchmarks.beside_cugraph.first_calls import CALLS, RUNS, WAYS, main
from dynstore.bench.schema import check_document
from dynstore.errors import InputError
from tests.adapters.cugraph.stand_ins import rapids

__all__ = ["rapids"]  # a fixture


@pytest.fixture
def compiler(rapids: SimpleNamespace) -> SimpleNamespace:
    """CuPy's compiler, whose function one call of cuGraph's needs once; and the drop-in where it is looked for."""
    compiler = SimpleNamespace(compile_using_nvrtc=lambda source: source.upper())
    rapids.modules["cupy.cuda.compiler"] = compiler
    rapids.modules["dynstore.adapters.cugraph"] = rapids.drop_in
    calls: list[int] = []

    def louvain(G: Any) -> None:
        calls.append(G.number_of_edges())
        if len(calls) == 1:
            assert compiler.compile_using_nvrtc("kernel") == "KERNEL"

    rapids.cugraph.louvain = louvain
    return compiler


def test_a_call_is_timed_and_what_it_compiles_is_counted(
    compiler: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    function = compiler.compile_using_nvrtc
    assert main(["--one", "drop-in", "--call", "louvain", "--scale", "4", "--profile"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["ms"]) == RUNS
    assert found["edges"] == 16 << 4
    assert found["compiled"]["by NVRTC"][0] == 1
    assert found["compiled"]["by dynstore"][0] == 0
    assert "cumulative" in found["profile"]
    assert compiler.compile_using_nvrtc is function


def test_each_call_has_a_process_a_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> Any:
        commands.append(command)
        found = {"ms": [9.0, 2.0, 1.0], "compiled": {"by NVRTC": [2, 7.0]}, "imported": 3, "edges": 64, "profile": ""}
        return subprocess.CompletedProcess(command, 0, f"a warning\n{json.dumps(found)}\n", "")

    monkeypatch.setattr(first_calls, "subprocess", SimpleNamespace(run=run))
    path = tmp_path / "first.json"
    assert main(["--json", str(path)]) == 0
    assert len(commands) == len(CALLS) * len(WAYS)
    lines = capsys.readouterr().out.splitlines()
    assert "first      9.0 ms, then     1.0 ms; compiled: 2 by NVRTC (7 ms); 3 modules imported" in lines[0]
    document = json.loads(path.read_text(encoding="utf-8"))
    check_document(document)
    assert {row["store"] for row in document["rows"]} == {
        f"{way}, {what} call" for way in WAYS for what in ("first", "later")
    }

    def fail(command: list[str], **options: Any) -> Any:
        return subprocess.CompletedProcess(command, 1, "", "a line\nno GPU\n")

    monkeypatch.setattr(first_calls, "subprocess", SimpleNamespace(run=fail))
    with pytest.raises(InputError, match="first_calls: bfs by drop-in failed: no GPU"):
        main(["--call", "bfs"])
