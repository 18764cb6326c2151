"""Topics whose names match a pattern, as one stream: those that exist, and those that are created later.

A topic that is found gets the next place in the list of ``several``, and so its partitions get their numbers. A start
reads the places of committed topics from the checkpoint (``adopt``), so a number means the same partition in every run
(docs/decisions/0015-topics-by-a-pattern.md). Several topics that are found together get their places in the order
of their names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from rowtide_connectors.api import OffsetRange, Option, TopicSource
from rowtide_connectors.errors import GoneError, MismatchError, MissingOptionError, OptionError
from rowtide_connectors.options import ConnectorOptions
from rowtide_connectors.several import TOPIC, SeveralTopics, number_of, pair_of, topics_of

TOPIC_TO_READ = replace(TOPIC, required=False)
"""The option ``topic`` of streams that may have ``topic_pattern`` instead."""
TOPIC_PATTERN = Option(
    "topic_pattern",
    str,
    "instead of topic, a regular expression of Python: the stream reads all topics whose whole name matches, also "
    "those that are created later",
    "stream",
)
"""The other option of a stream that names its topics."""

INTERNAL = "__"
"""The beginning of names of Kafka's own topics, such as __consumer_offsets: no pattern matches them."""


def topics_or_pattern(options: ConnectorOptions, owner: str) -> tuple[str, ...] | re.Pattern[str]:
    """Return the topics that the option ``topic`` names, or the pattern of ``topic_pattern``.

    Raises:
      OptionError: both are set, or one of them is wrong. MissingOptionError: neither is set.
    """
    topic, pattern = options.optional("topic", str), options.optional("topic_pattern", str)
    if topic is not None and pattern is not None:
        raise OptionError(
            f'options "topic" and "topic_pattern" of {owner} exclude each other',
            hint="Remove one. A pattern can name topics, too: topic_pattern 'orders|returns-.*'.",
            option="topic_pattern",
        )
    if pattern is not None:
        return compiled(pattern, owner)
    if topic is None:
        raise MissingOptionError(
            f'option "topic" of {owner} is missing',
            hint=f"It is {TOPIC.meaning}. Or set topic_pattern, a regular expression of names.",
            option="topic",
        )
    return topics_of(topic, owner)


def compiled(pattern: str, owner: str) -> re.Pattern[str]:
    """Return a pattern of names.

    Raises:
      OptionError: it is not a regular expression.
    """
    if not pattern:
        raise OptionError(
            f'option "topic_pattern" of {owner} is empty',
            hint="Write a regular expression, such as 'orders-.*'.",
            option="topic_pattern",
        )
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        glob = " For any characters, write '.*' instead of '*'." if "*" in pattern else ""
        raise OptionError(
            f"option \"topic_pattern\" of {owner} is not a regular expression: '{pattern}': {error}",
            hint=f"The syntax is that of Python's module re, such as 'orders-.*'.{glob}",
            option="topic_pattern",
        ) from error


def matches(pattern: re.Pattern[str], topic: str) -> bool:
    """Return whether a stream with this pattern reads a topic: its whole name matches, and it is not Kafka's own."""
    return not topic.startswith(INTERNAL) and pattern.fullmatch(topic) is not None


