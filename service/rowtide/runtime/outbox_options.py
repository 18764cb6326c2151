"""The options of a foreign stream that pumps write to."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.codec.message import WRITE_OPTIONS
from rowtide.codec.registry import every_option
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.runtime.configured import stream_options_of_format
from rowtide_connectors.api import Option
from rowtide_connectors.errors import OptionError
from rowtide_connectors.options import read_options

LOST_NUMBER, STOP, RESEND = "lost_number", "stop", "resend"
OUTBOX_OPTIONS = (
    Option(
        "max_message_bytes",
        int,
        "the most bytes of key, value and headers of a message; a larger row is rejected",
        "written stream",
        default=1_000_000,
    ),
    Option(
        "max_pending",
        int,
        "the most messages that wait in the database for the receiver; then the pipeline reads no more",
        "written stream",
        default=1_000_000,
    ),
    Option(
        LOST_NUMBER,
        str,
        f"what to do if the receiver has lost the number of the last message sent: {STOP}, or {RESEND} the "
        "messages in doubt",
        "written stream",
        default=STOP,
    ),
)
MESSAGE_OPTIONS = tuple(
    Option(each.name, str, each.meaning, "written stream", default=each.default) for each in WRITE_OPTIONS
)
FORMAT_OPTION = "format"
OWN_OPTIONS = frozenset(
    {
        FORMAT_OPTION,
        *(option.name for option in (*OUTBOX_OPTIONS, *MESSAGE_OPTIONS)),
        *(option.name for _, option in every_option() if not option.of_column),
    }
)
"""Names of the options that are not the connector's."""


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """``resends``: messages in doubt are sent again if the receiver has lost their number."""

    max_message_bytes: int
    max_pending: int
    resends: bool


class WrittenOptionError(StatementError):
    """An option of a written stream is wrong; ``option`` is its name."""

    def __init__(self, message: str, option: str | None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.option = option


def outbox_options(stream: ForeignStream) -> OutboxOptions:
    """Return the options of a written stream.

    Raises:
      WrittenOptionError: a value is not of its kind.
    """
    names = {option.name for option in OUTBOX_OPTIONS}
    given = {name: value for name, value in stream.options if name in names}
    try:
        options = read_options(f'foreign stream "{stream.name}"', OUTBOX_OPTIONS, "written stream", given)
    except OptionError as error:
        raise WrittenOptionError(error.message, error.option, hint=error.hint) from error
    for name in ("max_message_bytes", "max_pending"):
        if options.get(name, int) < 1:
            raise WrittenOptionError(
                f'option "{name}" of foreign stream "{stream.name}" is below 1',
                name,
                hint="It must be at least 1.",
            )
    lost = options.get(LOST_NUMBER, str).lower()
    if lost not in (STOP, RESEND):
        raise WrittenOptionError(
            f'option "{LOST_NUMBER}" of foreign stream "{stream.name}" has the value "{lost}"',
            LOST_NUMBER,
            hint=f"It must be {STOP} or {RESEND}.",
        )
    return OutboxOptions(
        options.get("max_message_bytes", int), options.get("max_pending", int), lost == RESEND
    )


def sink_options(stream: ForeignStream) -> dict[str, str]:
    """Return the options of a written stream that are for its connector.

    Raises:
      StatementError: its format is of a package that cannot be loaded.
    """
    own = OWN_OPTIONS | stream_options_of_format(stream)
    return {name: value for name, value in stream.options if name not in own}
