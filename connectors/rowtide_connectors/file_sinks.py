"""What message sinks that make files ask for beside ``api.MessageSink``: larger pieces, and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from rowtide_connectors.api import MessageSink, TableColumn


@runtime_checkable
class GatheringSink(Protocol):
    """A message sink that makes a file of each ``send``: messages wait until they are enough, or the first is old.

    ``most_messages`` and ``most_bytes`` are enough; ``wait_s`` is how long a message waits.
    """

    most_messages: int
    most_bytes: int
    wait_s: float


@runtime_checkable
class RecordSinkConnector(Protocol):
    """A connector of message sinks that stores columns: streams of format PARQUET give it records.

    The value of such a message is an array of MessagePack with the values of the columns in row form (rows/types.py of
    the service): a DECIMAL is text, an ARRAY an array. It has no key, headers or partition.
    """

    def check_columns(self, stream: Mapping[str, str], columns: Sequence[TableColumn]) -> None:
        """Read options of a stream with these columns, or without columns of one that sends messages; opens nothing.

        Raises:
          OptionError: names the option and says what is allowed.
        """

    def open_records(
        self,
        server: Mapping[str, str],
        stream: Mapping[str, str],
        sender: str,
        columns: Sequence[TableColumn],
    ) -> MessageSink:
        """Return the sink of a stream; ``sender`` is as for ``MessageSinkConnector.open``.

        Raises:
          OptionError: names the option and says what is allowed.
        """
