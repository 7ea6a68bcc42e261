#!/usr/bin/env bash
# confluent-kafka 2.16.1: two positions in a topic are compared.
#
# Guess: a TopicPartition with offset 2 differs from one with offset 5.
# What happens: they are equal, and have the same hash. Only topic and partition count, also for `<`
# and `sorted`. A set of both keeps the one that came first, and a dict takes the value of the
# second under the key of the first.
# Why it matters: a reader of edges compares the committed position with its own, and commits if
# they differ. So it never commits again, and after a crash it reads the whole topic once more:
# edges are counted twice. A set of positions that are to be acknowledged keeps the oldest. Compare
# `.offset`.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| committed 2 position 5
#| committed == position: True
#| committed < position: False
#| offsets in a set of both: [2]
#| newest by max(): 2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check confluent-kafka==2.16.1
venv/bin/python <<'PY' | tee seen
import time

from confluent_kafka import Consumer, Producer, TopicPartition

cluster = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(cluster.list_topics(timeout=30).brokers.values()))
for number in range(5):
    cluster.produce("edges", f"{number} {number + 1}", partition=0)
cluster.flush(30)
reader = Consumer({
    "bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "graph",
    "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
})
place = TopicPartition("edges", 0)
reader.assign([TopicPartition("edges", 0, 0)])
end, count = time.monotonic() + 60, 0
while count < 5 and time.monotonic() < end:
    message = reader.poll(1)
    count += message is not None and message.error() is None
reader.commit(offsets=[TopicPartition("edges", 0, 2)], asynchronous=False)
committed, here = reader.committed([place], timeout=30)[0], reader.position([place])[0]
reader.close()
print("committed", committed.offset, "position", here.offset)
print("committed == position:", committed == here)
print("committed < position:", committed < here)
print("offsets in a set of both:", [each.offset for each in {committed, here}])
print("newest by max():", max(committed, here).offset)
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
