#!/usr/bin/env bash
# DuckDB 2.0.1: Parquet files of several days, read in one call.
#
# Guess: a column of integers on Monday and of fractions on Tuesday becomes DOUBLE, or an error.
# What happens: the first file of the list decides. The amounts of all later files are rounded to
# whole numbers, and nothing is said. In the other order the sum is right. Decimals of one and of
# two places are rounded likewise. PyArrow refuses the same list.
# Why it matters: a program that writes a day's payments often writes integers on a day without
# cents, and reads its files by date. The weights of edges, and sums of them, then depend on the
# order of the files. Give the types, or compare the schemas of the files first.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| monday tuesday BIGINT ['3', '4', '2', '1'] sum 10
#| tuesday monday DOUBLE ['2.5', '0.75', '3.0', '4.0'] sum 10.25
#| first second DECIMAL(5,1) ['1.5', '2.0', '2.6', '0.0'] sum 6.1
#| second first DECIMAL(5,2) ['2.55', '0.04', '1.50', '2.00'] sum 6.09
#| pyarrow: Float value 2.500000 was truncated converting to int64
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
venv/bin/python <<'PY' | tee seen
from decimal import Decimal

import duckdb, pyarrow
import pyarrow.dataset
import pyarrow.parquet

def write(name, amounts, dtype):
    column = pyarrow.array(amounts, dtype)
    table = pyarrow.table({"source": [1, 2], "destination": [2, 3], "amount": column})
    pyarrow.parquet.write_table(table, name)

def read(*names):
    rows = duckdb.sql(f"from read_parquet({list(names)})")
    total = duckdb.sql("select sum(amount) from rows").fetchall()[0][0]
    print(*names, rows.types[2], [str(row[2]) for row in rows.fetchall()], "sum", total)

write("monday", [3, 4], pyarrow.int64())
write("tuesday", [2.5, 0.75], pyarrow.float64())
read("monday", "tuesday")
read("tuesday", "monday")
write("first", [Decimal("1.5"), Decimal("2.0")], pyarrow.decimal128(5, 1))
write("second", [Decimal("2.55"), Decimal("0.04")], pyarrow.decimal128(5, 2))
read("first", "second")
read("second", "first")
try:
    pyarrow.dataset.dataset(["monday", "tuesday"]).to_table()
except pyarrow.ArrowInvalid as error:
    print("pyarrow:", error)
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
