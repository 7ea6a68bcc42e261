#!/usr/bin/env bash
# Raphtory 0.17.0: negative integer ids, one by one and in bulk.
#
# One would expect: both ways take them, or both refuse them with the same words.
# What happens: `add_edge` refuses a negative id. `load_edges` of a frame takes it, and adds 2**64:
# account -1 becomes account 18446744073709551615. If that account is in the data, too (an unsigned
# column of another source), the two are one node.
# Why it matters: "unknown" and "cash" are often -1 in logs of payments. The graph has as many edges
# as rows, so nothing shows until somebody looks the account up, which then is not there.
#
# Seen on 2026-11-29 with Python 3.11 and 3.13:
#| add_edge(1, -1, 2): TypeError
#| loaded: 1 edges, nodes 18446744073709551615 2
#| has_node(2): True
#| after an unsigned column with 2**64 - 1: 2 edges, 3 nodes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check raphtory==0.17.0 pandas==3.0.1
venv/bin/python 2> progress <<'PY' | tee seen
import numpy as np
import pandas as pd
from raphtory import Graph

try:
    Graph().add_edge(1, -1, 2)
    print("add_edge(1, -1, 2): taken")
except TypeError as error:
    print("add_edge(1, -1, 2):", type(error).__name__)
G = Graph()
G.load_edges(pd.DataFrame({"time": [1], "src": [-1], "dst": [2]}), time="time", src="src", dst="dst")
print("loaded:", G.count_edges(), "edges, nodes", *sorted((node.name for node in G.nodes), key=len, reverse=True))
print("has_node(2):", G.has_node(2))
more = {"time": [2], "src": np.array([2**64 - 1], np.uint64), "dst": np.array([3], np.uint64)}
G.load_edges(pd.DataFrame(more), time="time", src="src", dst="dst")
print("after an unsigned column with 2**64 - 1:", G.count_edges(), "edges,", G.count_nodes(), "nodes")
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
