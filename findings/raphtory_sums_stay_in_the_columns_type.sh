#!/usr/bin/env bash
# Raphtory 0.17.0: the sum of an edge's amounts, where the column is of a small integer type.
#
# Guess: the sum is widened to 64 bits, as NumPy and pandas widen it, or an error is raised.
# What happens: a column keeps its type when it is loaded from a frame, and `sum()` is made in that
# type. It wraps without a word, while `mean()` of the same values is right. So the sum is not the
# mean times the count. Sums of int64 wrap as well, and become negative.
# Why it matters: amounts and counts often come as the smallest type that holds one value (Parquet
# files, frames that were downcast). Totals for each pair, the commonest feature of an edge, are then
# too small wherever there are many events, and no row looks wrong. Widen such columns before they
# are loaded.
#
# Seen on 2026-11-30 with Python 3.11:
#| uint8: sum 94, mean 116.67, count 3
#| uint16: sum 24464, mean 30000.00, count 3
#| int32: sum 1705032704, mean 2000000000.00, count 3
#| int64: sum -4611686018427387904, mean 4611686018427387904.00, count 3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check raphtory==0.17.0 pandas==2.3.3 numpy==2.3.4
venv/bin/python 2> log <<'PY' | tee seen
import numpy as np
import pandas as pd
from raphtory import Graph

of_types = {"uint8": [200, 100, 50], "uint16": [30_000] * 3, "int32": [2 * 10**9] * 3, "int64": [2**62] * 3}
for dtype, amounts in of_types.items():
    column = np.array(amounts, dtype)
    rows = pd.DataFrame({"time": [1, 2, 3], "from": "ann", "to": "bob", "amount": column})
    G = Graph()
    G.load_edges(rows, time="time", src="from", dst="to", properties=["amount"])
    history = G.edge("ann", "bob").properties.temporal.get("amount")
    print(f"{dtype}: sum {history.sum()}, mean {history.mean():.2f}, count {history.count()}")
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
