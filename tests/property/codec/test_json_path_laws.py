"""Columns with paths against a plain model over Python's own json, and messages that were damaged."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.codec.json.decoder import JsonDecoder
from rowtide.errors import Reason
from rowtide.expr.json_path import JsonSteps, parse_path, show_path
from rowtide.rows.types import BIGINT, BOOLEAN, TIMESTAMP, VARCHAR, Field, RowType, Type

NAMES = st.sampled_from(["a", "b", "A", "c d", 'q"', "\\", "'", "é", ""])
STEPS = (
    st.lists(NAMES | st.integers(0, 2), min_size=1, max_size=3)
    .map(tuple)
    .filter(lambda steps: isinstance(steps[0], str))
)
COLUMNS = st.lists(st.tuples(STEPS, st.sampled_from([BIGINT, VARCHAR, BOOLEAN])), min_size=1, max_size=4)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(0, 9), st.text("ab\0 ", max_size=4)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
MESSAGES = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=5)
ABSENT = object()


class NotThereError(Exception):
    """The message is to be rejected."""


def looked_up(message: Any, steps: JsonSteps) -> Any:
    value = message
    for step in steps:
        if value is None:
            return None
        if isinstance(step, str):
            if not isinstance(value, dict):
                raise NotThereError
            value = value.get(step)
        else:
            if not isinstance(value, list):
                raise NotThereError
            value = value[step] if step < len(value) else None
    return value


def converted(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind == BOOLEAN and isinstance(value, bool):
        return value
    if kind == BIGINT and type(value) is int and -(2**63) <= value < 2**63:
        return value
    if kind == VARCHAR and isinstance(value, str) and "\0" not in value:
        return value
    if kind == VARCHAR and isinstance(value, dict | list):
        return value
    raise NotThereError


def model(message: Any, columns: list[tuple[JsonSteps, Type]]) -> Any:
    try:
        return [converted(looked_up(message, steps), kind) for steps, kind in columns]
    except NotThereError:
        return "rejected"


def same(given: object, wanted: object) -> bool:
    """Compare; JSON text means what it is read as."""
    if isinstance(wanted, dict | list):
        return isinstance(given, str) and json.loads(given) == wanted
    return given == wanted


@settings(max_examples=400, deadline=None)
@given(columns=COLUMNS, messages=MESSAGES)
def test_columns_are_what_a_plain_model_says(
    columns: list[tuple[JsonSteps, Type]], messages: list[dict[str, Any]]
) -> None:
    row_type = RowType(tuple(Field(f"COLUMN{at}", kind) for at, (_, kind) in enumerate(columns)))
    options = {f"COLUMN{at}": {"path": show_path(steps)} for at, (steps, _) in enumerate(columns)}
    decoded = JsonDecoder("S", row_type, options).decode([json.dumps(each).encode() for each in messages])
    rows = dict(
        zip(
            decoded.accepted.tolist(),
            zip(*(column.to_list() for column in decoded.columns), strict=True),
            strict=True,
        )
    )
    for at, message in enumerate(messages):
        wanted = model(message, columns)
        if wanted == "rejected":
            assert at not in rows
        else:
            assert all(map(same, rows[at], wanted)), (rows[at], wanted)
    assert [fault.index for fault in decoded.faults] == [at for at in range(len(messages)) if at not in rows]
    assert {fault.reason for fault in decoded.faults} <= {Reason.TYPE}


@given(STEPS)
def test_a_path_that_is_shown_is_read_again(steps: JsonSteps) -> None:
    assert parse_path(show_path(steps)) == steps


ROW_TYPE = RowType(
    (
        Field("ID", BIGINT, nullable=False),
        Field("CITY", VARCHAR),
        Field("SKU", VARCHAR),
        Field("AT", TIMESTAMP),
        Field("TAGS", VARCHAR),
    )
)
OPTIONS = {
    "CITY": {"path": "$.user.address.city"},
    "SKU": {"path": "$.items[1].sku"},
    "AT": {"path": "$.meta.at", "time_unit": "us"},
}
WHOLE = json.dumps(
    {
        "id": 17,
        "user": {"name": "Ann", "address": {"city": "Rom\u00e9", "zip": None}},
        "items": [{"sku": "a"}, {"sku": "b", "n": 1.5}],
        "meta": {"at": 1_767_225_600_123_456, "ok": True},
        "tags": ["x", {"y": [1]}],
    }
).encode()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_messages_stop_nothing_and_each_is_accounted_for(seed: int) -> None:
    decoder = JsonDecoder("S", ROW_TYPE, OPTIONS)
    chance = random.Random(seed)
    messages: list[bytes | None] = []
    for _ in range(2_500):
        damaged = bytearray(WHOLE)
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(damaged))
            match chance.randrange(4):
                case 0:
                    damaged[at] = chance.randrange(256)
                case 1:
                    del damaged[at : at + chance.randint(1, 12)]
                case 2:
                    damaged[at:at] = chance.choice([b'"', b"{", b"]", b"null", b"1e999", b"\\u0000", b"\xff"])
                case _:
                    damaged[at:at] = damaged[chance.randrange(len(damaged)) :][: chance.randint(1, 20)]
            if not damaged:
                break
        messages.append(bytes(damaged))
    decoded = decoder.decode(messages)
    refused = [fault.index for fault in decoded.faults]
    assert sorted([*decoded.accepted.tolist(), *refused]) == list(range(len(messages)))
    assert refused == sorted(refused)
    assert 100 < len(refused) < 2_400
    # Alone each message has the fate that it has among the others.
    fates: dict[int, object] = {fault.index: (fault.reason, fault.message) for fault in decoded.faults}
    values = zip(*(column.to_list() for column in decoded.columns), strict=True)
    fates.update(zip(decoded.accepted.tolist(), values, strict=True))
    for at in chance.sample(range(len(messages)), 200):
        alone = decoder.decode([messages[at]])
        faults = [(fault.reason, fault.message) for fault in alone.faults]
        rows = list(zip(*(column.to_list() for column in alone.columns), strict=True))
        assert [*faults, *rows] == [fates[at]]
