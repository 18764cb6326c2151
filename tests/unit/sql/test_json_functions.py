"""What is refused of the functions of JSON, with what to write (docs/sql/expressions.md#json)."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.sql.pipeline import plan_pipeline


@pytest.mark.parametrize(
    ("expression", "wanted", "hint"),
    [
        ("JSON_VALUE(doc, '$.a[*]')", "may name several places", "$.items[0]"),
        ("JSON_QUERY(doc, 'a')", "does not begin with $", "$.user.name"),
        ("JSON_VALUE(doc, '$.a' NULL ON EMPTY ERROR ON EMPTY)", "EMPTY or ERROR, each once", ""),
        ("JSON_VALUE(n, '$.a')", "does not take (INTEGER", ""),
        ("doc -> 1.5", 'operator "->" does not take', "x -> 'name'"),
        ("n ->> 'a'", 'operator "->>" does not take', "JSON as text"),
    ],
)
def test_what_cannot_be_is_refused(expression: str, wanted: str, hint: str) -> None:
    text = f"CREATE STREAM s (doc VARCHAR(99), n INTEGER);\nCREATE VIEW v AS SELECT STREAM {expression} AS x FROM s;"
    with pytest.raises(StatementError) as caught:
        plan_pipeline(text)
    assert wanted in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.place is not None


def test_arrows_bind_tighter_than_other_operators() -> None:
    texts = ["doc ->> 'a' || doc -> 'b' ->> 0", "(doc ->> 'a') || ((doc -> 'b') ->> 0)"]
    plans = [
        plan_pipeline(f"CREATE STREAM s (doc VARCHAR(9)); CREATE VIEW v AS SELECT STREAM {each} AS x FROM s;")
        for each in texts
    ]
    assert plans[0].relations == plans[1].relations
