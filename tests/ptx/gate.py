"""Shows that a change leaves the kernels what they were: compiles all of them to PTX, and compares.

    python tests/ptx/gate.py write FILE             hashes of this checkout's kernels (--tree: of another one's)
    python tests/ptx/gate.py compare BEFORE AFTER   exit status 1 if anything is neither the same nor renamed

No GPU is needed, but the packages of ``tests/ptx/requirements.txt``. ``make ptx`` does both.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from compiling import compile_kernel, count_parameters, describe_compilers, describe_launch, find_kernels
from normal import normalise

HERE = Path(__file__).resolve().parent
SIGNATURES = HERE / "signatures.json"
PROCESSES = 2

Digest = list[Any]  # [hash, number of instructions]
Compiled = dict[str, dict[str, Digest]]  # by kernel, then by the types of its arguments


class Task(NamedTuple):
    """A kernel, and for which types to compile it. Names may be in use twice; with as many parameters, they may not."""

    name: str
    parameters: int
    module: str
    signatures: list[str]


_kernels: dict[tuple[str, int], Any] = {}  # a worker's


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the hashes of all kernels")
    writing.add_argument("file", type=Path)
    writing.add_argument("--tree", type=Path, default=HERE.parents[1], help="the checkout to compile; this one if none")
    comparing = commands.add_parser("compare", help="compare the hashes of two commits")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "write":
        return write(options.file, options.tree.resolve())
    return compare(options.before, options.after)


def write(file: Path, tree: Path) -> int:
    """Compile every kernel for all types that it is known to be launched with, and write the hashes."""
    started = time.monotonic()
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]  # they change what is compiled
    signatures: dict[str, list[str]] = json.loads(SIGNATURES.read_text(encoding="utf-8"))
    tasks = make_tasks(find_kernels(tree), signatures)
    compiled: defaultdict[str, dict[str, Digest]] = defaultdict(dict)
    failed = []
    context = multiprocessing.get_context("spawn")  # what Numba has loaded is not for a fork
    with ProcessPoolExecutor(PROCESSES, context, _load_kernels, (tree,)) as pool:
        for results in pool.map(_compile_tasks, _by_module(tasks)):
            for name, signature, digest in results:
                if isinstance(digest, str):
                    failed.append(f"{name}({signature}): {digest}")
                else:
                    compiled[name][signature] = digest
    found = {"made_by": describe_compilers(), "kernels": compiled}
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    hashes = {digest[0] for digests in compiled.values() for digest in digests.values()}
    count = sum(map(len, compiled.values()))
    seconds = time.monotonic() - started
    print(f"{len(tasks)} kernels, {count} lists of types, {len(hashes)} hashes, {seconds:.0f} s")
    names = {task.name for task in tasks}
    without = [task.name for task in tasks if not task.signatures]
    _print_list("not compiled, as signatures.json has no types for them", without)
    _print_list("in signatures.json, but no kernel", sorted(signatures.keys() - names))
    _print_list("cannot be compiled", failed)
    return 1 if failed else 0


def make_tasks(kernels: list[Any], signatures: dict[str, list[str]]) -> list[Task]:
    """Return for each kernel what to compile it for."""
    tasks = []
    for kernel in kernels:
        parameters = count_parameters(kernel)
        fitting = [one for one in signatures.get(kernel.name, ()) if len(one.split(", ")) == parameters]
        tasks.append(Task(kernel.name, parameters, kernel._compiled.py_func.__module__, fitting))
    if len({task[:2] for task in tasks}) < len(tasks):
        raise SystemExit(
            "two kernels have the same name and as many parameters; signatures.json cannot tell them apart"
        )
    return tasks


def _by_module(tasks: list[Task]) -> list[list[Task]]:
    """Return the tasks of each module, which share device functions; those that take longest first."""
    modules: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        modules[task.module].append(task)
    return sorted(modules.values(), key=lambda those: -sum(len(task.signatures) * task.parameters for task in those))


def _load_kernels(tree: Path) -> None:
    _kernels.update({(kernel.name, count_parameters(kernel)): kernel for kernel in find_kernels(tree)})
    gc.freeze()  # the packages are not looked through again


def _compile_tasks(tasks: list[Task]) -> list[tuple[str, str, Digest | str]]:
    """Return a hash for each kernel and list of types, or why there is none."""
    results: list[tuple[str, str, Digest | str]] = []
    for name, parameters, _, signatures in tasks:
        kernel = _kernels[name, parameters]
        for signature in signatures:
            digest: Digest | str
            try:
                text, instructions = normalise(compile_kernel(kernel, signature))
            except Exception as error:  # Numba has many, and says what it means in the last lines
                digest = f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"
            else:
                content = f"{describe_launch(kernel)}\n{text}"
                digest = [hashlib.sha256(content.encode()).hexdigest()[:16], instructions]
            results.append((name, signature, digest))
    return results


def _print_list(title: str, items: list[str]) -> None:
    if items:
        print(f"{title} ({len(items)}):", *items, sep="\n  ")


def compare(before_file: Path, after_file: Path) -> int:
    """Print what became of each kernel; 0 if each is the same or has only another name."""
    before, after = (json.loads(file.read_text(encoding="utf-8")) for file in (before_file, after_file))
    if before["made_by"] != after["made_by"]:
        print(f"{before_file.name} and {after_file.name} were made by other compilers, so their PTX differs anyway;")
        print("write both with the same packages. They were made by")
        for name in sorted(before["made_by"].keys() | after["made_by"].keys()):
            print(f"  {name:12} {before['made_by'].get(name)}, {after['made_by'].get(name)}")
        return 2
    old, new = _flatten(before["kernels"]), _flatten(after["kernels"])
    lines: dict[str, dict[str, list[str]]] = {kind: defaultdict(list) for kind in ("changed", "renamed", "gone", "new")}
    for key in old.keys() & new.keys():
        if old[key] != new[key]:
            lines["changed"][key[0]].append(f"{old[key][1]} -> {new[key][1]}")
    arrived = defaultdict(list)
    for name, signature in sorted(new.keys() - old.keys()):
        arrived[new[name, signature][0]].append(name)
    for key in sorted(old.keys() - new.keys()):
        names = arrived[old[key][0]]
        if names:
            lines["renamed"][key[0]].append(f"-> {names.pop()}")
        else:
            lines["gone"][key[0]].append(str(old[key][1]))
    for digest, names in arrived.items():
        for name in names:
            lines["new"][name].append(str(next(found[1] for found in new.values() if found[0] == digest)))
    _print_table(sum(new.get(key) == digest for key, digest in old.items()), lines)
    return 1 if lines["changed"] or lines["gone"] or lines["new"] else 0


def _flatten(kernels: Compiled) -> dict[tuple[str, str], Digest]:
    return {(name, signature): digest for name, digests in kernels.items() for signature, digest in digests.items()}


def _print_table(same: int, lines: dict[str, dict[str, list[str]]]) -> None:
    """Print how many lists of types came to what, and for which kernels, with numbers of instructions."""
    print(f"{'same':8} {same:5}")
    for kind, found in lines.items():
        print(f"{kind:8} {sum(map(len, found.values())):5}")
        for name, details in sorted(found.items()):
            print(f"{'':14} {name} ({len(details)}): {', '.join(sorted(set(details)))}")


if __name__ == "__main__":
    sys.exit(main())
