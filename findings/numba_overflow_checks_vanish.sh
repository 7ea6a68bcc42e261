#!/usr/bin/env bash
# Numba 0.68.1 with llvmlite 0.50.0 and NumPy 2.4.1: a check whether the sum of two int64 numbers was too large.
#
# The guess: int64 sums wrap around as in NumPy, so `total + amount > total` is false when the sum was too large.
# What happens: the comparison is folded to `amount > 0`, because Numba tells LLVM that no sum of signed numbers is too
# large. The sum itself wraps. The same comparison is right in NumPy, in Python of the same source (NUMBA_DISABLE_JIT),
# and in the compiled function with uint64. `total > most - amount` is right everywhere.
# Why it matters: totals of amounts in cents that are guarded by such a check go from the greatest number to the least,
# and the guard says that all is well. Tests of the source without the compiler pass.
#
# Seen on 2026-11-29 with Python 3.11:
#| numpy: sum -9223372036854775808, the check sees it: True
#| numba, int64: sum -9223372036854775808, the check sees it: False
#| numba, uint64: sum 0, the check sees it: True
#| numba, int64, compared with the rest: the check sees it: True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check numba==0.68.1 llvmlite==0.50.0 numpy==2.4.1
venv/bin/python -W ignore <<'PY' | tee seen
import numba
import numpy as np

MOST = np.iinfo(np.int64).max


def add(total, amount):
    grown = total + amount
    return grown, not grown > total


def add_with_rest(total, amount):
    return total > MOST - amount


total, amount = np.int64(2**62), np.int64(2**62)
grown, seen = add(total, amount)
print(f"numpy: sum {grown}, the check sees it: {bool(seen)}")
grown, seen = numba.njit(add)(total, amount)
print(f"numba, int64: sum {grown}, the check sees it: {seen}")
grown, seen = numba.njit(add)(np.uint64(2**63), np.uint64(2**63))
print(f"numba, uint64: sum {grown}, the check sees it: {seen}")
print(f"numba, int64, compared with the rest: the check sees it: {numba.njit(add_with_rest)(total, amount)}")
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
