"""The state of a model as bytes, and back: the values of ``rows.typed_values``, and tables."""

from __future__ import annotations

from rowtide.engine.table.snapshot import TableState
from rowtide.rows.typed_values import STORABLE, StateError, dump_state, load_state, store_also

__all__ = ["STORABLE", "StateError", "dump_state", "load_state"]

_TABLE = 16
"""The tag of a table. It is part of the format of snapshots."""
store_also(TableState, _TABLE)
