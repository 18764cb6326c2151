"""The image of a flow for another process: its state, and its unprocessed input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rowtide.flow.circuit import Arrival
from rowtide.operators.contract import State
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import Bound


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Rows that wait at a port, in Arrow form; a bound alone has no table."""

    port: int
    rows: tuple[RowType, pa.Table] | None
    bound: Bound

    @classmethod
    def of(cls, arrival: Arrival) -> WaitingRows:
        """Return what arrived."""
        port, tray, bound = arrival
        return cls(port, None if tray is None else (tray.row_type, tray.to_arrow()), bound)

    def arrival(self) -> Arrival:
        """Return it as it arrives."""
        return self.port, None if self.rows is None else Tray.from_arrow(*self.rows), self.bound


@dataclass(frozen=True, slots=True)
class FlowImage:
    """The image of a flow (``Flow.image``, ``Flow.begin_from``); ``waiting`` is by position of the step."""

    state: Mapping[str, State]
    waiting: Mapping[int, Sequence[WaitingRows]]
