"""Rowtide's own options of a table that is polled, with any connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.configured import STREAM_OPTIONS
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide_connectors.api import Option, PolledConnector
from rowtide_connectors.registry import find_connector, find_polled

POLL_INTERVAL = "poll_interval"
COMPARE_INTERVAL = "compare_interval"
DEFAULT_POLL_INTERVAL = "10 SECOND"

OWN_POLLED_OPTIONS = (
    Option(
        POLL_INTERVAL,
        str,
        "time between two polls; a change takes effect at the time of the poll that finds it",
        "polled table",
        default=DEFAULT_POLL_INTERVAL,
        changeable=True,
    ),
    Option(
        COMPARE_INTERVAL,
        str,
        "with changes_by: time between two polls that compare all rows, which finds deleted rows; without "
        "it, deleted rows are not found",
        "polled table",
        changeable=True,
    ),
)


@dataclass(frozen=True, slots=True)
class PollTimes:
    """The intervals of polls in ms; ``compare_ms`` None: only the first poll reads all rows by itself."""

    interval_ms: int
    compare_ms: int | None


def poll_times(stream: ForeignStream) -> PollTimes:
    """Return the intervals of a table that is polled.

    Raises:
      PollOptionError: an option is not a length of time.
    """
    options = dict(stream.options)
    interval = _length(stream, POLL_INTERVAL, options.get(POLL_INTERVAL, DEFAULT_POLL_INTERVAL))
    compare = options.get(COMPARE_INTERVAL)
    return PollTimes(interval, None if compare is None else _length(stream, COMPARE_INTERVAL, compare))


def poller_of(plan: Plan, stream: ForeignStream) -> PolledConnector | None:
    """Return the connector whose table fills a table of the pipeline; None: its source is a topic.

    Raises:
      OptionError: the connector of its server does not exist.
    """
    if not stream.key:
        return None
    return find_polled(next(each.wrapper for each in plan.servers if each.name == stream.server))


def changeable_options(plan: Plan, stream: ForeignStream) -> frozenset[str]:
    """Return the options of a stream that affect no row that has been read: Rowtide's own, and its connector's.

    Raises:
      OptionError: the connector of its server does not exist.
    """
    connector = find_connector(next(each.wrapper for each in plan.servers if each.name == stream.server))
    declared = [*STREAM_OPTIONS, *OWN_POLLED_OPTIONS]
    for reads in (connector.source, connector.polled):
        declared += [] if reads is None else reads.options
    return frozenset(option.name for option in declared if option.changeable)


def table_options(stream: ForeignStream) -> Mapping[str, str]:
    """Return the options of a table that is polled that are for its connector."""
    own = {option.name for option in OWN_POLLED_OPTIONS}
    return {name: value for name, value in stream.options if name not in own}


class PollOptionError(StatementError):
    """An option of a table that is polled is wrong."""

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


def _length(stream: ForeignStream, option: str, text: str) -> int:
    try:
        return interval_text_ms(text)
    except ValueError as error:
        raise PollOptionError(f'option "{option}" of table "{stream.name}": {error}', option) from error
