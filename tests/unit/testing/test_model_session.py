"""A pipeline's model driven by lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.engine import (
    FieldValueError,
    Hashed,
    ModelError,
    ModelSetup,
    Rowop,
    RowType,
    Table,
    TableType,
)
from rowtide.errors import RowtideError
from rowtide.expr.python.loading import look_in
from rowtide.model_server.model_session import ModelSession

REQUEST = RowType(key="string", delay="int64")
HERE = Path(__file__).parent


class Reminders:
    """Answers each request after its delay, and fails where told."""

    def __init__(self, setup: ModelSetup, word: str = "late") -> None:
        asked = Table(setup.unit, "asked", TableType(REQUEST, by_key=Hashed("key")))
        answers = setup.unit.label("answers", REQUEST)

        @setup.unit.handler(REQUEST)
        def remind(rowop: Rowop) -> None:
            asked.delete(rowop.row)
            answers.insert(REQUEST.changed(rowop.row, key=f"{rowop.row.key} {word}"))
            if rowop.row.key == "bad":
                raise ValueError("bad key")

        @setup.unit.handler(REQUEST)
        def ask(rowop: Rowop) -> None:
            asked.input.forward(rowop)
            if rowop.row.delay is None:
                raise ValueError("no delay")
            setup.clock.at(setup.clock.rowtime + rowop.row.delay, remind.adopt(rowop))

        setup.input("requests", ask)
        setup.output("answers", answers)
        setup.table("asked", asked)


@pytest.fixture
def session() -> ModelSession:
    look_in(str(HERE))
    return ModelSession("test_model_session:Reminders", {"word": "again"})


def test_events_run_on_the_way_to_a_time_and_say_when(session: ModelSession) -> None:
    assert session.feed("at,2024-05-05 10:00:00") == []
    assert session.feed("requests,INSERT,tea,1500") == ["asked,OP_INSERT,tea,1500"]
    assert session.feed("requests,INSERT,milk,1000") == ["asked,OP_INSERT,milk,1000"]
    assert session.feed("table,asked") == ["asked,tea,1500", "asked,milk,1000"]
    assert session.feed("at,2024-05-05 10:00:01") == [
        "at,2024-05-05 10:00:01",
        "asked,OP_DELETE,milk,1000",
        "answers,OP_INSERT,milk again,1000",
    ]
    assert session.feed("at,1714903201500")[0] == "at,2024-05-05 10:00:01.500"
    assert session.feed("table,asked") == []


def test_of_a_row_or_an_event_that_fails_nothing_stays(session: ModelSession) -> None:
    session.feed("at,2024-05-05")
    for key in ("bad", "good"):
        session.feed(f"requests,INSERT,{key},1000")
    with pytest.raises(ModelError, match=r'the model failed and is unchanged: label "ask".*no delay'):
        session.feed("requests,INSERT,none")
    assert session.feed("table,asked") == ["asked,bad,1000", "asked,good,1000"]
    assert session.feed("at,2024-05-06") == [
        "at,2024-05-05 00:00:01",
        'error: the model failed at the event, and is as before: label "remind": ValueError: bad key',
        "at,2024-05-05 00:00:01",
        "asked,OP_DELETE,good,1000",
        "answers,OP_INSERT,good again,1000",
    ]
    assert session.feed("table,asked") == ["asked,bad,1000"]


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("request,INSERT,a,1", ModelError, 'input "request" does not exist'),
        ("requests,INSERT,a,b", FieldValueError, "field \"delay\" of type int64 cannot hold 'b'"),
        ("requests,UPSERT,a,1", ModelError, 'opcode "UPSERT" does not exist'),
        ("requests", ModelError, 'opcode "" does not exist'),
        ("table,answers", ModelError, 'table "answers" does not exist'),
        ("at,tomorrow", RowtideError, '"tomorrow" is not a time'),
        ("at,1999-01-01", ModelError, "rowtime does not go back: it is 2024-05-05 00:00:00"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(
    session: ModelSession, line: str, kind: type[RowtideError], message: str
) -> None:
    session.feed("at,2024-05-05")
    with pytest.raises(kind, match=message):
        session.feed(line)


def test_help_says_what_there_is(session: ModelSession) -> None:
    assert session.feed("help") == [
        "input requests,INSERT|DELETE,key string,delay int64",
        "output answers,OP_INSERT|OP_DELETE,key string,delay int64",
        "output asked,OP_INSERT|OP_DELETE,key string,delay int64",
        "table asked,key string,delay int64",
        "at,TIME goes to a rowtime (UTC, or ms) and runs the events until then",
        "table,NAME shows the rows of a table",
    ]
