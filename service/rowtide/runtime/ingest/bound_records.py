"""Bound records that a user writes to a topic, as a promise for quiet partitions.

The format is that of ``runtime.ingest.intake``, which reads them (docs/howto/kafka-topics.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.configured import connector_options
from rowtide.runtime.ingest.intake import BOUND_HEADER, STRICT_HEADER
from rowtide.runtime.topics import reads_topic
from rowtide_connectors.api import TopicSource, WritableSource
from rowtide_connectors.several import names_in, place_of


def stream_of(plan: Plan, name: str) -> ForeignStream:
    """Return the foreign stream that reads topic ``name``, or that has this name.

    Raises:
      StatementError: the pipeline reads no such topic.
    """
    streams = plan.foreign_streams
    found = next((stream for stream in streams if reads_topic(stream, name)), None)
    found = found or next((stream for stream in streams if stream.name.upper() == name.upper()), None)
    if found is None:
        topics = ", ".join(sorted({topic for stream in streams for topic in _declared_topics(stream)}))
        raise StatementError(
            f'no foreign stream of the pipeline reads topic "{name}"',
            hint=f"The topics are: {topics or 'none'}.",
        )
    return found


def _declared_topics(stream: ForeignStream) -> list[str]:
    """Return the topics, or the pattern, that the options of a stream name."""
    options = connector_options(stream)
    pattern = options.get("topic_pattern")
    names = names_in(options.get("topic", "")) if pattern is None else (f"those that match '{pattern}'",)
    return [name for name in names if name]


def write_bounds(
    source: TopicSource,
    bound_ms: int,
    topic: str | None,
    partitions: Sequence[int] | None,
    *,
    strict: bool,
    now_ms: int,
) -> dict[tuple[str, int], int]:
    """Append a bound record to partitions (None: to all); return each record's offset by topic and partition.

    ``topic`` is one of those that the source reads; None: all.

    Raises:
      StatementError: a partition does not exist, or the connector cannot write; nothing is written.
      UnavailableError: the broker is down. Some partitions may already have the record. Writing the
        same bound again has no effect.
    """
    if not isinstance(source, WritableSource):
        raise StatementError(f'messages cannot be written to topic "{source.topic}" by its connector')
    known = {place_of(source.topic, number): number for number in source.ranges()}
    topics = [topic] if topic is not None else [name for name in names_in(source.topic) if name]
    own = {place: number for place, number in known.items() if place[0] in topics}
    for name in topics:
        count = sum(each == name for each, _ in own)
        if not count:
            shown = ", ".join(sorted({each for each, _ in known}))
            raise StatementError(f'topic "{name}" does not exist', hint=f"The stream reads: {shown}.")
        for partition in partitions or ():
            if (name, partition) not in own:
                raise StatementError(
                    f'topic "{name}" has no partition {partition}', hint=f"It has {count}: 0 to {count - 1}."
                )
    wanted = sorted(place for place in own if partitions is None or place[1] in partitions)
    headers = [(BOUND_HEADER, str(bound_ms).encode()), *([(STRICT_HEADER, b"1")] if strict else [])]
    return {place: source.append(own[place], headers, now_ms) for place in wanted}
