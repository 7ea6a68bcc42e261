#!/usr/bin/env bash
# rustworkx 0.18.1: a graph is saved with pickle, and then gets the same updates as the original.
#
# Guess: new nodes and edges get the same indices in the copy as in the original.
# What happens: freed indices are used again, the newest first. A pickle does not keep that order,
# and forgets freed indices at the end. So the same call returns other indices in the copy, though
# both graphs were equal before. `copy()` keeps the order.
# Why it matters: a program keeps names or times beside indices, saves the graph, and after a crash
# replays its log. From then on the indices no longer fit, and nothing says so. Two replicas drift
# apart, too. Save the indices that each update returned, or find nodes by their payload.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| indices of what is added after a removal, in the graph, copy(), pickle
#| nodes 1, 3, 2 removed: [2, 3, 1] [2, 3, 1] [3, 2, 1]
#| nodes 4, 5 removed: [5, 4, 6] [5, 4, 6] [4, 5, 6]
#| edges 0, 1 removed: [1, 0] [1, 0] [0, 1]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check rustworkx==0.18.1 numpy==2.4.6
venv/bin/python <<'PY' | tee seen
import pickle

import rustworkx

def both(what, remove, add):
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(["a", "b", "c", "d", "e", "f"])
    graph.add_edges_from([(4, 5, "i"), (5, 4, "j"), (0, 5, "k")])
    remove(graph)
    saved, copied = pickle.loads(pickle.dumps(graph)), graph.copy()
    for one in (saved, copied):  # nothing differs yet
        assert dict(one.edge_index_map()) == dict(graph.edge_index_map())
        assert one.node_indices() == graph.node_indices() and one.nodes() == graph.nodes()
    print(f"{what}:", *(list(add(one)) for one in (graph, copied, saved)))

def add_nodes(graph):
    return graph.add_nodes_from(["x", "y", "z"])

def add_edges(graph):
    return graph.add_edges_from([(0, 4, "p"), (4, 0, "q")])

print("indices of what is added after a removal, in the graph, copy(), pickle")
both("nodes 1, 3, 2 removed", lambda graph: graph.remove_nodes_from([1, 3, 2]), add_nodes)
both("nodes 4, 5 removed", lambda graph: graph.remove_nodes_from([4, 5]), add_nodes)
both("edges 0, 1 removed", lambda graph: graph.remove_edges_from([(4, 5), (5, 4)]), add_edges)
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
