from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowtide.errors import StatementError
from rowtide.testing.reading import find_scenarios, read_scenario
from rowtide.testing.scenario import (
    AdvanceWallclock,
    Commit,
    Expect,
    ExpectTable,
    Insert,
    InsertRaw,
    ListRow,
    NamedRow,
    PythonPipeline,
    Restart,
    RestartKind,
    RunSql,
    Scenario,
    SendStatements,
    SetBound,
    SqlText,
)

HEAD = "sql: CREATE STREAM s (a INTEGER)\nsteps:\n"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def reading(text: str) -> Scenario:
        file = tmp_path / "case.yaml"
        file.write_text(text)
        return read_scenario(file)

    return reading


def step(read: Any, text: str) -> Any:
    lines = text.splitlines()
    body = "".join(f"    {line}\n" for line in lines[1:])
    return read(f"{HEAD}  - {lines[0]}\n{body}").steps[0]


def test_values_stay_the_text_that_stands_in_the_file(read: Any) -> None:
    found = step(read, "insert: s\nrows:\n- [10:00:00, 0.10, 1e-9, 'null', 007, yes]")
    assert found.rows == (ListRow(("10:00:00", "0.10", "1e-9", "null", "007", "yes"), 5),)


@pytest.mark.parametrize("null", ["null", "~", "NULL"])
def test_a_plain_null_is_null_and_a_quoted_one_is_the_word(read: Any, null: str) -> None:
    found = step(read, f"insert: s\nrows: [[1, {null}, '{null}']]")
    assert found.rows[0].cells == ("1", None, null)


def test_a_mapping_names_columns(read: Any) -> None:
    found = step(read, 'expect: s\nrows: [{ROWTIME: "10:00:00", amount: 3, \'"Mixed"\': x}]')
    assert found.rows == (NamedRow((("ROWTIME", "10:00:00"), ("amount", "3"), ('"Mixed"', "x")), 4),)


def test_times_of_day_mean_the_scenarios_date(read: Any) -> None:
    found = read(f"date: 1970-01-02\n{HEAD}  - {{bound: s, at: '00:00:01'}}\n").steps[0]
    assert found == SetBound("s", None, 86_401_000, 4)


def test_without_a_date_times_of_day_mean_the_first_of_january_1970(read: Any) -> None:
    assert step(read, "bound: s\nat: 10:00:00.5").rowtime == 36_000_500


def test_a_strict_bound_is_a_bound_one_millisecond_later(read: Any) -> None:
    assert step(read, "bound: s\nat: 1000\nstrict: true\npartition: 2") == SetBound("s", 2, 1001, 3)


def test_raw_bytes_come_as_text_or_base64_one_message_or_several(read: Any) -> None:
    assert step(read, "insert: s\nraw: '{\"a\": 1}'\nat: 5") == InsertRaw("s", 0, (b'{"a": 1}',), 5, 3)
    assert step(read, "insert: s\nraw_base64: AAH/\npartition: 1").messages == (b"\x00\x01\xff",)
    assert step(read, "insert: s\nraw: [a, null, 'null']").messages == (b"a", None, b"null")


def test_every_kind_of_step_is_read(read: Any) -> None:
    scenario = read(
        HEAD
        + """\
  - {insert: s, partition: 3, rows: []}
  - {expect: s, order: any, tolerance: 1e-9, rows: []}
  - {expect_table: s, rows: []}
  - {sql: DROP VIEW v}
  - {send: DELETE FROM t}
  - {advance_wallclock: 1m 5s}
  - {restart: clean}
  - {restart: crash}
  - {commit: now}
"""
    )
    insert, expect, table, *rest = scenario.steps
    assert insert == Insert("s", 3, (), 3)
    assert isinstance(expect, Expect)
    assert (expect.ordered, expect.tolerance) == (False, 1e-9)
    assert isinstance(table, ExpectTable)
    assert rest == [
        RunSql("DROP VIEW v", 6),
        SendStatements("DELETE FROM t", 7),
        AdvanceWallclock(65_000, 8),
        Restart(RestartKind.CLEAN, 9),
        Restart(RestartKind.CRASH, 10),
        Commit(11),
    ]


