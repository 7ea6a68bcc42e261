"""A topic of Kafka as a source."""

from __future__ import annotations

import logging
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import InputError, StreamError
from dynstore.streams.addresses import check_server
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import MessageSource

__all__ = ["KafkaSource"]

MOST = 256  # messages a call
CALL_S = 10.0
_log = logging.getLogger("dynstore")


class KafkaSource(MessageSource):
    """All partitions of a topic of Kafka. Each message has many rows: the bytes of :func:`dynstore.streams.encode`.

    A position is a dict of partitions and their next offsets. It is committed to the consumer group. Rows of one
    partition keep their order. The source is tested on librdkafka's mock cluster only.

    Parameters
    ----------
    topic : str
        It must exist.
    group : str
        The consumer group; a new one begins with the first message.
    servers : str
        The addresses of the servers, by comma: Kafka's option ``bootstrap.servers``.
    **options
        Other options of ``confluent_kafka.Consumer``, with underscores for dots.

    Raises
    ------
    InputError
        If there is no such topic.
    MissingDependencyError
        Without the package confluent-kafka.
    confluent_kafka.KafkaException
        If the servers do not answer within 10 seconds.
    """

    def __init__(self, topic: str, group: str = "dynstore", servers: str = "localhost:9092", **options: Any) -> None:
        kafka = require("KafkaSource", "confluent_kafka")
        check_server("kafka", servers)  # librdkafka would log a password
        self._kafka, self._topic = kafka, topic
        config: dict[str, Any] = {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False}
        config["reconnect.backoff.ms"] = 1000  # librdkafka logs each attempt
        config |= {name.replace("_", "."): value for name, value in options.items()}
        self._consumer: Any = kafka.Consumer(config, logger=_log)
        try:
            found = self._consumer.list_topics(topic, timeout=CALL_S).topics[topic]
        except kafka.KafkaException:
            self._consumer.close()
            raise
        if found.error is not None:
            self._consumer.close()
            raise InputError(f"KafkaSource: {servers} has no topic {topic!r}: {found.error}")
        self._partitions = sorted(found.partitions)
        wanted = [kafka.TopicPartition(topic, number) for number in self._partitions]
        kept = self._consumer.committed(wanted, timeout=CALL_S)
        self._next = {place.partition: place.offset for place in kept if place.offset >= 0}
        self._assigned = False

    def _assign(self) -> None:
        offset = {number: self._next.get(number, self._kafka.OFFSET_BEGINNING) for number in self._partitions}
        self._consumer.assign([self._kafka.TopicPartition(self._topic, *place) for place in offset.items()])
        self._assigned = True

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the rows of the next messages."""
        if not self._assigned:
            self._assign()
        messages = []
        for message in self._consumer.consume(max(1, min(MOST, max_rows // 1000)), timeout):
            if message.error() is not None:
                raise StreamError(f"KafkaSource: {self._topic}: {message.error()}")
            partition, offset = message.partition(), message.offset()
            self._next[partition] = offset + 1
            place = f"offset {offset} of partition {partition} of {self._topic!r}"
            messages.append(Message(message.value(), place, {str(k): v for k, v in self._next.items()}))
        if not messages:
            return None
        return Messages(messages, self._columns), messages[-1].position

    def seek(self, position: Any) -> None:
        """Go on at the offsets of a position."""
        self._next = {int(number): offset for number, offset in position.items()}

    def commit(self, position: Any) -> None:
        """Commit the offsets to the group."""
        places = [self._kafka.TopicPartition(self._topic, int(number), at) for number, at in position.items()]
        self._consumer.commit(offsets=places, asynchronous=False)

    def pause(self, on: bool) -> None:
        """Stop or resume fetching."""
        if self._assigned:
            change = self._consumer.pause if on else self._consumer.resume
            change([self._kafka.TopicPartition(self._topic, number) for number in self._partitions])

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
