"""Bound records that a user writes to a topic, as a promise for quiet partitions.

The format is that of ``runtime.ingest.intake``, which reads them (docs/howto/kafka-topics.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.configured import connector_options
from rowtide.runtime.ingest.intake import BOUND_HEADER, STRICT_HEADER
from rowtide_connectors.api import TopicSource, WritableSource


def stream_of(plan: Plan, name: str) -> ForeignStream:
    """Return the foreign stream that reads topic ``name``, or that has this name.

    Raises:
      StatementError: the pipeline reads no such topic.
    """
    streams = plan.foreign_streams
    by_topic = {connector_options(stream).get("topic", ""): stream for stream in reversed(streams)}
    by_name = {stream.name.upper(): stream for stream in streams}
    found = by_topic.get(name) or by_name.get(name.upper())
    if found is None:
        topics = ", ".join(sorted(filter(None, by_topic))) or "none"
        raise StatementError(
            f'no foreign stream of the pipeline reads topic "{name}"', hint=f"The topics are: {topics}."
        )
    return found


def write_bounds(
    source: TopicSource, bound_ms: int, partitions: Sequence[int] | None, *, strict: bool, now_ms: int
) -> dict[int, int]:
    """Append a bound record to partitions (None: to all); return the offset of each record by partition.

    Raises:
      StatementError: a partition does not exist, or the connector cannot write; nothing is written.
      UnavailableError: the broker is down. Some partitions may already have the record. Writing the
        same bound again has no effect.
    """
    if not isinstance(source, WritableSource):
        raise StatementError(f'messages cannot be written to topic "{source.topic}" by its connector')
    known = sorted(source.ranges())
    wanted = known if partitions is None else sorted(set(partitions))
    for partition in wanted:
        if partition not in known:
            raise StatementError(
                f'topic "{source.topic}" has no partition {partition}',
                hint=f"It has {len(known)}: 0 to {len(known) - 1}.",
            )
    headers = [(BOUND_HEADER, str(bound_ms).encode()), *([(STRICT_HEADER, b"1")] if strict else [])]
    return {partition: source.append(partition, headers, now_ms) for partition in wanted}
