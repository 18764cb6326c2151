"""``rowtide test`` from the outside: files in, lines and exit codes out."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app

PASSING = """\
name: a row comes out as it went in
sql: CREATE STREAM s (a INTEGER)
steps:
  - {insert: s, rows: [[1, 2]]}
  - {expect: s, rows: [[1, 2]]}
"""
FAILING = """\
name: a row comes out changed
sql: CREATE STREAM s (a INTEGER)
steps:
  - {insert: s, rows: [[1, 2]]}
  - expect: s    # this stays
    rows: [[1, 3]]
  - {commit: now}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["test", *arguments])


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def test_what_passes_is_one_line_a_scenario_and_a_count(folder: Path) -> None:
    write(folder, a=PASSING, b=PASSING)
    result = run(".")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "passed    a.yaml: a row comes out as it went in",
        "passed    b.yaml: a row comes out as it went in",
        "2 passed, 0 failed",
    ]


def test_the_first_difference_is_shown_in_full_and_the_exit_code_is_one(folder: Path) -> None:
    write(folder, a=FAILING, b=PASSING)
    result = run("a.yaml", "b.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "failed    a.yaml: a row comes out changed",
        "a.yaml:5: output of s differs: 1 row expected, 1 row came out",
        "    expected            got",
        "    00:00:00.001  3  |  00:00:00.001  2",
        "passed    b.yaml: a row comes out as it went in",
        "1 passed, 1 failed",
    ]


SILENT = """
name: a minute that is not over
sql: |
  CREATE STREAM s (n INTEGER);
  CREATE VIEW per_minute AS
    SELECT STREAM FLOOR(s.ROWTIME TO MINUTE) AS m, COUNT(*) AS n FROM s GROUP BY FLOOR(s.ROWTIME TO MINUTE);
steps:
  - {insert: s, rows: [["10:00:00", 1]]}
  - {expect: per_minute, rows: [["10:01:00", "10:00:00", 1]]}
"""


def test_where_rows_are_missing_it_is_said_what_keeps_them_back(folder: Path) -> None:
    write(folder, a=SILENT)
    shown = run("a.yaml").stdout.splitlines()
    assert shown[3] == "    10:01:00  10:00:00  1  <"
    assert shown[4].startswith('    why no more rows: IDLE: Partition 0 of "S" is read to its end')
    assert "needed is 1970-01-01 10:01:00.000" in shown[4]
    assert len(shown) == 6


