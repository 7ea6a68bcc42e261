#!/usr/bin/env bash
# Raphtory 0.17.0 and NetworkX 3.6.1: shortest paths where a pair has several edges.
#
# One would expect: of parallel edges, a shortest path takes the cheapest, as NetworkX's multigraphs do.
# What happens: Raphtory's Dijkstra takes the weight of the pair's newest event, even if it is the
# dearest. In a window that ends before that event the same call has another distance.
# Why it matters: a graph of events gives other distances than the multigraph of the same rows. To
# compare, first give each pair its least weight.
#
# Seen on 2026-11-29 with Python 3.11 and 3.13:
#| fares from A to B: 5.0 at 1, 1.0 at 2, 9.0 at 3
#| NetworkX, MultiDiGraph: 1.0
#| Raphtory: 9.0
#| Raphtory, window [1, 3): 1.0
#| Raphtory, window [1, 2): 5.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check raphtory==0.17.0 networkx==3.6.1
venv/bin/python <<'PY' | tee seen
import networkx as nx
from raphtory import Graph, algorithms

fares = {1: 5.0, 2: 1.0, 3: 9.0}
events, multigraph = Graph(), nx.MultiDiGraph()
for time, fare in fares.items():
    events.add_edge(time, "A", "B", properties={"fare": fare})
    multigraph.add_edge("A", "B", fare=fare)
print("fares from A to B:", ", ".join(f"{fare} at {time}" for time, fare in fares.items()))
print("NetworkX, MultiDiGraph:", nx.shortest_path_length(multigraph, "A", "B", weight="fare"))


def distance(graph):
    found = algorithms.dijkstra_single_source_shortest_paths(graph, "A", ["B"], weight="fare")
    return float(found.get("B")["distance"])


print("Raphtory:", distance(events))
print("Raphtory, window [1, 3):", distance(events.window(1, 3)))
print("Raphtory, window [1, 2):", distance(events.window(1, 2)))
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
