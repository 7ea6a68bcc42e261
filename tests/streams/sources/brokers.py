"""Servers of Redis and NATS that are killed, started again, emptied and trimmed, with a message for each row."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import pytest

from dynstore.streams import NatsSource, RedisSource, encode
from tests.streams.sources.servers import free_port

KEY = "edges"


class Broker:
    """A server on a port that stays the same, and its stream "edges". Row k is the edge (k, k + 1).

    Attributes
    ----------
    port : int
    """

    library = program = ""
    keeps = True

    def __init__(self, folder: Path) -> None:
        self.client = pytest.importorskip(self.library)
        found = shutil.which(self.program) or shutil.which(self.program, path="/usr/sbin:/usr/local/sbin")
        if found is None:
            pytest.skip(f"{self.program} is not installed")
        self._found, self.folder, self.port = found, folder / self.program, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def arguments(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        null = subprocess.DEVNULL
        self._process = subprocess.Popen([self._found, *self.arguments()], stdout=null, stderr=null)
        ends = time.monotonic() + 20
        while not self.is_ready():
            assert self._process.poll() is None, f"{self.program} has ended"
            assert time.monotonic() < ends, f"{self.program} does not answer"
            time.sleep(0.01)

    def kill(self, loses: bool = False) -> None:
        """Kill the server with -9; ``loses``: its data, too."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if loses:
            shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def address(self, port: int | None = None) -> str:
        return f"{self.library}://127.0.0.1:{port or self.port}/{KEY}"

    def source(self, port: int | None = None, **options: Any) -> Any:
        raise NotImplementedError

    def send(self, rows: Iterable[int]) -> None:
        self.send_all([encode([(row, row + 1)], "json") for row in rows])

    def send_all(self, messages: list[bytes]) -> None:
        raise NotImplementedError


class Redis(Broker):
    """With a file of all commands, so that a restart loses nothing."""

    library, program = "redis", "redis-server"

    def arguments(self) -> list[str]:
        options = f"--port {self.port} --bind 127.0.0.1 --appendonly yes --dir {self.folder}"
        return [*options.split(), "--save", ""]

    def is_ready(self) -> bool:
        try:
            with self.connect() as client:
                return bool(client.ping())
        except self.client.RedisError:
            return False

    def connect(self) -> Any:
        return self.client.Redis(port=self.port)

    def source(self, port: int | None = None, **options: Any) -> Any:
        return RedisSource(KEY, url=f"redis://127.0.0.1:{port or self.port}", **options)

    def send_all(self, messages: list[bytes]) -> None:
        with self.connect() as client:
            together = client.pipeline(transaction=False)
            for message in messages:
                together.xadd(KEY, {"edges": message})
            together.execute()

    def trim(self, kept: int) -> None:
        """Remove all messages but the newest."""
        with self.connect() as client:
            client.xtrim(KEY, maxlen=kept, approximate=False)

    def make_anew(self) -> None:
        with self.connect() as client:
            client.delete(KEY)


class Nats(Broker):
    """A stream in files, with the subject "edges" and, if ``shared``, the subject "others"."""

    library, program = "nats", "nats-server"
    subjects = (KEY,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.make()

    def arguments(self) -> list[str]:
        return f"-a 127.0.0.1 -p {self.port} -js -sd {self.folder}".split()

    def is_ready(self) -> bool:
        if not super().is_ready():
            return False
        try:
            self.work(lambda stream: stream.account_info())
        except self.client.errors.Error:
            return False
        return True

    def source(self, port: int | None = None, **options: Any) -> Any:
        return NatsSource(KEY, url=f"nats://127.0.0.1:{port or self.port}", **options)

    def work(self, call: Callable[[Any], Any]) -> None:
        async def run() -> None:
            client = await self.client.connect(f"nats://127.0.0.1:{self.port}", allow_reconnect=False)
            try:
                await call(client.jetstream())
            finally:
                await client.close()

        asyncio.run(run())

    def make(self) -> None:
        self.work(lambda stream: stream.add_stream(name="all", subjects=list(self.subjects)))

    def send_all(self, messages: list[bytes], subject: str = KEY) -> None:
        async def run(stream: Any) -> None:
            for message in messages:
                await stream.publish(subject, message)

        self.work(run)

    def trim(self, kept: int) -> None:
        """Remove all messages but the newest."""
        self.work(lambda stream: stream.purge_stream("all", keep=kept))

    def make_anew(self) -> None:
        self.work(lambda stream: stream.delete_stream("all"))
        self.make()


class SharedNats(Nats):
    """Its stream has another subject, too."""

    subjects = (KEY, "others")
