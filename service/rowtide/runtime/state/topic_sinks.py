"""The sinks of foreign streams that pumps write to, which a run opens once it has its epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rowtide.codec.encode.rows import RECORDS
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.outbox_options import FORMAT_OPTION, outbox_options, sink_options
from rowtide_connectors.api import (
    Guarantee,
    MessageSink,
    MessageSinkConnector,
    TableColumn,
)
from rowtide_connectors.errors import OptionError
from rowtide_connectors.file_sinks import RecordSinkConnector
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
    check_columns(stream, connector)
    columns = record_columns(stream)
    if columns and isinstance(connector, RecordSinkConnector):
        records = connector.open_records
        return SinkOfStream(
            stream,
            connector.guarantee_of(given),
            lambda sender: records(dict(server.options), given, sender, columns),
        )
    most = outbox_options(stream).max_message_bytes
    return SinkOfStream(
        stream,
        connector.guarantee_of(given),
        lambda sender: connector.open(dict(server.options), given, sender, most),
    )


def record_columns(stream: ForeignStream) -> tuple[TableColumn, ...]:
    """Return the columns of the records that a written stream sends; none if it sends messages."""
    if dict(stream.options).get(FORMAT_OPTION, "").upper() != RECORDS:
        return ()
    return tuple(TableColumn(field.name, str(field.type), field.nullable) for field in stream.row_type)


def check_columns(stream: ForeignStream, connector: MessageSinkConnector) -> None:
    """Check that the connector of a written stream takes its records, or its messages.

    Raises:
      OptionError: it does not store columns, or an option does not fit them.
    """
    columns = record_columns(stream)
    if isinstance(connector, RecordSinkConnector):
        connector.check_columns(sink_options(stream), columns)
    elif columns:
        raise OptionError(
            f'foreign stream "{stream.name}" has format {RECORDS}, and its connector stores messages, not columns',
            hint="Use a server of the wrapper FILES, or another format.",
            option=FORMAT_OPTION,
        )
