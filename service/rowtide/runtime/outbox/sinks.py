"""The sinks of foreign streams that pumps write to, which a run opens once it has its epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.outbox.options import outbox_options, sink_options
from rowtide_connectors.api import Guarantee, MessageSink
from rowtide_connectors.registry import find_message_sink


@dataclass(frozen=True, slots=True)
class SinkOfStream:
    """How to open the message sink of a written stream."""

    stream: ForeignStream
    guarantee: Guarantee
    open: Callable[[str], MessageSink]
    """Takes the name of the sender."""


def sink_of(plan: Plan, stream: ForeignStream) -> SinkOfStream:
    """Return how to open the sink of a foreign stream that pumps write to.

    Raises:
      OptionError: its server's connector cannot write messages, or an option of its server or its own is wrong.
      StatementError: one of Rowtide's options is wrong.
    """
    server = next(each for each in plan.servers if each.name == stream.server)
    connector, given = find_message_sink(server.wrapper), sink_options(stream)
    connector.check_options(given)
    most = outbox_options(stream).max_message_bytes
    return SinkOfStream(
        stream,
        connector.guarantee_of(given),
        lambda sender: connector.open(dict(server.options), given, sender, most),
    )
