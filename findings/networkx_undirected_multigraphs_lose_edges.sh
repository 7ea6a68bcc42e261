#!/usr/bin/env bash
# NetworkX 3.6.1: a directed multigraph that is made undirected, in three ways.
#
# Guess: all parallel edges stay, so three payments between two people are three edges.
# What happens: `MultiGraph(G)` takes the edges of one direction only; those of the other one are left
# out, whatever their keys are. `G.to_undirected()` keeps both directions, but an edge replaces one of
# the other direction that has the same key; and the keys that NetworkX gives are counted from 0 for
# each direction, so they are the same. Only keys that are unique in the whole graph save them all.
# `MultiGraph(G.edges(...))` keeps all edges. None of the three raises or warns.
# Why it matters: payments and messages go both ways. Sums, degrees and counts of the undirected graph
# are too small, and look right.
#
# Seen on 2026-11-30 with Python 3.11:
#| counted keys, amounts 1 and 2 to bob, 4 back:
#| MultiGraph(G): amounts [1, 2]
#| G.to_undirected(): amounts [2, 4]
#| MultiGraph(G.edges(data=True)): amounts [1, 2, 4]
#| keys of their own:
#| MultiGraph(G): amounts [1, 2]
#| G.to_undirected(): amounts [1, 2, 4]
#| MultiGraph(G.edges(data=True)): amounts [1, 2, 4]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check networkx==3.6.1
venv/bin/python 2> log <<'PY' | tee seen
import networkx as nx


def show(keys):
    G = nx.MultiDiGraph()
    for key, (payer, payee, amount) in zip(keys, [("ann", "bob", 1), ("ann", "bob", 2), ("bob", "ann", 4)]):
        G.add_edge(payer, payee, key=key, amount=amount)
    ways = {
        "MultiGraph(G)": nx.MultiGraph(G),
        "G.to_undirected()": G.to_undirected(),
        "MultiGraph(G.edges(data=True))": nx.MultiGraph(G.edges(data=True)),
    }
    for name, made in ways.items():
        print(f"{name}: amounts {sorted(amount for *_, amount in made.edges(data='amount'))}")


print("counted keys, amounts 1 and 2 to bob, 4 back:")
show([None, None, None])
print("keys of their own:")
show([701, 702, 703])
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
