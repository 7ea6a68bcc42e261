"""Forks programs that read a growing file into a database, and kills them: ``python -m ... FOLDER SEED``.

Prints how many rows are lost and doubled in the end. The file grows and is rotated meanwhile, also while no program
reads it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import dynstore
from dynstore import Stream
from dynstore.streams import FileSource
from tests.streams.sources.file_writer import OPTIONS, Writer, marked, read

KILLS = 6


def child(folder: Path, path: Path, ready: int) -> None:
    """Follow the file until the end."""
    with dynstore.open(folder / "db", **OPTIONS) as db:
        stream = Stream(db.graph, FileSource(path), batch_edges=20, max_delay=0.0, transform=marked).start()
        os.write(ready, b"!")
        while True:
            time.sleep(1)
            stream.progress()


def main(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    warm = folder / "warm"  # the kernels are loaded once, before the processes are forked
    warm.mkdir()
    first = Writer(rng, warm)
    first.rows()
    read(first, warm)
    writer = Writer(rng, folder)
    writer.rows()
    read(writer, folder)  # so that there is a position: what rotates before the first row is read is not asked for
    for _ in range(KILLS):
        wait, ready = os.pipe()
        process = os.fork()
        if not process:
            try:
                child(folder, writer.path, ready)
            finally:
                os._exit(1)
        os.close(ready)
        assert os.read(wait, 1) == b"!", "the program has ended by itself"
        os.close(wait)
        ends, old = time.monotonic() + float(rng.exponential(0.05)), None
        while time.monotonic() < ends:
            writer.rows()
            if old is not None:
                writer.rows(file=old)
            if rng.random() < 0.2:
                old = writer.rotate()
            time.sleep(0.002)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), "the program has ended by itself"
        writer.rows()
        if rng.random() < 0.5:
            writer.rotate()
            writer.rows()
    print(*writer.result(read(writer, folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
