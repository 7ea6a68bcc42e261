"""The command: exit codes, one line for each fault, nothing half done."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dynstore
from dynstore import cli
from dynstore.bench import machine
from dynstore.bench.schema import check_document
from dynstore.cli.shared import open_console

ROOT = Path(__file__).resolve().parents[2]
FAST = ["--store", "gpma+", "--store", "rebuild", "--algorithm", "bfs", "--steps", "2", "--device", "cpu"]


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["dynstore", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return code, out, err


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(capsys, monkeypatch, *arguments)


def test_a_run_writes_json_and_a_page(command, tmp_path: Path) -> None:
    code, out, err = command("bench", "collegemsg", *FAST, "--json", "out.json", "--report", "out.html")
    assert (code, err) == (0, "")
    assert "59,835 events between 1,899 vertices; on cpu" in out
    assert "  directed\n" in out
    assert "same answers" in " ".join(out.split())
    document = json.loads((tmp_path / "out.json").read_text())
    check_document(document)
    assert document["agree"] is True
    assert document["command"] == "dynstore bench collegemsg " + " ".join(FAST) + " --json out.json --report out.html"
    assert document["dataset"] == {"name": "collegemsg", "vertices": 1899, "edges": 59835, "seed": None}
    assert "Where the figures come from" in (tmp_path / "out.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"out.json", "out.html"}


def test_a_file_with_named_columns_weights_and_times(command, tmp_path: Path) -> None:
    rows = "".join(f"2004-{1 + i % 12:02d},{i % 17},{i % 13},{i}.5\n" for i in range(500))
    (tmp_path / "e.csv").write_text("day,buyer,seller,price\n" + rows)
    options = "--source buyer --destination seller --time day --weight price --algorithm sssp --steps 2 --store merge"
    code, _, err = command("bench", "e.csv", *options.split(), "--json", "o.json")
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "o.json").read_text())["dataset"]["edges"] == 500


def test_generated_data_with_a_seed_and_updates_only(command, tmp_path: Path) -> None:
    code, out, _ = command(
        "bench", "rmat:8:8", "--seed", "5", "--algorithm", "none", "--batch", "20", "--steps", "2", "--json", "o.json",
        "--store", "gpma+", "--store-option", "build_density=0.7", "--undirected", "--window", "50%", "--device", "cpu",
    )  # fmt: skip
    assert code == 0
    assert "undirected; each pair counts once" in out
    document = json.loads((tmp_path / "o.json").read_text())
    assert document["dataset"]["seed"] == 5
    assert {row["store"] for row in document["rows"]} == {"gpma+", "scipy", "numpy-key-sort"}


def test_the_files_order_is_said_where_nothing_sorts(command, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("".join(f"{i % 7} {i % 5}\n" for i in range(100)))
    code, out, _ = command("bench", "e.txt", *FAST, "--batch", "5")
    assert code == 0
    assert "in the file's order; --time COLUMN would sort the events" in out


def test_a_file_with_ids_of_any_kind(command, tmp_path: Path) -> None:
    rows = "".join(f"acct {i % 17},m-{i % 13},2024-01-{1 + i % 28:02d}T12:00:00\n" for i in range(500))
    (tmp_path / "yourlog.csv").write_text("payer,payee,when\n" + rows)
    options = ("--source", "payer", "--destination", "payee", "--time", "when", "--batch", "5")
    code, out, err = command("bench", "yourlog.csv", *options, *FAST, "--json", "o.json", "--report", "o.html")
    assert (code, err) == (0, "")
    said = "30 ids (texts), numbered in the order of their first occurrence"
    assert f"  {said}\n" in out
    assert said in (tmp_path / "o.html").read_text()
    assert json.loads((tmp_path / "o.json").read_text())["dataset"]["vertices"] == 30


def test_one_huge_id_costs_no_memory(command, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("".join(f"{i % 17} {i % 13}\n" for i in range(200)) + "2147483646 3\n")
    code, out, err = command("bench", "e.txt", *FAST, "--batch", "5", "--json", "o.json")
    assert (code, err) == (0, "")
    assert "  18 ids (whole numbers), numbered in the order of their first occurrence\n" in out
    (row,) = [
        row for row in json.loads((tmp_path / "o.json").read_text())["rows"] if row["bytes"] and row["store"] == "gpma+"
    ]
    assert row["bytes"] < 2**20


def test_names_of_files_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / f"{name}.txt").write_text("".join(f"{i % 17} {i % 13}\n" for i in range(200)))
    outputs = ["--json", f"{name}.json", "--report", f"{name}.html"]
    program = [sys.executable, "-m", "dynstore", "bench", f"{name}.txt", *FAST, "--batch", "5", *outputs]
    done = subprocess.run(
        program, cwd=tmp_path, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.txt", f"{name}.json", f"{name}.html"}
    document = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert document["dataset"]["name"] == "caf\\xe9.txt"


def test_a_name_as_long_as_names_can_be(command, tmp_path: Path) -> None:
    name = "x" * 250 + ".json"
    assert command("bench", "collegemsg", *FAST, "--json", name)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_nothing_unfinished_is_left_behind(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    assert command("bench", "collegemsg", *FAST, "--json", "out.json")[0] == 130
    assert list(tmp_path.iterdir()) == []


def test_disagreement_fails_and_is_written(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynstore.DynamicGraph, "delete_edges", lambda self, edges: None)
    code, out, err = command("bench", "collegemsg", *FAST, "--json", "out.json", "--report", "out.html")
    assert code == 1
    assert err.startswith("dynstore: error: the warm-up step: store 'gpma+' holds ")
    assert err.count("\n") == 1
    assert "same answers" not in out
    document = json.loads((tmp_path / "out.json").read_text())
    check_document(document)
    assert document["agree"] is False
    assert "The run failed" in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1 2\n3\n", [], "e.txt:2: the row has 1 fields; the first row has 2"),
        ("1 2\n3 -4\n", [], "e.txt:2: destination -4 is negative"),
        ("1 2\n3 18446744073709551616\n", [], "e.txt:2: destination 18446744073709551616 is too large"),
        ("1 2\n3 4.5\n", [], "e.txt:2: destination '4.5' is a number, but not whole"),
        ("1 2\n3 bob\n", ["--ids", "integer"], "e.txt:2: destination 'bob' is not a whole number"),
        ("1,2,3\n4,5,6\n", ["--header"], "which column is the source and destination? The file has '1', '2', '3'"),
        ("1 2 1\n3 4 nan\n", ["--weight", "2"], "e.txt:2: weight 'nan' is not a number"),
        ("1 2\n3 4\n", ["--time", "7"], "e.txt: no time column 7; the file has columns 0 to 1"),
        ("1 2\n3 4\n", ["--delimiter", "tab"], "e.txt: no column is left for the destination; the file has 1"),
        ("", [], "e.txt: got no events; wanted at least a few"),
        ("1 2\n3 4\r \n", [], "e.txt:2: a carriage return without a line feed"),
        ("1 2 3\n3 4 1e39\n", ["--weight", "2"], "e.txt:2: weight '1e39' is too large; wanted at most 3.4028235e+38"),
        ("+ 1 2\n- 3 4\n", ["--op", "99999999999"], "e.txt: no op column 99999999999; the file has columns 0 to 2"),
        ("1 2\n3 4\n", ["--source", "9" * 5000], "e.txt: no source column 9999"),
        (
            "1 2\n3 400\n" * 50,
            ["--batch", "1", "--store-option", "max_vertices=100"],
            "max_vertices is 100. Set it higher",
        ),
    ],
)
def test_a_bad_file_is_one_line_with_its_place(
    command, tmp_path: Path, text: str, options: list[str], message: str
) -> None:
    (tmp_path / "e.txt").write_text(text)
    code, out, err = command("bench", "e.txt", *FAST, *options, "--json", "out.json", "--report", "out.html")
    assert (code, out) == (2, "")
    assert err.startswith("dynstore: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert {path.name for path in tmp_path.iterdir()} == {"e.txt"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.txt"], "no file 'nothing.txt'"),
        (["mathoverflw"], "unknown data 'mathoverflw'; known: collegemsg, mathoverflow"),
        (["collegemsg", "--store", "nobody"], "unknown store 'nobody'; known: "),
        (["collegemsg", "--algorithm", "bsf"], "unknown algorithm 'bsf'; known: "),
        (
            ["collegemsg", "--suite", "w"],
            "unknown suite 'w'; known: 'slides', 'tracked', 'updates', 'window'",
        ),
        (["--suite", "gpma"], "run in a checkout of the repository: python -m benchmarks.papers --suite gpma"),
        (
            ["pokec", "--suite", "gpma", "--shrink", "2"],
            "No such option: --shrink; the experiments of papers run in",
        ),
        (["pokec", "--table=fig7"], "No such option: --table; the experiments of papers run in a checkout of the "),
        (["collegemsg", "--kind", "slides"], "got --kind, which --suite window does not use"),
        (["collegemsg", "--device", "cuda-sim"], "unknown device 'cuda-sim'; known: 'auto', 'cpu', 'cuda'"),
        (
            ["collegemsg", "--device", "gpu"],
            "unknown device 'gpu'; known: 'auto', 'cpu', 'cuda'. Did you mean 'cuda'?",
        ),
        (["rmat:" + "9" * 5000 + ":1"], "rmat: scale is 9999"),
        (["collegemsg", "--json", "x" * 300 + ".json"], ": File name too long"),
        (["collegemsg", "--window", "2"], "--window is 2; wanted a share"),
        (["collegemsg", "--window", "half"], "--window is 'half'; wanted a share"),
        (["collegemsg", "--batch", "0"], "--batch is '0'; wanted a count"),
        (["collegemsg", "--batch", "90%"], "--batch has 53852 events, the window 29918; wanted a smaller batch"),
        (["collegemsg", "--steps", "0"], "--steps is 0; wanted at least 1"),
        (["collegemsg", "--steps", "50"], "50 steps and one to warm up need 30498 events behind a window of 29918"),
        (["collegemsg", "--steps", "two"], "Invalid value for '--steps'"),
        (["collegemsg", "--time", "2"], "got time; only the columns of files can be chosen"),
        (["collegemsg", "--store-option", "x"], "--store-option is 'x'; wanted [STORE:]KEY=VALUE"),
        (["collegemsg", "--store-option", "gpma+:no=1"], "unknown parameter 'no'; known: "),
        (
            ["collegemsg", "--store-option", "merge:no=1", "--store", "gpma+"],
            "--store-option names the store 'merge'; wanted one of gpma+",
        ),
        (["collegemsg", "--json", "no/out.json"], "cannot write 'no/out.json': No such file or directory"),
        (["collegemsg", "--json", "/dev/null"], "cannot write '/dev/null': it is a special file"),
        (["collegemsg", "--report", "."], "cannot write '.': it is a folder"),
        (["collegemsg", "--json", "x", "--report", "x"], "--json and --report are both 'x'"),
        (["collegemsg", "--colour", "red"], "No such option: --colour"),
        (["collegemsg", "extra"], "unexpected extra argument"),
        (["rmat:20"], "wanted rmat:SCALE:EDGEFACTOR with two whole numbers"),
    ],
)
def test_bad_arguments_are_one_line(command, tmp_path: Path, arguments: list[str], message: str) -> None:
    code, out, err = command("bench", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("dynstore: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_warmup_of_a_device_that_does_not_exist_is_one_line(command) -> None:
    said = "dynstore: error: device: unknown device 'gpu'; known: 'auto', 'cpu', 'cuda'. Did you mean 'cuda'?\n"
    assert command("warmup", "--device", "gpu") == (2, "", said)


def test_an_output_that_exists_survives_a_bad_run(command, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("mine")
    assert command("bench", "nothing.txt", "--json", "out.json")[0] == 2
    assert (tmp_path / "out.json").read_text() == "mine"


def test_cuda_without_a_gpu_is_one_line(command) -> None:
    from dynstore.backend import cuda_problem

    if cuda_problem() is None:
        pytest.skip("this machine has a GPU")
    code, out, err = command("bench", "collegemsg", "--device", "cuda")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("dynstore: error: device 'cuda' cannot be used: ")


def test_interruption_is_one_line(command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dynstore.datasets.resolve", interrupt)
    said = "dynstore: error: interrupted; what was not finished was not written\n"
    assert command("bench", "--json", "out.json") == (130, "", said)
    assert list(tmp_path.iterdir()) == []


def test_version_info_and_help(command) -> None:
    assert command("--version") == (0, f"dynstore {dynstore.__version__}\n", "")
    code, out, _ = command("info")
    assert code == 0
    assert f"NumPy          {np.__version__}" in out
    code, out, _ = command()
    assert code == 0
    assert "bench" in out
    code, out, _ = command("bench", "--help")
    assert code == 0
    for word in ("Examples", "--window", "--batch", "--store", "--json", "rmat:SCALE:EDGEFACTOR", "mathoverflow"):
        assert word in out
    code, _, err = command("bnech")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("backends", [["parallel", "dynstore"], ["parallel"]])
def test_info_says_whether_networkx_finds_the_backend(
    command, monkeypatch: pytest.MonkeyPatch, backends: list[str]
) -> None:
    version = pytest.importorskip("networkx").__version__
    from dynstore.adapters.networkx import OFFERS

    points = [importlib.metadata.EntryPoint(name, f"{name}:backend", "networkx.backends") for name in backends]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: importlib.metadata.EntryPoints(points).select(group=group)
    )
    said = {line[:17].strip(): line[17:].strip() for line in command("info")[1].splitlines()}
    if "dynstore" in backends:
        assert said["NetworkX"] == f"{version}; backend 'dynstore' is registered, with {len(OFFERS)} functions"
    else:
        assert said["NetworkX"].startswith(f"{version}; backend 'dynstore' is not registered: ")


def test_info_names_the_line_that_installs_networkx(command, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "networkx" else find_spec(name))
    assert "  NetworkX       not found; pip install 'dynstore[networkx]'\n" in command("info")[1]


def test_info_imports_no_library_that_it_looks_for() -> None:
    heavy = ("networkx", "pandas", "pyarrow", "scipy", "cudf", "cugraph", "dynstore.adapters.networkx")
    program = (  # CuPy may import SciPy
        "import sys\nfrom dynstore.backend import cuda_problem\ncuda_problem()\nbefore = set(sys.modules)\n"
        "from dynstore.bench.machine import look_around\nlook_around()\n"
        f"print([name for name in {heavy!r} if name in sys.modules.keys() - before])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("launch", [["-m", "dynstore"], ["-m", "dynstore.cli"]])
def test_it_runs_as_a_module(launch: list[str]) -> None:
    done = subprocess.run([sys.executable, *launch, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dynstore {dynstore.__version__}\n"
    done = subprocess.run(
        [sys.executable, *launch, "bench", "nothing.txt"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "dynstore: error: read_events: no file 'nothing.txt'\n"


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("found", [object(), None], ids=["RAPIDS", "no RAPIDS"])
def test_benchmarks_share_a_memory_pool_on_a_gpu_with_rapids(
    monkeypatch: pytest.MonkeyPatch, on_gpu: bool, found: object
) -> None:
    made: list[int] = []
    monkeypatch.setattr(machine, "get_backend", lambda device: SimpleNamespace(on_gpu=on_gpu))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr("dynstore.adapters.memory.share_pool", lambda initial_bytes: made.append(initial_bytes))
    machine.share_memory("cuda")
    assert made == ([machine.POOL_BYTES] if on_gpu and found is not None else [])


def test_importing_the_command_is_light() -> None:
    heavy = ("numpy", "numba", "pandas", "pyarrow", "scipy", "cupy", "rich.table", "dynstore.graph")
    program = f"import sys, dynstore.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("columns", "width"), [(None, 160), ("90", 90)])
def test_tables_in_a_pipe_are_not_cut_to_80_columns(
    columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert open_console().width == width
