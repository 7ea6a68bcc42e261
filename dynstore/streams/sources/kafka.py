"""A topic of Kafka as a source."""

from __future__ import annotations

import logging
from threading import Thread
from time import monotonic, sleep
from typing import Any, Literal

from dynstore.adapters.libraries import require
from dynstore.arguments import check_name
from dynstore.errors import InputError, SourceGapError, StreamError
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import MessageSource
from dynstore.streams.sources.logins import check_server
from dynstore.streams.sources.outages import PATIENCE_S, check_patience

__all__ = ["KafkaSource"]

MOST = 256  # messages a call
CALL_S = 4.0  # how long a call waits for an answer; the end of a stream waits a little longer for its source
AGAIN_S = 1.0  # until the next look after one that has failed
SHORT_S = 0.05  # the same after a broker has refused an offset
LOOK_S = 10.0
BEGINS = ("earliest", "latest")
OWN = ("auto.offset.reset", "bootstrap.servers", "enable.auto.commit", "enable.partition.eof", "group.id", "on_commit")
MARK = "topic "  # before the topic's id, in the metadata of an offset of the group
LINK = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_PARTITION_EOF")  # these heal, or are no errors
_log = logging.getLogger("dynstore")


class _ClientLog:
    """What the client logs, unless it was left: then it tries to reach its servers as long as the program runs."""

    is_left = False

    def log(self, *said: Any) -> None:
        if not self.is_left:
            _log.log(*said)


