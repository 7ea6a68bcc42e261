"""The example with card payments: killed again and again, no payment is lost, and none counts twice."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.streams import decode
from tests.streams.sources.servers import free_port, redis_server

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "payments"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
ENVIRONMENT["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
DEVICES = ["cpu", "cuda"] if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "").split(",") else ["cpu"]
MESSAGES, ROWS, EVERY_S = 100, 20, 0.03
MINUTE = np.timedelta64(60, "s")


@contextmanager
def program(name: str, *options: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program of the example; kill it at the end."""
    command = [sys.executable, "-u", "-X", "faulthandler", str(EXAMPLE / name), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=folder, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Return the lines of a program up to one that has some words."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    pytest.fail(f"{words!r} did not come:\n{''.join(lines)}")


def end(process: subprocess.Popen[str], words: str) -> str:
    """Press Ctrl-C; the program says so, and ends as one that is done. Return what it has printed since."""
    process.send_signal(signal.SIGINT)
    try:
        said, _ = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # then it says where its threads are
        pytest.fail(f"Ctrl-C did not end it; it has printed:\n{process.communicate(timeout=20)[0]}")
    assert said.splitlines()[-1] == words, said
    assert process.returncode == 0
    return said


@contextmanager
def address_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "flight":
        pytest.importorskip("pyarrow.flight")
        yield f"grpc://127.0.0.1:{free_port()}/payments"
        return
    pytest.importorskip("redis")
    with redis_server(folder) as server:
        yield f"redis://{server}/payments"


def sent(address: str) -> pd.DataFrame:
    """Return all payments as another reader of the server gets them, once they are there."""
    place, _, key = address.rpartition("/")
    if address.startswith("redis"):
        import redis

        client = redis.Redis.from_url(place)
        ends = time.monotonic() + 60
        while client.xlen(key) < MESSAGES:
            assert time.monotonic() < ends, "the server has not sent all"
            time.sleep(0.02)
        tables = [decode(fields[b"edges"]).to_pandas() for _, fields in client.xrange(key)]
        client.close()
    else:
        from pyarrow import flight

        with flight.connect(place) as client:
            reader = client.do_get(flight.Ticket(key))
            tables = [reader.read_chunk().data.to_pandas() for _ in range(MESSAGES)]
            reader.cancel()
    return pd.concat(tables, ignore_index=True)


def content(folder: Path) -> dict[tuple[str, str], float]:
    with dynstore.open(folder, device="cpu") as db:
        edges = db.graph.to_pandas()
    return dict(zip(zip(edges["source"], edges["destination"], strict=True), edges["weight"], strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("kind", "keep"), [("flight", "sum"), pytest.param("redis", "count", marks=pytest.mark.thorough)]
)
def test_killed_again_and_again_each_payment_counts_once(
    kind: str, keep: str, device: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    with address_of(kind, tmp_path) as address, ExitStack() as running:

        def start(name: str, *options: str) -> subprocess.Popen[str]:
            return running.enter_context(program(name, *options, folder=tmp_path))

        sends = ("--to", address, "--messages", str(MESSAGES), "--rows", str(ROWS), "--every", str(EVERY_S))
        follows = ("--from", address, "--folder", "graph", "--keep", keep, "--device", device)
        server = start("server.py", *sends)
        for number in range(2):
            consumer = start("consumer.py", *follows)
            lines = read_until(consumer, "up to ")
            assert (lines[0] == "graph: 0 edges were there\n") == (number == 0), (number, lines)
            time.sleep(rng.uniform(0.0, 0.3))
            if number == 1:
                end(consumer, "the consumer has stopped")
            consumer.kill()
            if kind == "redis" and number == 0:
                server.kill()
                server = start("server.py", *sends)  # Redis has what it has sent
        consumer = start("consumer.py", *follows)
        payments = sent(address)
        newest = payments["time"].max().to_datetime64()
        said = "".join(read_until(consumer, f"up to {str(newest)[11:23]}"))
        end(consumer, "the consumer has stopped")
        if kind == "flight":
            end(server, "the server has stopped")
        else:
            assert server.wait(20) == 0
        assert len(payments) == MESSAGES * ROWS
        assert "look at this: a ring: card-" in said
        window = payments[payments["time"] > payments["time"].max() - MINUTE].groupby(["card", "merchant"])["cents"]
        wanted: Any = window.sum() if keep == "sum" else window.size()
        assert content(tmp_path / "graph") == wanted.to_dict()


def test_a_server_that_goes_away(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.flight")
    address = f"grpc://127.0.0.1:{free_port()}/payments"
    with (
        program("server.py", "--to", address, folder=tmp_path) as server,
        program("consumer.py", "--from", address + "?patience=3", "--device", "cpu", folder=tmp_path) as consumer,
    ):
        read_until(consumer, "up to ")
        server.kill()
        read_until(consumer, "the stream has broken off: ")
        assert read_until(consumer, "\n")[-1] == "Start the consumer again; it goes on there.\n"
        assert consumer.wait(20) == 1
    assert (tmp_path / "payments-from-grpc").is_dir()


def test_it_finds_what_was_hidden() -> None:
    made = runpy.run_path(str(EXAMPLE / "payments.py"))
    messages = pd.concat([made["make_message"](number) for number in range(60)], ignore_index=True)
    again = pd.concat([made["make_message"](number) for number in range(60)], ignore_index=True)
    pd.testing.assert_frame_equal(messages, again)
    edges = messages.groupby(["card", "merchant"], as_index=False)["cents"].sum()
    edges.columns = ["source", "destination", "weight"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        found = list(runpy.run_path(str(EXAMPLE / "consumer.py"))["find"](edges))
    sys.modules.pop("payments", None)
    cards, shops = made["ring"](0)
    assert [finding.text for finding in found[:-1]] == [f"card-{made['spree'](0):04d} is used at many merchants"]
    assert found[-1].members == {f"card-{card:04d}" for card in cards} | {f"shop-{shop:03d}" for shop in shops}


def test_run_starts_both_and_ends_the_server(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text("#!/bin/sh\necho $*\ncase $1 in *server.py) exec sleep 60 ;; *) sleep 0.5 ;; esac\n")
    stub.chmod(0o755)
    command = [str(EXAMPLE / "run"), "--keep", "count"]
    environment = ENVIRONMENT | {"PYTHON": str(stub)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
    said = sorted(line.rpartition("/examples/payments/")[2] for line in done.stdout.splitlines())
    assert said == ["consumer.py --keep count", "server.py"]
