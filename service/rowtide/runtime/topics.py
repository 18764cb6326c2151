"""The topics of foreign streams: their names, which grow under a pattern, and the ids by which they are recognised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from rowtide.checkpoint.ledger import PartitionPosition, Record, is_resubmission
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.configured import connector_options
from rowtide_connectors.api import MatchingSource, TopicSource
from rowtide_connectors.matching import compiled, matches
from rowtide_connectors.several import SeveralTopics, names_in, place_of


class TopicNames(Mapping[str, str]):
    """The topics that each foreign stream reads now, as ``TopicSource.topic`` has them."""

    def __init__(self, sources: Mapping[str, TopicSource]) -> None:
        self._sources = sources

    def __getitem__(self, relation: str) -> str:
        return self._sources[relation].topic

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def adopt_topics(sources: Mapping[str, TopicSource], record: Record | None) -> None:
    """Take over the committed topics of streams that read a pattern, before anything is asked of their sources."""
    partition_positions = () if record is None else record.partition_positions
    for relation, source in sources.items():
        if isinstance(source, MatchingSource):
            source.adopt(
                {
                    each.partition: each.topic
                    for each in partition_positions
                    if each.relation == relation and not is_resubmission(each.place)
                }
            )


def ids_of(source: TopicSource, partitions: Iterable[int]) -> dict[int, str | None]:
    """Return the ids that are committed with partitions: of the topic of each, or of the stream's whole list.

    Raises:
      UnavailableError, GoneError.
    """
    if not isinstance(source, MatchingSource):
        return dict.fromkeys(partitions, source.identity())
    by_topic: dict[str, str | None] = {}
    found: dict[int, str | None] = {}
    for partition in partitions:
        topic, _ = place_of(source.topic, partition)
        if topic not in by_topic:
            by_topic[topic] = source.identity_of(partition)
        found[partition] = by_topic[topic]
    return found


def reads_topic(stream: ForeignStream, topic: str) -> bool:
    """Return whether the options of a stream name the topic, or a pattern that it matches."""
    options = connector_options(stream)
    pattern = options.get("topic_pattern")
    if pattern is not None:
        return matches(compiled(pattern, f'foreign stream "{stream.name}"'), topic)
    return topic in names_in(options.get("topic", ""))


def refuse_own_topics(plan: Plan) -> None:
    """Refuse a pattern that matches a topic which the pipeline writes: its rows would come in again.

    Raises:
      StatementError: naming the streams and the topic.
    """
    servers = {server.name: (server.wrapper, server.options) for server in plan.servers}
    for stream in plan.foreign_streams:
        pattern = connector_options(stream).get("topic_pattern")
        for written in plan.written_streams if pattern is not None else ():
            topic = dict(written.options).get("topic")
            if topic is None or servers[written.server] != servers[stream.server]:
                continue
            if reads_topic(stream, topic):
                raise StatementError(
                    f'topic_pattern \'{pattern}\' of foreign stream "{stream.name}" matches topic "{topic}", which '
                    f'pumps write to (foreign stream "{written.name}"): the pipeline would read its own rows',
                    hint=f"Leave it out: topic_pattern '(?!{re.escape(topic)}$)({pattern})'.",
                )


def known_ids(partition_positions: Iterable[PartitionPosition]) -> dict[str, str]:
    """Return the ids of the topics of each foreign stream when the pipeline began to read them, between commas."""
    found: dict[str, dict[str, None]] = {}
    for each in partition_positions:
        if each.topic_id is not None and not is_resubmission(each.place):
            found.setdefault(each.relation, {}).update(dict.fromkeys(each.topic_id.split(",")))
    return {relation: ",".join(ids) for relation, ids in found.items()}


def compacted_topics(source: TopicSource) -> frozenset[str]:
    """Return the names of the topics of a source that are compacted.

    Raises:
      UnavailableError, GoneError.
    """
    if not source.is_compacted():
        return frozenset()
    return frozenset(source.compacted() if isinstance(source, SeveralTopics) else [source.topic])
