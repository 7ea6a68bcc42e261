"""A server of TCP that passes bytes on to another one. It can cut connections, delay bytes, and refuse connections."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from typing import Self

__all__ = ["Proxy"]

PIECE = 16_384
LOOK_S = 0.05


class Proxy:
    """Passes connections on to a port of this machine.

    Parameters
    ----------
    target : int
        The port of the server.
    seed : int
        Of the bytes at which connections are cut.

    Attributes
    ----------
    port : int
        Connect here.
    delay : float
        Seconds that each piece waits.
    cuts : int
        Connections that were cut.
    """

    def __init__(self, target: int, seed: int = 0) -> None:
        self.target, self.delay, self.cuts = target, 0.0, 0
        self._rng = random.Random(seed)
        self._left: int | None = None  # bytes until the next cut
        self._open = True
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(LOOK_S)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, most: int) -> None:
        """Cut all connections after some bytes, at most so many, from any side; inside a message as well."""
        with self._lock:
            self._left = self._rng.randint(1, most)

    def cut(self) -> None:
        """Cut all connections now."""
        with self._lock:
            pairs, self._pairs, self._left = self._pairs, [], None
            self.cuts += len(pairs)
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def shut(self, seconds: float) -> None:
        """Cut all connections, and refuse new ones for some time."""
        self._open = False
        self.cut()
        time.sleep(seconds)
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            try:
                if not self._open:
                    raise ConnectionRefusedError
                far = socket.create_connection(("127.0.0.1", self.target), timeout=2)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            near.settimeout(None)
            with self._lock:
                self._pairs.append((near, far))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, here: socket.socket, there: socket.socket) -> None:
        try:
            while data := here.recv(PIECE):
                if self.delay:
                    time.sleep(self.delay)
                kept = self._count(len(data))
                there.sendall(data[:kept])
                if kept < len(data):
                    self.cut()
                    return
        except OSError:
            pass
        for end in (here, there):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _count(self, size: int) -> int:
        """Return how many of some bytes pass before the next cut."""
        with self._lock:
            if self._left is None or self._left > size:
                self._left = None if self._left is None else self._left - size
                return size
            kept, self._left = self._left - 1, None
            return kept
