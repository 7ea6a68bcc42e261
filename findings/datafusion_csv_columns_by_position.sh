#!/usr/bin/env bash
# DataFusion 55.0.0 (Python): CSV files whose headers name the same columns in another order.
#
# One would expect: columns are matched by name, as in its own Parquet reader, or the second file is refused.
# What happens: the first file gives the names, and the others are read by position. The edges of
# the second file are turned round. Parquet files with the same columns come out right. DuckDB and
# PyArrow match CSV files by name, and Polars refuses them.
# Why it matters: one export writes source, target and the next one target, source. Both are valid.
# Then all edges of a day point the wrong way, and no count differs. Compare the headers, or read
# the files one by one and select the columns.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| datafusion, csv, 1 then 2: ann->bob dot->cem
#| datafusion, csv, 2 then 1: bob->ann cem->dot
#| datafusion, parquet: ann->bob cem->dot
#| duckdb, csv: ann->bob cem->dot
#| pyarrow, csv: ann->bob cem->dot
#| polars, csv: schema names differ: got source, expected target
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check \
    datafusion==55.0.0 duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
venv/bin/python <<'PY' | tee seen
import pathlib

import datafusion, duckdb, polars
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

pathlib.Path("1.csv").write_text("source,target\nann,bob\n")  # ann->bob
pathlib.Path("2.csv").write_text("target,source\ndot,cem\n")  # cem->dot
for day in "12":
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(f"{day}.csv"), f"{day}.parquet")

def show(what, rows):
    print(f"{what}:", *sorted(f"{row['source']}->{row['target']}" for row in rows))

context = datafusion.SessionContext()
show("datafusion, csv, 1 then 2", context.read_csv(["1.csv", "2.csv"]).to_pylist())
show("datafusion, csv, 2 then 1", context.read_csv(["2.csv", "1.csv"]).to_pylist())
pathlib.Path("folder").mkdir()
for day in "12":
    pathlib.Path(f"{day}.parquet").rename(f"folder/{day}.parquet")
show("datafusion, parquet", context.read_parquet("folder/").to_pylist())
show("duckdb, csv", duckdb.sql("from read_csv(['1.csv', '2.csv'])").to_arrow_table().to_pylist())
table = pyarrow.dataset.dataset(["1.csv", "2.csv"], format="csv").to_table()
show("pyarrow, csv", table.to_pylist())
try:
    show("polars, csv", polars.scan_csv(["1.csv", "2.csv"]).collect().to_dicts())
except polars.exceptions.PolarsError as error:
    print("polars, csv:", error)
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
