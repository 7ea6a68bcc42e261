"""Servers of the tests' own, each on a free port of the loopback address."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(program: str, arguments: list[str], port: int) -> Iterator[None]:
    """Run a server until the block ends."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    process = subprocess.Popen([found, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, f"{program} has ended"
                assert time.monotonic() < ends, f"{program} does not listen"
                time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with server("redis-server", options, port):
        yield f"127.0.0.1:{port}"


@contextmanager
def nats_server(folder: Path) -> Iterator[str]:
    port = free_port()
    with server("nats-server", ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)], port):
        yield f"127.0.0.1:{port}"
