#!/usr/bin/env bash
# Polars 2.1.0: times in milliseconds meet times in microseconds.
#
# Guess: the finer unit wins, as in pandas and PyArrow, so that no time changes. Comparisons are
# exact.
# What happens: the coarser unit wins. `concat` with "vertical_relaxed" cuts the microseconds off. A
# comparison cuts them off first, too: 1.0 ms counts as equal to 1.5 ms, and so as not below it.
# `is_in` says that they differ.
# Why it matters: logs of two producers often differ in the unit. Joined, events lose their order
# and become ties. A column of milliseconds that is filtered by a limit with microseconds, such as
# the start of a window, keeps rows that are too old. Cast all times to one unit first. (Reported as
# issues 22435 and 27726 of Polars.)
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| polars concat: Datetime(time_unit='ms', time_zone=None) [1000, 1000]
#| pandas concat: datetime64[us]
#| pyarrow concat: timestamp[us]
#| 1.0 ms >= 1.5 ms: True
#| 1.0 ms == 1.5 ms: True
#| 1.0 ms in [1.5 ms]: False
#| rows of the window from 1.5 ms on: 1
#| the same in pandas: 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1
venv/bin/python <<'PY' | tee seen
from datetime import datetime, timedelta

import pandas, polars, pyarrow

zero = datetime(2026, 1, 1)
time = lambda us, unit: polars.DataFrame(
    {"time": [zero + timedelta(microseconds=us)]}, schema={"time": polars.Datetime(unit)}
)
old, new = time(1000, "ms"), time(1500, "us")  # 1.0 ms and 1.5 ms after midnight
micros = lambda column: [(value - zero) // timedelta(microseconds=1) for value in column]

both = polars.concat([old, new], how="vertical_relaxed")
print("polars concat:", both.schema["time"], micros(both["time"]))
frames = [old.to_pandas(), new.to_pandas()]
print("pandas concat:", pandas.concat(frames)["time"].dtype)
tables = [old.to_arrow(), new.to_arrow()]
print("pyarrow concat:", pyarrow.concat_tables(tables, promote_options="permissive")["time"].type)

column, limit = polars.col("time"), zero + timedelta(microseconds=1500)
print("1.0 ms >= 1.5 ms:", old.select(column >= limit).item())
print("1.0 ms == 1.5 ms:", old.select(column == limit).item())
print("1.0 ms in [1.5 ms]:", old.select(column.is_in([limit])).item())
print("rows of the window from 1.5 ms on:", old.filter(column >= limit).height)
print("the same in pandas:", int((frames[0]["time"] >= limit).sum()))
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
