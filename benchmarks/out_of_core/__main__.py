"""``python -m dynstore.benchmarks.out_of_core``."""

from __future__ import annotations

from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.out_of_core import main

if __name__ == "__main__":
    run_as_command(main)