class MatchingTopics(SeveralTopics):
    """The topics that match ``pattern``; see ``api.MatchingSource``.

    Args:
      pattern: of whole names.
      find: returns the names of all topics of the server.
      open_topic: returns the source of one topic.
      every_s: the least interval of calls of ``find``, in seconds.
    """

    def __init__(
        self,
        pattern: re.Pattern[str],
        find: Callable[[], Collection[str]],
        open_topic: Callable[[str], TopicSource],
        *,
        every_s: float,
    ) -> None:
        super().__init__(())
        self.pattern = pattern.pattern
        self._compiled = pattern
        self._find = find
        self._open_topic = open_topic
        self._every_s = every_s
        self._look_again = float("-inf")
        self._append_times: bool | None = None
        self._compacted: bool | None = None

    @property
    def topic(self) -> str:
        """The names of the topics by their places; before the first look-up, the pattern."""
        return super().topic or self.pattern

    def adopt(self, topics: Mapping[int, str]) -> None:
        """Take over the places of committed topics; the next look-up finds the others again."""
        before = {source.topic: source for source in self._held.values()}
        names = {pair_of(number)[0]: name for number, name in topics.items()}
        if names != {at: source.topic for at, source in self._held.items()}:
            self._held = {
                at: before.get(name) or self._open_topic(name) for at, name in sorted(names.items())
            }
            self._look_again = float("-inf")

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Look for new topics; return the range of every partition of all topics.

        Raises:
          GoneError: a topic that was found before does not exist, or no topic matches.
          MismatchError: too many topics match, or a new one needs another start.
        """
        held = dict(self._held)
        found = {at: self._ranges_of(source) for at, source in held.items()}
        for name in self._new({source.topic for source in held.values()}):
            source = self._open_topic(name)
            try:
                partitions = source.ranges()
                self._check_settings(source)
            except GoneError:
                # It was deleted in the meantime.
                continue
            at = next(place for place in range(len(held) + 1) if place not in held)
            held[at], found[at] = source, partitions
        if not held:
            raise GoneError(
                f"no topic matches topic_pattern '{self.pattern}'",
                hint="Create a topic, or correct the option: the expression must match the whole name.",
            )
        numbered = {
            self._number(at, partition): each
            for at, every in found.items()
            for partition, each in every.items()
        }
        self._held = held
        return numbered

    def has_append_times(self) -> bool:
        """Return whether all brokers stamp. From then on, new topics must do so, too."""
        self._append_times = super().has_append_times()
        return self._append_times

    def is_compacted(self) -> bool:
        """Return whether any topic is compacted. If not, no new topic may be from then on."""
        self._compacted = super().is_compacted()
        return self._compacted

    def identity_of(self, partition: int) -> str | None:
        """Return the id of the topic of a partition."""
        return self._known()[pair_of(partition)[0]].identity()

    def _known(self) -> Mapping[int, TopicSource]:
        if not self._held:
            self.ranges()
        return self._held

    def _new(self, known: Collection[str]) -> list[str]:
        """Return the topics that match and are not known, in order; none before the interval has passed."""
        now = time.monotonic()
        if now < self._look_again:
            return []
        names = [name for name in self._find() if name not in known and matches(self._compiled, name)]
        self._look_again = now + self._every_s
        return sorted(names)

    def _ranges_of(self, source: TopicSource) -> Mapping[int, OffsetRange]:
        """Return the ranges of a topic that was found before."""
        try:
            return source.ranges()
        except GoneError as error:
            raise GoneError(
                f"topic \"{source.topic}\", which the stream reads by topic_pattern '{self.pattern}', does not exist "
                "any more",
                hint="A topic that was read must stay. Drop the pipeline's checkpoint and its tables, then start it "
                "again.",
            ) from error

    def _check_settings(self, source: TopicSource) -> None:
        """Check that what the start decided by the settings of the topics holds for a new one, too.

        Raises:
          MismatchError: another start is needed.
        """
        if self._compacted is False and source.is_compacted():
            raise self._needs_a_start(source.topic, "is compacted", "are not")
        if self._append_times and not source.has_append_times():
            raise self._needs_a_start(source.topic, "has timestamps of producers", "have append times")

    def _needs_a_start(self, topic: str, has: str, others: str) -> MismatchError:
        return MismatchError(
            f"topic \"{topic}\" is new, matches topic_pattern '{self.pattern}' and {has}; the topics that the stream "
            f"reads {others}",
            hint="Start the pipeline again: a start reads these settings of all topics.",
        )

    def _number(self, at: int, partition: int) -> int:
        try:
            return number_of(at, partition)
        except MismatchError as error:
            raise MismatchError(
                f"too many topics match topic_pattern '{self.pattern}'",
                hint="The place of a topic and the number of its last partition are at most 179 together. Declare "
                "several streams, each with a narrower pattern, and combine them by UNION ALL.",
            ) from error
