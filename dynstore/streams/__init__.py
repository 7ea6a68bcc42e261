"""Streams of edges into a graph: sources, answers after each batch, questions from any thread."""

from __future__ import annotations

from dynstore.streams.addresses import open_source
from dynstore.streams.flight_source import FlightSource
from dynstore.streams.growing_file import FileSource
from dynstore.streams.kafka_source import KafkaSource
from dynstore.streams.messages import decode, encode
from dynstore.streams.monitors import StreamMonitor, Tick
from dynstore.streams.nats_source import NatsSource
from dynstore.streams.progress import Progress
from dynstore.streams.redis_source import RedisSource
from dynstore.streams.source import IterableSource, Source, TableSource
from dynstore.streams.stream import Stream

__all__ = [
    "FileSource",
    "FlightSource",
    "IterableSource",
    "KafkaSource",
    "NatsSource",
    "Progress",
    "RedisSource",
    "Source",
    "Stream",
    "StreamMonitor",
    "TableSource",
    "Tick",
    "decode",
    "encode",
    "open_source",
]
