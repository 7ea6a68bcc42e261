#!/usr/bin/env bash
# NetworkX 3.6.1, igraph 1.0.0, NetworKit 11.3, scikit-network 0.33.5: a text file that names a pair
# three times, read as an undirected weighted graph.
#
# Guess: each reader keeps parallel edges, or the last row, which is the newest.
# What happens: there are four answers. NetworkX keeps the last weight, NetworKit the first one,
# igraph keeps three edges, and scikit-network adds the weights up.
# Why it matters: such a file is the log of a graph that changes, with a row for each new weight.
# From the same log two neighbours get an edge of weight 9, 5 or 21, or three edges. NetworKit keeps
# the oldest weight for ever. Reduce the rows to one a pair before another library reads them.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| networkx: [9.0]
#| networkit: [5.0]
#| igraph: [5.0, 7.0, 9.0]
#| scikit-network: [[0, 21], [21, 0]]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check \
    networkx==3.6.1 igraph==1.0.0 networkit==11.3 scikit-network==0.33.5 numpy==2.4.6 scipy==1.17.1
venv/bin/python <<'PY' | tee seen
import igraph, networkit, networkx
from sknetwork.data import from_csv

with open("edges.txt", "w") as file:
    file.write("0 1 5\n0 1 7\n1 0 9\n")

G = networkx.read_weighted_edgelist("edges.txt")
print("networkx:", [weight for *_, weight in G.edges(data="weight")])
G = networkit.graphio.EdgeListReader(" ", 0).read("edges.txt")
print("networkit:", [weight for *_, weight in G.iterEdgesWeights()])
G = igraph.Graph.Read_Ncol("edges.txt", directed=False)
print("igraph:", G.es["weight"])
G = from_csv("edges.txt", delimiter=" ")
print("scikit-network:", G.toarray().tolist())
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
