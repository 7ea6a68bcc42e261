#!/usr/bin/env bash
# NetworKit 11.3: a bipartite graph in the format of KONECT.
#
# Guess: "bip" in the first line keeps the two sides apart. In this format both sides count from 1.
# What happens: the reader ignores the word. User 1 and item 1 are one node. An edge between them is
# a self-loop, and user 1 - item 2 is the same edge as user 2 - item 1, so one of the two is
# dropped.
# Why it matters: many public streams of ratings, edits and purchases are such files. Degrees,
# components and recommendations come out wrong, and the number of nodes looks harmless. Add the
# number of users to the ids of the items before they are read.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| remapNodes=False: 3 nodes, 3 edges, 1 self-loops, [(0, 0), (0, 1), (1, 2)]
#| remapNodes=True: 3 nodes, 3 edges, 1 self-loops, [(0, 0), (0, 1), (1, 2)]
#| in the file: 5 nodes, 4 edges, 0 self-loops
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check networkit==11.3 numpy==2.4.6 scipy==1.17.1
venv/bin/python <<'PY' | tee seen
import networkit

pairs = [(1, 1), (1, 2), (2, 1), (3, 2)]  # user, item
with open("out.ratings", "w") as file:
    file.write("% bip unweighted\n% 4 3 2\n")  # 4 edges, 3 users, 2 items
    file.writelines(f"{user} {item}\n" for user, item in pairs)

for remap in (False, True):
    G = networkit.graphio.KONECTGraphReader(remap).read("out.ratings")
    print(f"remapNodes={remap}: {G.numberOfNodes()} nodes, {G.numberOfEdges()} edges,", end=" ")
    print(f"{G.numberOfSelfLoops()} self-loops, {sorted(G.iterEdges())}")
users, items = {user for user, _ in pairs}, {item for _, item in pairs}
print(f"in the file: {len(users) + len(items)} nodes, {len(pairs)} edges, 0 self-loops")
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
