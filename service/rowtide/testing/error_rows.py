"""Rows of ``SYS.ERRORS`` made from faults (docs/sql/semantics.md#error-rows)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rowtide.operators.contract import Fault
from rowtide.rows.types import BIGINT, INTEGER, TIMESTAMP, VARCHAR, Field, Kind, RowType, Type
from rowtide.runtime.state.deadletters import RecentMessages, error_rows
from rowtide.testing.compare import ActualRow
from rowtide.testing.source_log import SourceLog
from rowtide_connectors.api import Fetched

ERRORS = "SYS.ERRORS"
ERROR_ROW = RowType(
    (
        Field("KIND", VARCHAR, nullable=False),
        Field("RELATION", VARCHAR, nullable=False),
        Field("REASON", VARCHAR, nullable=False),
        Field("BOUND", TIMESTAMP),
        Field("RAW", Type(Kind.VARBINARY)),
        Field("TOPIC", VARCHAR),
        Field("PARTITION", INTEGER),
        Field("OFFSET", BIGINT),
    )
)
"""The columns of the error stream; its ROWTIME is that of the row that was late or rejected."""


def settled(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults of one step in an order that does not depend on the cut into trays.

    Each operator reports faults in the order of its rows, but operators alternate by tray. Rows of one
    source partition keep the order of their offsets; faults of one row keep the pipeline's order.
    """
    return sorted(faults, key=_place)


def _place(fault: Fault) -> tuple[int, int]:
    return fault.origin, fault.counter


def error_givens(
    faults: Sequence[Fault],
    source_of: Callable[[int], tuple[str, int] | None],
    topics: Mapping[str, str],
    log: SourceLog,
) -> list[ActualRow]:
    """Return the error rows of the faults of one commit, as the service makes them."""

    def fetch(place: tuple[str, int], offsets: Sequence[int]) -> dict[int, Fetched]:
        # SYS.ERRORS does not show the time of the message.
        return {offset: Fetched(0, log.raw(*place, offset)) for offset in offsets}

    rows = error_rows(faults, source_of=source_of, topics=topics, recent=RecentMessages(), fetch=fetch)
    return [
        ActualRow(
            row.rowtime,
            (
                row.kind,
                row.relation,
                row.reason,
                row.bound,
                row.raw,
                row.topic,
                row.partition,
                row.offset,
            ),
        )
        for row in rows
    ]
