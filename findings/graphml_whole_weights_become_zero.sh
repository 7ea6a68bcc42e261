#!/usr/bin/env bash
# NetworkX 3.6.1 and NetworKit 11.3: a weighted graph goes from one to the other as GraphML.
#
# Guess: NetworKit reads the weights that NetworkX wrote.
# What happens: NetworkX declares the attribute "weight" once for integers and once for floats, as
# GraphML allows. NetworKit reads only that of floats, so whole weights become 0. If all weights are
# whole, the graph comes out unweighted.
# Why it matters: a weight that is updated may turn from 2.5 into 3. In Python both are numbers, so
# a graph soon holds both kinds. Shortest paths then run over edges of length 0. Write all weights
# as floats.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| networkx [2.5, 3.0, 4.5], networkit [2.5, 3.0, 4.5], weighted True
#| networkx [2.5, 3, 4.5], networkit [2.5, 0.0, 4.5], weighted True
#| networkx [3, 2.5, 4], networkit [0.0, 2.5, 0.0], weighted True
#| networkx [2, 3, 4], networkit [1.0, 1.0, 1.0], weighted False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check \
    networkx==3.6.1 networkit==11.3 numpy==2.4.6 scipy==1.17.1
venv/bin/python <<'PY' | tee seen
import contextlib, io

import networkit, networkx

def send(*weights):
    G = networkx.DiGraph()
    for number, weight in enumerate(weights):
        G.add_edge(number, number + 1, weight=weight)
    networkx.write_graphml(G, "graph.graphml")
    back = [weight for *_, weight in networkx.read_graphml("graph.graphml").edges(data="weight")]
    with contextlib.redirect_stdout(io.StringIO()):  # it says what it identifies
        H = networkit.readGraph("graph.graphml", networkit.Format.GraphML)
    got = [weight for *_, weight in H.iterEdgesWeights()]
    print(f"networkx {back}, networkit {got}, weighted {H.isWeighted()}")

send(2.5, 3.0, 4.5)
send(2.5, 3, 4.5)
send(3, 2.5, 4)
send(2, 3, 4)
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
