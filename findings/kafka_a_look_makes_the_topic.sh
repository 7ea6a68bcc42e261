#!/usr/bin/env bash
# confluent-kafka 2.16.1 (librdkafka's mock cluster, one broker): asking for a topic that is not there.
#
# The guess: list_topics("paymnets") reads metadata. All three clients answer with an error, and the
# cluster has no more topics than before.
# What happens: Consumer does so. Producer and AdminClient answer with four partitions and no error:
# the question has made the topic. The admin client takes allow.auto.create.topics=False, which
# is described as an option of consumers, and then only looks.
# Why it matters: a monitor that looks each few seconds whether a topic of edges is still there
# brings a deleted topic back to life, empty and with another id. Who reads it sees no deletion.
# A real broker does the same where auto.create.topics.enable is true, its default; not run here.
#
# Seen on 2026-11-29 with Python 3.11:
#| Consumer: UNKNOWN_TOPIC_OR_PART, then topics: none
#| Producer: 4 partitions, then topics: paymnets
#| AdminClient: 4 partitions, then topics: paymnets
#| AdminClient, allow.auto.create.topics=False: UNKNOWN_TOPIC_OR_PART, then topics: none
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check confluent-kafka==2.16.1
venv/bin/python <<'PY' | tee seen
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

MOCK = {"test.mock.num.brokers": 1, "log_level": 0}


def show(what, client):
    """Ask for one topic, then for the names of all."""
    found = client.list_topics("paymnets", timeout=10).topics["paymnets"]
    said = found.error.name() if found.error else f"{len(found.partitions)} partitions"
    print(f"{what}: {said}, then topics:", *(client.list_topics(timeout=10).topics or ["none"]))


show("Consumer", Consumer(MOCK | {"group.id": "watch"}))
show("Producer", Producer(MOCK))
show("AdminClient", AdminClient(MOCK))
show("AdminClient, allow.auto.create.topics=False", AdminClient(MOCK | {"allow.auto.create.topics": False}))
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
