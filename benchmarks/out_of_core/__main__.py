"""``python -m benchmarks.out_of_core``."""

from __future__ import annotations

from benchmarks.out_of_core import main
from dynstore.bench.module_command import run_as_command

if __name__ == "__main__":
    run_as_command(main)
