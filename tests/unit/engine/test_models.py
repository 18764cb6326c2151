from __future__ import annotations

import pytest

from rowtide.engine import INSERT, FieldValueError, Hashed, ModelError, Rowop, RowType, Table, TableType, Unit
from rowtide.engine.model import ModelRun, ModelSetup, Sent

REQUEST = RowType(key="string", delay="int64")


def reminder(setup: ModelSetup, word: str = "late") -> None:
    """Answers each request after its delay."""
    unit, clock = setup.unit, setup.clock
    pending = Table(unit, "pending", TableType(REQUEST, by_key=Hashed("key")))
    answers = unit.label("answers", REQUEST)

    @unit.handler(REQUEST)
    def remind(rowop: Rowop) -> None:
        pending.delete(rowop.row)
        answers.insert(REQUEST.changed(rowop.row, key=f"{rowop.row.key} {word}"))

    @unit.handler(REQUEST)
    def ask(rowop: Rowop) -> None:
        pending.insert(rowop.row)
        clock.at(clock.rowtime + rowop.row.delay, remind.rowop(INSERT, rowop.row))

    setup.input("requests", ask)
    setup.output("answers", answers)
    setup.table("pending", pending)


def answers(sent: list[Sent]) -> list[tuple[str, int]]:
    return [(one.row.key, one.rowtime) for one in sent if one.output == "answers"]


def test_events_run_at_their_rowtime_before_rows_of_the_same_rowtime() -> None:
    run = ModelRun("reminder", reminder)
    assert answers(run.take("requests", INSERT, ("a", 5), 10)) == []
    assert run.next_event == 15
    sent = run.take("requests", INSERT, ("b", 0), 15)
    assert [(one.output, one.row.key) for one in sent] == [
        ("pending", "a"),
        ("answers", "a late"),
        ("pending", "b"),
    ]
    assert answers(run.advance(15)) == [("b late", 15)]


def test_events_run_in_the_order_of_their_rowtimes() -> None:
    run = ModelRun("reminder", reminder, {"word": "soon"})
    for key, delay in [("a", 9), ("b", 3), ("c", 3)]:
        run.take("requests", INSERT, (key, delay), 0)
    assert answers(run.advance(100)) == [("b soon", 3), ("c soon", 3), ("a soon", 9)]
    assert len(run.tables["pending"]) == 0


def test_a_model_tells_the_types_of_its_inputs_and_outputs() -> None:
    run = ModelRun("reminder", reminder)
    assert run.input_types == {"requests": REQUEST}
    assert list(run.output_types) == ["answers", "pending"]


def test_rowtime_never_goes_back_and_events_are_not_in_the_past() -> None:
    run = ModelRun("reminder", reminder)
    run.take("requests", INSERT, ("a", 1), 10)
    with pytest.raises(ModelError, match='rowtime goes back in unit "reminder": 10, then 9'):
        run.take("requests", INSERT, ("b", 1), 9)
    with pytest.raises(Exception, match='event of label "remind" at 9 is late: the rowtime is 10'):
        run.take("requests", INSERT, ("c", -1), 10)


def test_what_a_model_does_not_have_is_refused() -> None:
    run = ModelRun("reminder", reminder)
    with pytest.raises(ModelError, match='model "reminder" has no input "request"'):
        run.take("request", INSERT, ("a", 1), 0)
    with pytest.raises(FieldValueError, match='field "delay"'):
        run.take("requests", INSERT, ("a", "1"), 0)
    assert run.take("requests", INSERT, ("a", 1), 0)


def test_a_model_offers_each_name_once_and_only_its_own_labels() -> None:
    setup = ModelSetup("model")
    label = setup.unit.label("label", REQUEST)
    setup.input("name", label)
    with pytest.raises(ModelError, match='model "model" declares "name" twice'):
        setup.input("name", label)
    with pytest.raises(ModelError, match="of another unit"):
        setup.output("name", Unit("u").label("label", REQUEST))


def test_events_find_their_label_by_its_name_alone() -> None:
    setup = ModelSetup("model")
    first = setup.unit.label("twin", REQUEST)
    setup.unit.label("twin", REQUEST)
    with pytest.raises(ModelError, match='2 labels are called "twin"'):
        setup.clock.at(5, first.rowop(INSERT, ("a", 1)))
