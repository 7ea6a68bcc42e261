#!/usr/bin/env bash
# redis-py 8.1.0 and NumPy 2.4.6: an amount of a frame goes into a stream.
#
# One would expect: a NumPy float is written as 0.1, like a Python float; or it is refused, like a
# NumPy integer.
# What happens: float64 is a subclass of Python's float, so it is taken. But its text is its `repr`,
# which since NumPy 2 has the name of the type in it. The server stores the text np.float64(0.1).
# float32 and int64 are refused with an error.
# Why it matters: `frame.iloc[0]["amount"]`, `frame["amount"].max()` and `numpy.mean` return
# float64. Each row arrives, and `float(...)` fails at the reader, days later and in another
# program. Call `float(amount)` or `.item()` before `xadd`.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| float: 0.1
#| frame.iloc[0]['amount']: np.float64(0.1)
#| frame['amount'].max(): np.float64(0.1)
#| numpy.float32: Invalid input of type: 'float32'
#| frame['payer'].iloc[0]: Invalid input of type: 'int64'
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check redis==8.1.0 numpy==2.4.6 pandas==3.1.1
venv/bin/python <<'PY' | tee seen
import numpy, pandas, redis

frame = pandas.DataFrame({"payer": [1], "amount": [0.1]})
amounts = {
    "float": 0.1,
    "frame.iloc[0]['amount']": frame.iloc[0]["amount"],
    "frame['amount'].max()": frame["amount"].max(),
    "numpy.float32": numpy.float32(0.1),
    "frame['payer'].iloc[0]": frame["payer"].iloc[0],
}
line = redis.Connection()  # it need not be connected to show the bytes of a command
for name, amount in amounts.items():
    try:
        command = b"".join(line.pack_command("XADD", "payments", "*", "amount", amount))
        print(f"{name}:", command.split(b"\r\n")[-2].decode())
    except redis.DataError as error:
        print(f"{name}:", str(error).split(".")[0])
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
