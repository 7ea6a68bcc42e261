"""``dynstore stream``: a line a second, a live display, clean ends."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dynstore import DynamicGraph, Stream, cli
from dynstore.cli import stream_command
from dynstore.terminal import visible


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["dynstore", "stream", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return run


def test_a_data_set_with_a_window_and_monitors(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_command, "SECOND", 0.0)
    code, out, err = command(
        "collegemsg", "--window", "20000", "--monitor", "pagerank:alpha=0.8", "--device", "cpu", "--batch", "10000"
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()  # lines before these depend on how fast the stream ends
    (graph,) = (place for place, line in enumerate(lines) if line.startswith("DynamicGraph("))
    assert lines[graph - 1].startswith("version 6: 59,835 rows, ")
    assert lines[graph + 1].startswith("pagerank, ")
    assert sum(line.startswith("│") for line in lines[graph:]) == stream_command.TOP


def test_a_file_with_named_columns_and_ids_of_any_kind(command, tmp_path: Path) -> None:
    rows = "".join(f"a{i % 7},b{i % 5},2026-01-01T10:{i:02d}\n" for i in range(60))
    (tmp_path / "e.csv").write_text("payer,payee,when\n" + rows)
    options = "--any-ids --window 30min --column source=payer --column destination=payee --column time=when"
    answer = "weakly_connected_components"
    code, out, err = command("e.csv", *options.split(), "--monitor", answer, "--device", "cpu")
    assert (code, err) == (0, "")
    assert "60 rows" in out
    assert f"\n{answer}, " in out  # a title in one line


def test_messages_name_the_options_of_the_command(command, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("payer,payee\nann,bob\n")
    _, _, err = command("e.csv", "--device", "cpu")
    assert "e.csv:1: 'payer', 'payee' may be names of columns, or a row; say which: --header or --no-header" in err
    assert "--column source=... --column destination=..." in err
    _, _, err = command("e.csv", "--header", "--device", "cpu")
    assert "columns not found: source, destination" in err
    assert "--column source=... --column destination=..." in err
    ends = ("--column", "source=payer", "--column", "destination=payee", "--any-ids", "--device", "cpu")
    for needs, role in [(("--weighted",), "weight"), (("--window", "1h"), "time")]:
        _, _, err = command("e.csv", *ends, *needs)
        assert f"columns not found: {role}; the batch has payer, payee. Say --column {role}=...\n" in err
    _, _, err = command("e.csv", "--column", "source=payer", "--column", "destination=payee", "--device", "cpu")
    assert "with --any-ids" in err.lower()
    assert "renumber" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv"], "no file 'nothing.csv'"),
        (["collegemsg", "--window", "soon"], "length is 'soon'"),
        (["collegemsg", "--monitor", "page"], "unknown answer 'page'"),
        (["collegemsg", "--monitor", "bfs:start"], "--monitor: got 'start'; wanted KEY=VALUE"),
        (["collegemsg", "--column", "x"], "--column: got 'x'; wanted ROLE=NAME"),
        (["collegemsg", "--overflow", "drop"], "unknown overflow 'drop'"),
        (["collegemsg", "--device", "gpu"], "unknown device 'gpu'"),
        (["http://x/y"], "unknown kind of source 'http'"),
        (["redis://x/y?gruop=a"], "'gruop' behind the ? of an address of redis; wanted group=NAME or patience=SECONDS"),
        (["grpc://x/y?group=a"], "'group' behind the ? of an address of grpc; wanted patience=SECONDS"),
        (["nats://x/y?group="], "'group' behind the ? of an address of nats, without a value; wanted group=NAME"),
        (["kafka://x/y?patience=long"], "patience is 'long'; wanted seconds, at least 0"),
        (["kafka://x/y?patience=-1"], "patience is -1.0; wanted seconds, at least 0"),
        (["grpc://x/y?patience=nan"], "patience is nan; wanted seconds, at least 0"),
        (["redis://x"], "lacks a part; wanted redis://HOST:PORT/KEY"),
    ],
)
def test_bad_arguments_are_one_line(command, arguments: list[str], message: str) -> None:
    code, out, err = command(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("dynstore: error: ")
    assert message in err


def test_ctrl_c_ends_cleanly_after_what_has_come(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    program = [sys.executable, "-m", "dynstore", "stream", str(tmp_path / "e.csv"), "--follow", "--device", "cpu"]
    root = Path(__file__).resolve().parents[2]
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": root}
    with subprocess.Popen(program, **given) as process:
        assert process.stdout is not None
        while " 2 rows" not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-2].startswith("version 1: 2 rows")


def test_the_live_display(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    flow = Stream(DynamicGraph(directed=False, device="cpu"), [(0, 1), (1, 2), (0, 2), (5, 6)])
    monitors = [flow.monitor(name) for name in ("pagerank", "weakly_connected_components", "triangle_count")]
    before = stream_command._page(flow.progress(), monitors)
    progress = stream_command._show_live(flow, monitors, None)
    page = io.StringIO()
    console = Console(file=page, width=100)
    console.print(before)
    console.print(stream_command._page(progress, monitors))
    said = page.getvalue()
    for words in ("4 applied", "from arrival to answer", "0 late, 0 dropped", "pagerank, ", "component"):
        assert words in said
    assert stream_command.top_rows("weakly_connected_components", monitors[1].latest.result)[0] == ("0", "3")


@pytest.mark.parametrize("name", ["[/b]", "[bold]admin[/bold]", "x\x1b]0;owned\x07\x1b[31my"])
def test_names_of_vertices_are_shown_as_they_are(command, tmp_path: Path, name: str) -> None:
    (tmp_path / "e.tsv").write_text(f"source\tdestination\nann\t{name}\nbob\t{name}\n")
    code, out, err = command("e.tsv", "--any-ids", "--monitor", "pagerank", "--device", "cpu")
    assert (code, err) == (0, "")
    assert visible(name) in out
    assert "\x1b" not in out


def test_names_of_files_and_columns_are_shown_as_they_are(command, tmp_path: Path) -> None:
    (tmp_path / "e\x1b[31m.csv").write_text("source,destination,x\x1b[2J\n0,1,2\n")
    code, out, err = command("e\x1b[31m.csv", "--device", "cpu")
    assert (code, err) == (0, "")
    code, _, err = command("e\x1b[31m.csv", "--column", "weight=w\x1b", "--weighted", "--device", "cpu")
    assert code == 2
    assert "\x1b" not in out + err


def test_a_log_in_no_folder_is_one_line(command, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n")
    code, _, err = command("e.csv", "--log", "none/db", "--device", "cpu")
    assert code == 2
    assert err == f"dynstore: error: stream: open: there is no folder {str(tmp_path / 'none')!r}; make it first\n"


def test_a_log_goes_on_where_it_was(command, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,destination\n0,1\n1,2\n2,3\n")
    given = ("e.csv", "--log", "counted", "--window", "2", "--device", "cpu")
    for _ in range(2):  # the rows of the window are read again
        code, out, err = command(*given)
        assert (code, err) == (0, "")
        assert "2 edges" in out
    (tmp_path / "e.csv").write_text("source,destination,time\n0,1,2026-01-01T10:00\n1,2,2026-01-01T11:30\n")
    given = ("e.csv", "--log", "db", "--window", "1h", "--device", "cpu")
    assert command(*given)[0] == 0
    with (tmp_path / "e.csv").open("a") as more:
        more.write("2,3,2026-01-01T11:40\n")
    code, out, err = command(*given)
    assert (code, err) == (0, "")
    assert "version 2: 1 rows" in out
    assert "2 edges" in out


def test_it_ends_after_some_seconds(command, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n")
    begun = time.monotonic()
    code, out, _ = command("e.csv", "--follow", "--seconds", "0.3", "--device", "cpu")
    assert code == 0
    assert "1 rows" in out
    assert time.monotonic() - begun < 30
