"""librdkafka's mock cluster of Kafka with all its functions; its Python package can only start it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Self

import pytest

__all__ = ["MockCluster"]

P, TEXT, INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
CALLS: dict[str, tuple[list[Any], Any]] = {
    "conf_new": ([], P),
    "conf_set": ([P, TEXT, TEXT, TEXT, ctypes.c_size_t], INT),
    "new": ([INT, P, TEXT, ctypes.c_size_t], P),
    "destroy": ([P], None),
    "mock_cluster_new": ([P, INT], P),
    "mock_cluster_destroy": ([P], None),
    "mock_cluster_bootstraps": ([P], TEXT),
    "mock_set_controller_id": ([P, ctypes.c_int32], INT),
    "mock_topic_create": ([P, TEXT, INT, INT], INT),
    "mock_topic_delete": ([P, TEXT], INT),
    "mock_partition_delete_records": ([P, TEXT, ctypes.c_int32, ctypes.c_int64], INT),
    "mock_broker_set_down": ([P, ctypes.c_int32], INT),
    "mock_broker_set_up": ([P, ctypes.c_int32], INT),
    "mock_broker_set_rtt": ([P, ctypes.c_int32, INT], INT),
    "mock_broker_set_host_port": ([P, ctypes.c_int32, TEXT, INT], INT),
}
BROKER = 1


class MockCluster:
    """A cluster of one broker in this process.

    Parameters
    ----------
    partitions : int
        Of the topic "edges".

    Attributes
    ----------
    port : int
    """

    def __init__(self, partitions: int = 1) -> None:
        self._kafka = pytest.importorskip("confluent_kafka")
        folder = Path(self._kafka.__file__).parent.parent / "confluent_kafka.libs"
        found = sorted(folder.glob("librdkafka*"))
        if not found:
            pytest.skip("confluent_kafka has no librdkafka of its own")
        self._library: Any = ctypes.CDLL(str(found[0]))
        for name, (arguments, result) in CALLS.items():
            call = getattr(self._library, f"rd_kafka_{name}", None)
            if call is None:
                pytest.skip(f"librdkafka has no rd_kafka_{name}")
            call.argtypes, call.restype = arguments, result
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", None, 0)
        self._handle = self._library.rd_kafka_new(0, conf, None, 0)
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, 1)
        self.port = int(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode().rpartition(":")[2])
        self.call("set_controller_id", BROKER)  # without one there are no ids of topics
        self.call("topic_create", b"edges", partitions, 1)
        self._producer = self._new_producer()

    def _new_producer(self) -> Any:
        options = {"bootstrap.servers": f"127.0.0.1:{self.port}", "reconnect.backoff.ms": 20, "log_level": 0}
        options |= {"reconnect.backoff.max.ms": 50, "retry.backoff.ms": 10}
        return self._kafka.Producer(options)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the mock cluster."""
        assert getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments) == 0

    def send(self, *messages: bytes | None, partition: int = 0) -> None:
        for message in messages:
            self._producer.produce("edges", message, partition=partition)
        assert self._producer.flush(20) == 0

    def trim(self, offset: int, partition: int = 0) -> None:
        """Remove the messages before an offset."""
        self.call("partition_delete_records", b"edges", partition, offset)

    def make_anew(self, partitions: int = 1) -> None:
        """Delete the topic, and make one of this name again."""
        self.call("topic_delete", b"edges")
        self.call("topic_create", b"edges", partitions, 1)
        self._producer = self._new_producer()

    def set_up(self, on: bool) -> None:
        self.call("broker_set_up" if on else "broker_set_down", BROKER)

    def advertise(self, port: int) -> None:
        """Let clients connect to a proxy; messages are sent past it."""
        self.call("broker_set_host_port", BROKER, b"127.0.0.1", port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        del self._producer
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)
