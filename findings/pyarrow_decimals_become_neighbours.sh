#!/usr/bin/env bash
# PyArrow 26.0.1: decimals that are cast to float64 are often not the nearest float64.
#
# Guess: `cast` of a column of decimals to float64 gives the nearest float64 of each amount, as
# Python's float(Decimal("0.35")) and a CSV reader do.
# What happens: one amount of seven between 0.01 and 999.99 becomes a neighbour of the nearest one:
# 0.35 becomes 0.35000000000000003. The number of digits and the width of the decimals do not
# matter; the scale does. A cast by way of text is exact. pandas over Arrow's memory and Polars give
# the nearest.
# Why it matters: the same payment read from a text file and from a table of decimals has two
# weights. A join on amounts, a check of equality, or a set of distinct weights sees two where there
# is one. (Issue 35942 of Apache Arrow, which is closed, has one such amount.)
#
# Seen on 2026-11-28 with Python 3.11:
#| decimal64(12, 2): 13929 of 99999 differ, first 0.35 -> 0.35000000000000003
#| decimal128(12, 2): 13929 of 99999 differ, first 0.35 -> 0.35000000000000003
#| decimal256(40, 2): 13929 of 99999 differ, first 0.35 -> 0.35000000000000003
#| decimal128(12, 4), the same amounts: 32135 of 99999 differ, first 0.03 -> 0.030000000000000002
#| by way of text: 0 of 99999 differ
#| pandas over Arrow: 0 of 99999 differ
#| polars: 0 of 99999 differ
#| equal to the column read from CSV: 86070 of 99999
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 numpy==2.4.6
venv/bin/python <<'PY' | tee seen
import io
from decimal import Decimal

import numpy, pandas, polars, pyarrow, pyarrow.csv

amounts = [Decimal(cents) / 100 for cents in range(1, 100_000)]
nearest = numpy.array([float(amount) for amount in amounts])


def compare(name, found):
    wrong = numpy.flatnonzero(found != nearest)
    first = f", first {amounts[wrong[0]]} -> {float(found[wrong[0]])!r}" if len(wrong) else ""
    print(f"{name}: {len(wrong)} of {len(nearest)} differ{first}")


types = [pyarrow.decimal64(12, 2), pyarrow.decimal128(12, 2), pyarrow.decimal256(40, 2)]
for type_ in types:
    compare(type_, pyarrow.array(amounts, type_).cast("float64").to_numpy())
cents = pyarrow.array(amounts, types[1])
compare("decimal128(12, 4), the same amounts", cents.cast(pyarrow.decimal128(12, 4)).cast("float64").to_numpy())
compare("by way of text", cents.cast("string").cast("float64").to_numpy())
in_pandas = pandas.Series(pandas.arrays.ArrowExtensionArray(cents))
compare("pandas over Arrow", in_pandas.astype("float64").to_numpy())
compare("polars", polars.Series(amounts, dtype=polars.Decimal(12, 2)).cast(polars.Float64).to_numpy())
text = "amount\n" + "".join(f"{amount}\n" for amount in amounts)
read = pyarrow.csv.read_csv(io.BytesIO(text.encode()))["amount"].to_numpy()
print(f"equal to the column read from CSV: {int((read == cents.cast('float64').to_numpy()).sum())} of {len(read)}")
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
