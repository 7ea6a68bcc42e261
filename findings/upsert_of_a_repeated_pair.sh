#!/usr/bin/env bash
# DuckDB 2.0.1, Delta Lake (deltalake 1.6.6): an upsert whose batch names a pair twice.
#
# Guess: the last row of the batch wins everywhere, and each pair has one row afterwards.
# What happens: DuckDB keeps the first row. If ON CONFLICT adds weights, only one row is added, and
# the others are lost. Its MERGE inserts a new pair twice, and so does that of Delta Lake. Delta
# Lake refuses the same batch once the pair is there.
# Why it matters: a batch of events often names a pair twice, with the newest row last. So a table
# of edges keeps an old weight, or has an edge twice, and mostly nothing is said. Reduce a batch to
# one row a pair before it goes in.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| duckdb, insert or replace, new pair: [7.0]
#| duckdb, on conflict add 7 and 8: [14.0]
#| duckdb, merge, new pair: [7.0, 8.0]
#| delta, merge, new pair: [7.0, 8.0]
#| delta, merge, known pair: refused, True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check duckdb==2.0.1 deltalake==1.6.6 pyarrow==26.0.1
venv/bin/python <<'PY' | tee seen
import deltalake, duckdb, pyarrow

def rows(*weights):
    return pyarrow.table({"s": [1] * len(weights), "d": [2] * len(weights), "w": weights})

def show(what, table):
    print(f"{what}:", sorted(row[0] for row in duckdb.sql(f"select w from {table}").fetchall()))

start, new, known = rows(1.0), rows(7.0, 8.0), rows(17.0, 18.0)
duckdb.sql("create table edge (s int, d int, w double, primary key (s, d))")
duckdb.sql("insert or replace into edge from new")
show("duckdb, insert or replace, new pair", "edge")
duckdb.sql("insert into edge from new on conflict do update set w = edge.w + excluded.w")
show("duckdb, on conflict add 7 and 8", "edge")
duckdb.sql("""create table plain (s int, d int, w double);
    merge into plain p using new b on p.s = b.s and p.d = b.d
    when matched then update set w = b.w when not matched then insert""")
show("duckdb, merge, new pair", "plain")

def merge(batch):
    table = deltalake.DeltaTable("edges")
    step = table.merge(batch, "t.s = b.s and t.d = b.d", source_alias="b", target_alias="t")
    step.when_matched_update_all().when_not_matched_insert_all().execute()
    return sorted(table.to_pyarrow_table()["w"].to_pylist())

deltalake.write_deltalake("edges", start.slice(0, 0))
print("delta, merge, new pair:", merge(new))
deltalake.write_deltalake("edges", start, mode="overwrite")
try:
    merge(known)
except deltalake.exceptions.DeltaError as error:
    print("delta, merge, known pair: refused,", "multiple source rows" in str(error))
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