def test_a_pipeline_is_text_a_file_beside_the_scenario_or_a_python_function(
    read: Any, tmp_path: Path
) -> None:
    (tmp_path / "p.sql").write_text("CREATE STREAM s (a INTEGER)")
    assert read("sql: x\nsteps: []").pipeline == SqlText("x")
    from_file = read("file: p.sql\nsteps: []").pipeline
    assert from_file == SqlText("CREATE STREAM s (a INTEGER)", str(tmp_path / "p.sql"))
    assert read("python: my.pipelines:orders\nsteps: []").pipeline == PythonPipeline("my.pipelines", "orders")


def test_the_partitions_of_a_relation_are_those_that_steps_mention(read: Any) -> None:
    scenario = read(
        HEAD
        + """\
  - {insert: s, partition: 4, rows: []}
  - {bound: s, at: 1}
  - {bound: s, at: 1, partition: 7}
  - {bound: t, at: 1}
"""
    )
    assert scenario.mentioned() == {"s": {4, 7}, "t": set()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a: [", "while parsing"),
        ("steps: []", "needs one of sql, file, python"),
        ("sql: x\nfile: y\nsteps: []", "needs one of sql, file, python"),
        ("sql: x", "needs steps"),
        ("sql: x\nsteps: []\nstesp: []", 'has no key "stesp"'),
        ("sql: x\nsql: y\nsteps: []", 'key "sql" appears twice'),
        ("file: missing.sql\nsteps: []", "cannot be read: No such file"),
        ("python: nothing\nsteps: []", "not of the form module:function"),
        ("date: 10:00:00\nsql: x\nsteps: []", "not a date of the form YYYY-MM-DD"),
        (HEAD + "  - {insert: s, expect: s, rows: []}", "exactly one of insert"),
        (HEAD + "  - {insert: s, strict: true, rows: []}", 'has no key "strict"'),
        (HEAD + "  - {insert: s}", "needs one of rows, raw, raw_base64"),
        (HEAD + "  - {insert: s, raw: {a: 1}}", "must be one value"),
        (HEAD + "  - {insert: s, raw_base64: '*'}", "invalid base64"),
        (HEAD + "  - {insert: s, rows: [x]}", "a row must be a list or a mapping"),
        (HEAD + "  - {bound: s, at: noon}", '"noon" is not a time'),
        (HEAD + "  - {bound: s, at: '24:00:00'}", "not a time of day"),
        (HEAD + "  - {bound: s, at: 1, strict: maybe}", 'strict cannot be "maybe"'),
        (HEAD + "  - {expect: s, order: none, rows: []}", 'order cannot be "none"'),
        (HEAD + "  - {expect_error: x}", "directly after"),
        (HEAD + "  - {commit: now}\n  - {expect_error: x}", "directly after"),
        (HEAD + "  - {advance_wallclock: 5 parsecs}", "is not a duration"),
        (HEAD + "  - {restart: soon}", 'restart cannot be "soon"'),
        (HEAD + "  - {commit: later}", 'commit cannot be "later"'),
    ],
)
def test_a_slip_in_a_file_is_told_with_its_place(read: Any, text: str, message: str) -> None:
    with pytest.raises(StatementError) as refused:
        read(text)
    assert message in refused.value.message
    assert "case.yaml" in refused.value.render()


def test_a_folder_stands_for_the_yaml_files_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    files = [tmp_path / "b.yaml", tmp_path / "deep" / "a.yml"]
    for file in [*files, tmp_path / "README.md"]:
        file.write_text("")
    assert find_scenarios([tmp_path, files[0]]) == files


def test_a_path_that_is_not_there_and_a_folder_without_scenarios_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="does not exist"):
        find_scenarios([tmp_path / "missing.yaml"])
    with pytest.raises(StatementError, match="has no scenario file"):
        find_scenarios([tmp_path])
