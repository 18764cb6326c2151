"""Rows of JSON_TABLE are those of a plain model, of streams and of changes, however the input is cut."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.errors import Reason
from rowtide.flow.flow import Flow
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import plan_pipeline

PIPELINE = """
CREATE STREAM s (id INTEGER, doc VARCHAR);
CREATE TABLE t (id INTEGER PRIMARY KEY, doc VARCHAR);
CREATE VIEW of_stream AS SELECT STREAM id, n, sku, qty, tags FROM s LEFT JOIN JSON_TABLE(doc, '$.lines[*]'
  COLUMNS (n FOR ORDINALITY, sku VARCHAR, qty INTEGER DEFAULT 1 ON EMPTY, tags VARCHAR FORMAT JSON)) AS l ON TRUE;
CREATE VIEW of_table AS SELECT id, n, sku, qty FROM t, JSON_TABLE(doc, '$.lines[*]'
  COLUMNS (n FOR ORDINALITY, sku VARCHAR, qty INTEGER NULL ON ERROR) EMPTY ON ERROR) AS l;
CREATE VIEW sold AS SELECT sku, COUNT(*) AS c FROM of_table GROUP BY sku;
CREATE VIEW tagged AS SELECT STREAM id, n, tag FROM of_stream, UNNEST(tags) AS tag;
"""
RELATIONS = dict(plan_pipeline(PIPELINE).relations)

texts = st.text(st.sampled_from("ab\"\\é'"), max_size=3)
quantities = st.integers(-3, 3) | st.sampled_from(("x", "7", None, [1], {"a": 1}))
lines = st.fixed_dictionaries(
    {},
    optional={
        "sku": texts | st.none(),
        "qty": quantities,
        "tags": st.lists(texts | st.integers(0, 9), max_size=3),
    },
)
documents = st.one_of(
    st.fixed_dictionaries({"lines": st.lists(lines | st.integers(0, 2), max_size=4)}),
    st.fixed_dictionaries({"lines": lines}),
    st.just({}),
).map(lambda found: json.dumps(found, ensure_ascii=False)) | st.sampled_from((None, "no JSON", "[]"))
given_rows = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 2), documents), max_size=8)


def run(
    node: Node, relation: str, rows: list[tuple[bool, int, int, Any]], cuts: set[int]
) -> tuple[list[Any], list[Any]]:
    """Return the rows of a plan with opcode and time, and the reasons and times of errors."""
    flow = Flow({"OUT": node}, {})
    out: list[Any] = []
    faults: list[Any] = []

    def drain() -> None:
        drained = flow.drain()
        out.extend(
            (each.opcode, each.rowtime, each.row) for tray in drained.outputs["OUT"] for each in tray.rows()
        )
        faults.extend((each.reason, each.rowtime) for each in drained.faults)

    time = 0
    waiting: list[TimedRow] = []
    for at, (gone, step, key, document) in enumerate(rows):
        time += step
        opcode = Opcode.DELETE if gone and relation == "T" else Opcode.INSERT
        waiting.append(TimedRow(time, flow.origin(relation, 0), at, opcode, (key, document)))
        if at in cuts:
            flow.insert(relation, 0, Tray.from_rows(flow.row_type(relation), waiting))
            waiting = []
            drain()
    if waiting:
        flow.insert(relation, 0, Tray.from_rows(flow.row_type(relation), waiting))
    flow.bound(relation, 0, Bound(LATEST))
    drain()
    return out, faults


def elements(document: str | None) -> list[Any]:
    """Return the lines of a document; a value that is no list is a line itself.

    Raises:
      ValueError: it is not JSON.
    """
    found = None if document is None else json.loads(document)
    if not isinstance(found, dict) or "lines" not in found:
        return []
    return found["lines"] if isinstance(found["lines"], list) else [found["lines"]]


def quantity(line: Any, default: int | None) -> int | None:
    """Return the quantity of a line.

    Raises:
      ValueError: it is not a number; TypeError: it is an object or array.
    """
    if not isinstance(line, dict) or "qty" not in line:
        return default
    return None if line["qty"] is None else int(line["qty"])


def sku(line: Any) -> str | None:
    """Return the sku of a line."""
    return line.get("sku") if isinstance(line, dict) else None


@settings(max_examples=100, deadline=None)
@given(given_rows, st.sets(st.integers(0, 8)))
def test_rows_of_a_stream(rows: list[tuple[bool, int, int, Any]], cuts: set[int]) -> None:
    wanted: list[Any] = []
    errors = []
    tags: list[Any] = []
    time = 0
    for _, step, key, document in rows:
        time += step
        try:
            held = elements(document)
            found: list[Any] = [(key, n, sku(each), quantity(each, 1)) for n, each in enumerate(held, 1)]
        except TypeError:
            errors.append((Reason.TYPE, time))
            continue
        except json.JSONDecodeError:
            errors.append((Reason.FUNCTION, time))
            continue
        except ValueError:
            errors.append((Reason.CAST, time))
            continue
        wanted += [(Opcode.INSERT, time, each) for each in found or [(key, None, None, None)]]
        for n, line in enumerate(held, 1):
            for tag in line.get("tags", []) if isinstance(line, dict) else []:
                tags.append((Opcode.INSERT, time, (key, n, str(tag))))
    out, faults = run(RELATIONS["OF_STREAM"], "S", rows, cuts)
    assert [(opcode, time, row[:4]) for opcode, time, row in out] == wanted
    assert faults == errors
    assert run(RELATIONS["TAGGED"], "S", rows, cuts)[0] == tags


def fitting(document: Any) -> list[tuple[str | None, int | None]]:
    """Return the lines of a document; what does not fit is NULL, and text that is not JSON has none."""
    found = []
    try:
        held = elements(document)
    except ValueError:
        return []
    for each in held:
        try:
            found.append((sku(each), quantity(each, None)))
        except (TypeError, ValueError):
            found.append((sku(each), None))
    return found


@settings(max_examples=100, deadline=None)
@given(given_rows, st.sets(st.integers(0, 8)))
def test_changes_of_a_table(rows: list[tuple[bool, int, int, Any]], cuts: set[int]) -> None:
    wanted: list[Any] = []
    table: dict[int, Any] = {}
    time = 0

    def rows_of(key: int) -> list[Any]:
        return [(key, n, *each) for n, each in enumerate(fitting(table[key]), 1)] if key in table else []

    for gone, step, key, document in rows:
        time += step
        before = rows_of(key)
        table.pop(key, None)
        if not gone:
            table[key] = document
        after = rows_of(key)
        wanted += [(Opcode.DELETE, time, row) for row in before if row not in after]
        wanted += [(Opcode.INSERT, time, row) for row in after if row not in before]
    out, faults = run(RELATIONS["OF_TABLE"], "T", rows, cuts)
    assert out == wanted
    assert faults == []
    now: Counter[Any] = Counter()
    for opcode, _, row in run(RELATIONS["SOLD"], "T", rows, cuts)[0]:
        now[row] += 1 if opcode == Opcode.INSERT else -1
    counts = Counter(text for document in table.values() for text, _ in fitting(document))
    assert +now == Counter(dict.fromkeys(counts.items(), 1))


def test_the_primary_key_and_the_number_are_the_key() -> None:
    assert RELATIONS["OF_TABLE"].key_fields() == (0, 1)