def test_a_file_that_cannot_be_read_is_named_with_its_place_and_the_others_are_run(folder: Path) -> None:
    write(folder, a="sql: x\nsteps:\n  - {expects: s}\n", b=PASSING)
    result = run(".")
    assert result.exit_code == 2
    assert "a.yaml:3:5: error: a step needs exactly one of" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 passed, 0 failed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.yaml"], 'file "missing.yaml" does not exist'),
        (["a.yaml", "--batch", "0"], "is not a batching"),
        (["a.yaml", "-k", "zebra"], 'no scenario matches "zebra"'),
        (["a.yaml", "--junit", "no/where.xml"], "cannot be written"),
    ],
)
def test_a_slip_in_the_arguments_exits_with_two(folder: Path, arguments: list[str], message: str) -> None:
    write(folder, a=PASSING)
    result = run(*arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_a_refused_statement_fails_its_scenario_and_is_shown_with_its_caret(folder: Path) -> None:
    write(folder, a=PASSING.replace("INTEGER", "INTEGR"), b=PASSING)
    result = run(".")
    assert result.exit_code == 1
    assert "                    ^" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 passed, 1 failed"


def test_a_pattern_picks_scenarios_by_name_or_path(folder: Path) -> None:
    write(folder, a=PASSING, b=FAILING)
    assert run(".", "-k", "AS IT WENT").stdout.splitlines()[-1] == "1 passed, 0 failed"
    assert run(".", "-k", "b.y?ml").stdout.splitlines()[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize("batch", ["1", "3", "random:5"])
def test_input_can_be_cut_into_trays(folder: Path, batch: str) -> None:
    write(folder, a=PASSING)
    assert run("a.yaml", "--batch", batch).exit_code == 0


def test_outcomes_can_be_written_as_junit(folder: Path) -> None:
    write(folder, a=PASSING, b=FAILING, c="nonsense: yes")
    assert run(".", "--junit", "out.xml").exit_code == 2
    suite = ElementTree.parse(folder / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "00:00:00.001  3  |  00:00:00.001  2" in (failure.text or "")


REWRITTEN = """\
name: a row comes out changed
sql: CREATE STREAM s (a INTEGER)
steps:
  - {insert: s, rows: [[1, 2]]}
  - expect: s    # this stays
    rows:
      - ["00:00:00.001", 2]
  - {commit: now}
"""


def test_rewriting_fills_in_what_came_out_and_leaves_the_rest(folder: Path) -> None:
    write(folder, a=FAILING, b=PASSING)
    result = run(".", "--rewrite")
    assert result.stdout.splitlines()[0] == "rewritten a.yaml: a row comes out changed"
    assert (folder / "a.yaml").read_text() == REWRITTEN
    assert (folder / "b.yaml").read_text() == PASSING


SKETCH = """\
date: 2024-01-01
sql: |
  CREATE TABLE t (k INTEGER NOT NULL, word VARCHAR(9), x DOUBLE, PRIMARY KEY (k));
  CREATE STREAM s (a INTEGER);
  CREATE VIEW v AS SELECT STREAM FLOOR(s.ROWTIME TO MINUTE) AS m, SUM(a) AS total
    FROM s GROUP BY FLOOR(s.ROWTIME TO MINUTE);
steps:
  - insert: t
    rows:
      - ["+", "10:00:00", 1, "null", 1e-9]
      - ["+", "10:00:01", 1, null, 2]
  - expect: t
  - expect_table: t
  - insert: s
    rows:
      - ["10:00:00", 1]
      - ["10:00:30", 2]
      - ["10:01:00", 4]
  - expect: v
    rows:
      - {TOTAL: 7, ROWTIME: null}
      - {TOTAL: 8, ROWTIME: null}
  - bound: s
    at: "11:00:00"
ignore: []
"""


def test_a_sketch_without_rows_becomes_a_scenario_that_passes(folder: Path) -> None:
    write(folder, a=SKETCH)
    assert run("a.yaml").exit_code == 1
    assert run("a.yaml", "--rewrite").exit_code == 0
    text = (folder / "a.yaml").read_text()
    for line in [
        '      - ["-", "10:00:01", 1, "null", 1e-09]',
        "      - [1, null, 2.0]",
        '      - {TOTAL: 3, ROWTIME: "10:01:00"}\n  - bound',
        '  - expect: v\n    rows:\n      - ["10:02:00", "10:01:00", 4]\nignore: []',
    ]:
        assert line in text
    assert run("a.yaml").exit_code == 0


EMPTY_PARTS = {
    "sql: CREATE STREAM s (n INTEGER);\nsteps: []": 0,
    "sql: CREATE STREAM s (n INTEGER);\nsteps:": 2,
    "sql: ''\nsteps: []": 0,
    "sql:\nsteps: []": 0,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: []\nignore: []\nabout: ''\nname: ''": 0,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{}]": 2,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{insert: s, rows: []}, {expect: s, rows: []}]": 0,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{insert: s, rows: [[]]}]": 1,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{insert: s, rows: [{}]}]": 0,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{expect: s, rows: [[]]}]": 1,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{sql: ''}]": 0,
    "sql: CREATE STREAM s (n INTEGER);\nsteps: [{insert: '', rows: []}]": 1,
}


@pytest.mark.parametrize(("text", "code"), EMPTY_PARTS.items())
def test_what_is_empty_has_an_outcome(folder: Path, text: str, code: int) -> None:
    (folder / "empty.yaml").write_text(text)
    result = run(str(folder / "empty.yaml"))
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