class KafkaSource(MessageSource):
    """All partitions of a topic of Kafka. Each message has many rows: the bytes of :func:`dynstore.streams.encode`.

    A position has the topic's id, and the next offset of each partition. It is committed to the consumer group. Rows of
    one partition keep their order. A partition that is added later is read from its beginning.

    If messages are gone before they were read, or the topic was made anew, the source raises
    :class:`dynstore.errors.SourceGapError`; its ``count`` is of offsets, of which compaction and transactions leave
    some empty. The source asks for the topic's id after each fetch, so it takes no message of another topic for one of
    this.
    If the broker gives no id (Kafka before 3.1, or a client without the right to describe), only offsets tell that the
    topic was made anew.

    The source is tested on librdkafka's mock cluster only.

    Parameters
    ----------
    topic : str
        It must exist.
    group : str
        The consumer group.
    servers : str
        The addresses of the servers, by comma: Kafka's option ``bootstrap.servers``.
    begin : {"earliest", "latest"}
        Where a new group begins: with the first message that the topic has, or with the next one that comes. With a
        position of a database or the group, reading goes on there.
    patience : float
        After so many seconds without an answer from any server, or with a partition that has no leader, the stream
        ends with an error. Until then the client connects again by itself.
    look_every : float
        Seconds between two looks at the topic, for new partitions and for its id.
    **options
        Other options of ``confluent_kafka.Consumer``, with underscores for dots.

    Raises
    ------
    InputError
        If there is no such topic; for another ``begin``; for a negative patience; for options that the source sets
        itself.
    MissingDependencyError
        Without the package confluent-kafka.
    confluent_kafka.KafkaException
        If the servers do not answer within 4 seconds.
    """

    def __init__(
        self,
        topic: str,
        group: str = "dynstore",
        servers: str = "localhost:9092",
        begin: Literal["earliest", "latest"] = "earliest",
        patience: float = PATIENCE_S,
        look_every: float = LOOK_S,
        **options: Any,
    ) -> None:
        check_name("KafkaSource", "begin", begin, BEGINS)
        check_patience("KafkaSource", patience)
        kafka = require("KafkaSource", "confluent_kafka")
        check_server("kafka", servers)  # librdkafka would log a password
        self._kafka, self._topic, self._servers, self._begin = kafka, topic, servers, begin
        self._patience, self._look_every = patience, look_every
        self._again_s = min(AGAIN_S, look_every)
        given = {name.replace("_", "."): value for name, value in options.items()}
        for name in {"on.commit" if own == "on_commit" else own for own in OWN} & given.keys():
            raise InputError(
                f"KafkaSource: the option {name.replace('.', '_')} is set by the source; wanted group=, servers= or "
                "begin= instead"
            )
        client: dict[str, Any] = {"bootstrap.servers": servers, "reconnect.backoff.ms": 1000}  # each attempt is logged
        client["session.timeout.ms"] = 6000  # no session is used, but a commit waits so long for a server
        client |= given
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # else librdkafka goes on at the end
            "enable.partition.eof": True,
            "on_commit": self._committed,
        }
        self._client_log = _ClientLog()
        self._consumer: Any = kafka.Consumer(client | own, logger=self._client_log)
        self._admin: Any = None  # knows the topic's id
        self._id: str | None = None  # of the topic that the offsets belong to
        self._next: dict[str, int] = {}  # partition -> offset
        self._until: dict[str, int] = {}  # partition -> offset, while a group of messages is read again
        self._left: set[str] = set()  # partitions of this group that have not come to their end
        self._held: list[Any] = []  # messages of this group
        self._ready: list[Message] = []  # a group whose position was returned
        self._lost: set[str] = set()  # partitions whose offset a broker does not have
        self._partitions: list[int] = []
        self._assigned = self._missed = False
        self._look_at = 0.0
        self._silent_since: float | None = None
        self._owed: list[Any] | None = None  # offsets whose commit is under way
        self._commit_failed = False
        try:
            self._open(group, client)
        except BaseException:
            self.close()
            raise

    def _open(self, group: str, client: dict[str, Any]) -> None:
        kafka = self._kafka
        metadata = self._consumer.list_topics(self._topic, timeout=CALL_S)
        found = metadata.topics[self._topic]
        if found.error is not None:
            raise InputError(f"KafkaSource: {self._servers} has no topic {self._topic!r}: {found.error}")
        if metadata.controller_id in metadata.brokers:  # the mock cluster has none, and a client would wait for it
            admin = require("KafkaSource", "confluent_kafka.admin")
            # The consumer logs the same. Without the second option, looking at a topic that was deleted makes it anew.
            self._admin = admin.AdminClient(client | {"log_level": 0, "allow.auto.create.topics": False})
        wanted = [kafka.TopicPartition(self._topic, number) for number in sorted(found.partitions)]
        kept = [place for place in self._consumer.committed(wanted, timeout=CALL_S) if place.offset >= 0]
        self._next = {str(place.partition): place.offset for place in kept}
        marks = [place.metadata for place in kept if (place.metadata or "").startswith(MARK)]
        self._id = marks[0].removeprefix(MARK) if marks else None
        if any(self._next.values()):
            places = ", ".join(f"{offset} of partition {number}" for number, offset in self._next.items())
            self.left_behind = (
                f"KafkaSource: the group {group!r} of {self._topic!r} is at offset {places}: an earlier program has "
                f"read up to there; another group begins with the {'first' if self._begin == 'earliest' else 'next'} "
                "message"
            )

    # ------------------------------------------------------------------ the topic

    def _look(self) -> None:
        """Look at the topic, and begin to read where that is due; if no server answers, note that.

        Raises
        ------
        SourceGapError
            If the topic is another one, or lacks what was not read.
        StreamError
            If the topic is gone, or no server has answered for long.
        """
        try:
            # A consumer that reads answers after 0.2 to 0.5 s, the other client after 0.4 ms; rows wait so long.
            client = self._consumer if self._admin is None else self._admin
            found = client.list_topics(self._topic, timeout=CALL_S).topics[self._topic]
            if found.error is not None:
                self._miss(found.error)
                return
            self._missed = False
            partitions, topic_id = sorted(found.partitions), self._find_id()
            self._check_id(partitions, topic_id)
            if not self._assigned or partitions != self._partitions:
                self._assign(partitions, topic_id)
        except self._kafka.KafkaException as error:
            self._note_silence(error)
            return
        for number in partitions:
            if found.partitions[number].leader < 0:  # the others can be read, and no error comes of this one
                self._wait_for(f"partition {number} of {self._topic!r} has had no leader", "no broker serves it")
                return
        self._silent_since, self._look_at = None, monotonic() + self._look_every
        if self._commit_failed and self._owed is not None:
            self._send_commit(self._owed)

    def _miss(self, error: Any) -> None:
        """Note that a server does not know the topic; another one may still have to hear of it."""
        if error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._note_silence(error)
            return
        if self._missed:
            raise StreamError(f"KafkaSource: the topic {self._topic!r} was deleted while it was read: {error.str()}")
        self._missed, self._look_at = True, monotonic() + self._again_s

    def _note_silence(self, error: Any) -> None:
        self._wait_for(f"no server of {self._servers} has answered", error)

    def _wait_for(self, what: str, why: Any) -> None:
        """Look again soon; after the patience, end with an error."""
        now = monotonic()
        self._look_at = now + self._again_s
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since >= self._patience:
            raise StreamError(f"KafkaSource: {what} for {self._patience:g} s: {why}")
        _log.info("KafkaSource: %s: %s: %s", self._topic, what, why)

    def _find_id(self) -> str | None:
        """Return the topic's id; None if it is not known. KafkaException: no server answers."""
        if self._admin is None:
            return None
        wanted = self._kafka.TopicCollection([self._topic])
        try:
            found = self._admin.describe_topics(wanted, request_timeout=CALL_S)[self._topic].result()
        except self._kafka.KafkaException as error:
            if self._is_of_link(error.args[0]):
                raise
            # This client may lack rights, or the topic is just being deleted.
            _log.info("KafkaSource: the id of %s: %s", self._topic, error)
            return None
        return str(found.topic_id).strip("A=") and str(found.topic_id)  # zeros: the broker has none

    def _check_id(self, partitions: list[int], topic_id: str | None) -> None:
        is_other = None not in (self._id, topic_id) and self._id != topic_id
        gone = self._next.keys() - set(map(str, partitions))
        if is_other or gone:
            why = f"its id is {topic_id}, the position is of {self._id}"
            if not is_other:
                why = f"it has no partition {min(gone)}, at whose offset {self._next[min(gone)]} reading stopped"
            low = {str(number): marks[0] for number, marks in self._find_marks(partitions).items()}
            raise SourceGapError(
                f"KafkaSource: the topic {self._topic!r} was made anew: {why}; it begins at offset "
                + ", ".join(f"{offset} of partition {number}" for number, offset in low.items()),
                None,
                None,
                None,
                {"topic": topic_id, "offsets": low},
            )

    def _find_marks(self, partitions: list[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset of each partition, and the one behind its last."""
        places = {number: self._kafka.TopicPartition(self._topic, number) for number in partitions}
        return {n: self._consumer.get_watermark_offsets(place, timeout=CALL_S) for n, place in places.items()}

    def _assign(self, partitions: list[int], topic_id: str | None) -> None:
        """Begin to fetch at the next offsets, if the topic has them."""
        marks = {str(number): each for number, each in self._find_marks(partitions).items()}
        self._check_offsets(marks, topic_id)
        at_end = self._begin == "latest" and not self._next  # a partition that is new begins with its first message
        for number, (low, high) in marks.items():
            self._next.setdefault(number, high if at_end else low)
        self._id = topic_id or self._id
        self._until = {number: last for number, last in self._until.items() if self._next[number] < last}
        self._held, self._left, self._partitions, self._assigned = [], set(self._until), partitions, True
        wanted = self._until or self._next
        self._consumer.assign([self._kafka.TopicPartition(self._topic, int(n), self._next[n]) for n in wanted])

    def _check_offsets(self, marks: dict[str, tuple[int, int]], topic_id: str | None) -> None:
        """Compare the next offsets with what the topic has."""
        low = {number: first for number, (first, _) in marks.items()}
        removed = {number: at for number, at in self._next.items() if at < low[number]}
        lost, self._lost = self._lost, set()
        beyond = [
            n for n, at in self._next.items() if n not in removed and (at > marks[n][1] or (n in lost and at > low[n]))
        ]
        said = [
            f"offsets {at} to {low[number] - 1} of partition {number} of {self._topic!r} are gone ({low[number] - at} "
            "offsets): retention or a deletion has removed them"
            for number, at in removed.items()
        ]
        said += [
            f"the topic {self._topic!r} was made anew or cut back: its partition {number} has offsets {low[number]} to "
            f"{marks[number][1] - 1}, the position is {self._next[number]}"
            for number in beyond
        ]
        if said:
            raise SourceGapError(
                "KafkaSource: " + "; ".join(said),
                {int(number): at for number, at in removed.items()},
                {int(number): low[number] - 1 for number in removed},
                None if beyond else sum(low[number] - at for number, at in removed.items()),
                {"topic": topic_id or self._id, "offsets": self._next | {n: low[n] for n in (*removed, *beyond)}},
            )

    # ------------------------------------------------------------------ messages

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the rows of the next messages.

        The messages of a call are sorted by partition, and the position before them, which is returned first, says
        where they end. So after a restart the same messages come in the same order: a log may have a part of them.
        """
        if self._ready:
            messages, self._ready = self._ready, []
            return Messages(messages, self._columns), messages[-1].position
        if monotonic() >= self._look_at:
            self._look()
        if not self._assigned:  # what is fetched belongs to other offsets
            sleep(min(timeout, SHORT_S))
            return None
        found = self._fetch(max(1, min(MOST, max_rows // 1000)), timeout)
        if self._until:
            found = self._gather(found)
        if found and not self._is_same_topic():  # the next look says why
            self._assigned, self._look_at = False, 0.0
            return None
        if self._until and not self._left:  # from now on the other partitions, too
            self._until, self._assigned, self._look_at = {}, False, 0.0
        return self._announce(found) if found else None

    def _is_same_topic(self) -> bool:
        """Return whether the topic still has the id that the offsets belong to.

        This comes after each fetch: librdkafka goes on at the old offsets when a topic was made anew. An id never
        comes back, so what was fetched before belongs to this one.
        """
        if self._id is None:
            return True
        try:
            return self._find_id() in (None, self._id)
        except self._kafka.KafkaException:
            return False

    def _fetch(self, most: int, timeout: float) -> list[Any]:
        """Return messages that have arrived, without errors."""
        found = []
        for message in self._consumer.consume(most, timeout):
            error = message.error()
            if error is None:
                found.append(message)
            else:
                self._take_error(error, str(message.partition()))
        return found

    def _is_of_link(self, error: Any) -> bool:
        """Return whether an error heals, or is none."""
        return error.code() in {getattr(self._kafka.KafkaError, name) for name in LINK}

    def _take_error(self, error: Any, number: str) -> None:
        codes = self._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._left.discard(number)
            return
        if self._is_of_link(error):
            _log.info("KafkaSource: %s: %s", self._topic, error.str())
            return
        self._assigned, self._look_at = False, monotonic() + SHORT_S
        if error.code() == codes._AUTO_OFFSET_RESET:
            self._lost.add(number)
        elif error.code() not in (codes.UNKNOWN_TOPIC_OR_PART, codes.UNKNOWN_TOPIC_ID):
            raise StreamError(f"KafkaSource: {self._topic}: {error.str()}")

    def _gather(self, found: list[Any]) -> list[Any]:
        """Hold messages of a group that is read again; return them when all are there."""
        for message in found:
            number, offset = str(message.partition()), message.offset()
            last = self._until.get(number, 0)
            if offset < last:
                self._held.append(message)
            if offset >= last - 1:
                self._left.discard(number)
        return [] if self._left else self._held

    def _announce(self, found: list[Any]) -> tuple[Any, Any]:
        """Make messages ready, and return the position before them: it says where they end."""
        found = sorted(found, key=lambda message: message.partition())  # offsets stay in order
        until = {str(message.partition()): message.offset() + 1 for message in found}
        before = {"topic": self._id, "offsets": dict(self._next), "until": until}
        for message in found:
            number, offset = message.partition(), message.offset()
            self._next[str(number)] = offset + 1
            place = f"offset {offset} of partition {number} of {self._topic!r}"
            position = {"topic": self._id, "offsets": dict(self._next), "until": until}
            self._ready.append(Message(message.value(), place, position))
        del self._ready[-1].position["until"]
        return Messages([Message(None, "", before)]), before

    def seek(self, position: Any) -> None:
        """Go on at the offsets of a position; the next :meth:`poll` compares it with the topic."""
        offsets = position.get("offsets", position)  # older positions have the offsets alone
        self._next = {str(number): offset for number, offset in offsets.items()}
        is_older = offsets is position
        self._id, self._until = (None, {}) if is_older else (position["topic"], dict(position.get("until", {})))
        self._ready, self._lost, self._assigned, self._look_at = [], set(), False, 0.0

    # ------------------------------------------------------------------ the group

    def commit(self, position: Any) -> None:
        """Commit the offsets to the group; while no server can be reached, they are kept and sent later."""
        offsets = position.get("offsets", position)
        mark = MARK + position["topic"] if position.get("topic") else ""
        self._send_commit(
            [self._kafka.TopicPartition(self._topic, int(number), at, mark) for number, at in offsets.items()]
        )

    def _send_commit(self, places: list[Any]) -> None:
        self._owed, self._commit_failed = places, False
        self._consumer.commit(offsets=places, asynchronous=True)

    def _committed(self, error: Any, places: list[Any]) -> None:
        """Note how a commit went; called while messages are fetched."""
        wanted = {place.partition: place.offset for place in self._owed or []}
        if {place.partition: place.offset for place in places} == wanted:  # else a newer one is under way
            self._commit_failed = error is not None
            self._owed = self._owed if error is not None else None
        if error is not None:
            _log.warning("KafkaSource: the offsets of the group of %s could not be committed: %s", self._topic, error)

    def pause(self, on: bool) -> None:
        """Stop or resume fetching."""
        if self._assigned:
            change = self._consumer.pause if on else self._consumer.resume
            change(self._consumer.assignment())

    def close(self) -> None:
        """Leave the group, when what was committed has arrived there or 4 seconds have passed."""
        ends = monotonic() + CALL_S
        if self._owed is not None:
            self._consumer.unassign()
            if self._commit_failed and self._silent_since is None:
                self._send_commit(self._owed)
        while self._owed is not None and not self._commit_failed and monotonic() < ends:
            self._consumer.poll(0.05)
        closing = Thread(target=self._consumer.close, name="dynstore-kafka-close", daemon=True)
        closing.start()  # librdkafka may wait for a server without end
        closing.join(max(SHORT_S, ends - monotonic()))
        if closing.is_alive():
            _log.warning("KafkaSource: the client of %s does not end, as no server answers; it is left", self._topic)
            self._client_log.is_left = True
        self._admin = None
