"""Channels: the format of a foreign stream, and the origins of its partitions in a flow."""

from __future__ import annotations

from rowtide.codec.registry import decoder_of
from rowtide.flow.flow import Flow
from rowtide.plan.plan import ForeignStream
from rowtide.runtime.ingest.intake import Channel
from rowtide.runtime.ingest.skipping import Skipped
from rowtide_connectors.api import TopicSource


def channel(
    stream: ForeignStream, source: TopicSource, flow: Flow, skipped: Skipped | None = None
) -> Channel:
    """Return the channel that makes rows of a flow from messages of a foreign stream.

    Raises:
      StatementError: the stream's format does not exist or cannot carry its types.
    """
    decoder = decoder_of(stream)
    origins = {
        partition: flow.origin(stream.name, partition)
        for relation, partition in flow.bounds()
        if relation == stream.name
    }
    return Channel(stream, source, decoder, origins, (skipped or {}).get(stream.name, {}))
