"""Streams of edges into a graph: sources, answers after each batch, questions from any thread."""

from __future__ import annotations

from dynstore.streams.addresses import open_source
from dynstore.streams.messages import Message, Messages, decode, encode
from dynstore.streams.monitors import StreamMonitor, Tick
from dynstore.streams.progress import Progress
from dynstore.streams.questions import Answer
from dynstore.streams.sources.base import IterableSource, Source, TableSource
from dynstore.streams.sources.flight import FlightSource
from dynstore.streams.sources.growing_file import FileSource
from dynstore.streams.sources.kafka import KafkaSource
from dynstore.streams.sources.nats import NatsSource
from dynstore.streams.sources.redis import RedisSource
from dynstore.streams.stream import Stream
from dynstore.streams.units import BadUnit

__all__ = [
    "Answer",
    "BadUnit",
    "FileSource",
    "FlightSource",
    "IterableSource",
    "KafkaSource",
    "Message",
    "Messages",
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
