"""A table that Debezium fills is the table of the source after each change, whichever column is its key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.codec.registry import decoder_of
from rowtide.flow.flow import Flow
from rowtide.plan.plan import Plan
from rowtide.rowtime.bound import Bound
from rowtide.runtime.ingest.intake import deliver
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import Messages
from support.registry import FakeRegistry, written

UNAVAILABLE = "__debezium_unavailable_value"
NAMES = ("id", "email", "name", "note")
"""Columns of the source. Its key is the first; that of the table is the second, which is unique, too."""
EMAILS = ("a", "b", "c", "d")
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": name, "type": ["null", "int" if name == "id" else "string"], "default": None}
        for name in NAMES
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
SourceRow = tuple[int, str, str, str | None]
Change = dict[str, Any]


class Source:
    """A table of a database, and the changes that its connector sends, drawn step by step."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.rows: dict[int, SourceRow] = {}
        self.last: Change | None = None

    def step(self) -> list[Change]:
        """Change the table; return the messages after all of which the other table must be equal."""
        free = sorted({*EMAILS} - {row[1] for row in self.rows.values()})
        known = sorted(self.rows)
        can = ["insert"] * bool(free) + ["update", "delete", "snapshot"] * bool(known)
        can += ["swap"] * (len(known) > 1) + ["repeat"] * (self.last is not None)
        kind = self.draw(st.sampled_from(can))
        if kind == "repeat":
            assert self.last is not None
            return [self.last]
        if kind == "insert":
            row = (max(known, default=0) + 1, self.draw(st.sampled_from(free)), *self.values())
            self.rows[row[0]] = row
            return self.sent("c", None, row)
        number = self.draw(st.sampled_from(known))
        row = self.rows[number]
        if kind == "snapshot":
            return self.sent("r", None, row)
        if kind == "delete":
            del self.rows[number]
            return self.sent("d", row, None)
        if kind == "update":
            return self.updated(row, self.draw(st.sampled_from([row[1], *free])), whole=False)
        other = self.rows[self.draw(st.sampled_from([each for each in known if each != number]))]
        return [
            *self.updated(row, other[1], whole=True),
            *self.updated(other, row[1], whole=True),
        ]

    def values(self) -> tuple[str, str | None]:
        return self.draw(st.sampled_from("xy")), self.draw(st.sampled_from([None, "long", "longer"]))

    def updated(self, row: SourceRow, email: str, *, whole: bool) -> list[Change]:
        """Update a row; ``whole``: the change has all of the row before it."""
        new = (row[0], email, *(self.values() if self.draw(st.booleans()) else row[2:]))
        self.rows[row[0]] = new
        return self.sent("u", row, new, whole=whole)

    def sent(
        self, op: str, before: SourceRow | None, after: SourceRow | None, *, whole: bool = False
    ) -> list[Change]:
        """Return an envelope; what the source's settings leave out is drawn."""
        old = None if before is None else dict(zip(NAMES, before, strict=True))
        new = None if after is None else dict(zip(NAMES, after, strict=True))
        if old is not None and new is not None and old["note"] == new["note"] is not None:
            new["note"] = self.draw(st.sampled_from([new["note"], UNAVAILABLE]))
        if old is not None and not whole and self.draw(st.booleans()):
            # The replica identity is an index on the table's key.
            old = {**dict.fromkeys(NAMES), "email": old["email"]}
            if new is not None and new["email"] == old["email"]:
                old = None
        self.last = {"op": op, "before": old, "after": new}
        return [self.last]


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as found:
        found.register("changes", ENVELOPE)
        yield found


@cache
def planned(options: str) -> Plan:
    return plan_pipeline(f"""
        CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'changes');
        CREATE TABLE users (email VARCHAR(8) PRIMARY KEY, note VARCHAR(40), name VARCHAR(8) NOT NULL, id INTEGER)
          SERVER k OPTIONS (topic 'u', format {options});
    """)


@given(st.data(), st.sampled_from(["plain", "with schema", "avro"]))
def test_the_table_is_that_of_the_source(registry: FakeRegistry, data: st.DataObject, form: str) -> None:
    def encoded(change: Change) -> bytes:
        if form == "avro":
            return written(ENVELOPE, change, 1)
        wrapped = {"schema": {"type": "struct"}, "payload": change}
        return json.dumps(wrapped if form == "with schema" else change).encode()

    plan = planned(f"'DEBEZIUM_AVRO', registry_url '{registry.url}'" if form == "avro" else "'DEBEZIUM_JSON'")
    (stream,) = plan.foreign_streams
    decoder = decoder_of(stream)
    flow = Flow(dict(plan.relations), {"USERS": (0,)})
    source = Source(data.draw)
    offset = 0
    for _ in range(data.draw(st.integers(1, 12))):
        changes = source.step()
        values = [encoded(change) for change in changes]
        together = [values] if data.draw(st.booleans()) else [[value] for value in values]
        for part in together:
            offsets = np.arange(offset, offset + len(part), dtype=np.int64)
            offset += len(part)
            messages = Messages("u", 0, offsets, offsets, [None] * len(part), part, offset)
            delivery = deliver(stream, decoder, flow.origin("USERS", 0), messages)
            assert delivery.faults == ()
            for tray in delivery.parts:
                flow.insert("USERS", 0, tray)  # type: ignore[arg-type]
            flow.bound("USERS", 0, Bound(offset))
            assert flow.drain().faults == []
        found = sorted(timed.row for timed in flow.table("USERS").rows())
        assert found == sorted((email, note, name, id_) for id_, email, name, note in source.rows.values())
