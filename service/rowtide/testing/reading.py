"""Scenario files: YAML text to a ``Scenario``.

Everything that can be checked without the pipeline is checked here (unknown
keys, contradictory options, invalid times), so that a file with a typing error
is not mistaken for a test that passes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import yaml

from rowtide.codec.written.times import DAY_MS, ScenarioDay, parse_date, parse_duration
from rowtide.errors import StatementError
from rowtide.testing.scenario import (
    REFUSABLE,
    AdvanceWallclock,
    Commit,
    Expect,
    ExpectError,
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
    ScenarioRow,
    ScenarioStep,
    SendStatements,
    SetBound,
    SqlText,
    TextSpan,
)
from rowtide.testing.yaml_text import YamlText, line_of

SCENARIO_KEYS = ("name", "about", "date", "sql", "file", "python", "steps", "ignore")
PIPELINE_KEYS = ("sql", "file", "python")
STEP_KEYS: dict[str, tuple[str, ...]] = {
    "insert": ("partition", "rows", "raw", "raw_base64", "at"),
    "bound": ("at", "partition", "strict"),
    "expect": ("rows", "order", "tolerance"),
    "expect_table": ("rows", "order", "tolerance"),
    "expect_error": (),
    "sql": (),
    "send": (),
    "advance_wallclock": (),
    "restart": (),
    "commit": (),
}
"""The further keys of each kind of step, beside the key that names it."""

SUFFIXES = (".yaml", ".yml")

_T = TypeVar("_T")


def read_scenario(path: Path) -> Scenario:
    """Read one scenario file.

    Raises:
      StatementError: if it cannot be read, with the place in the file.
    """
    return _Reader(YamlText(path)).scenario()


class _Reader:
    """Reads one file; it reads the day before the first time."""

    def __init__(self, source: YamlText) -> None:
        self._source = source
        self._day = ScenarioDay()

    def scenario(self) -> Scenario:
        source = self._source
        root = source.root()
        fields = source.fields(root, "a scenario")
        self._known(fields, SCENARIO_KEYS, "a scenario")
        if "date" in fields:
            self._day = ScenarioDay(self._parsed(fields["date"], "date", parse_date) * DAY_MS)
        if "steps" not in fields:
            raise source.error(root, "a scenario needs steps")
        steps = fields["steps"]
        return Scenario(
            path=source.path,
            name=source.scalar(fields["name"], "name").strip() if "name" in fields else source.path.stem,
            day=self._day,
            pipeline=self._pipeline(fields, root),
            steps=tuple(self._steps(steps)),
            ignore=tuple(source.scalar(node, "a relation") for node in self._list(fields, "ignore")),
            about=source.scalar(fields["about"], "about") if "about" in fields else None,
            steps_end=_end_of(steps),
        )

    def _list(self, fields: dict[str, yaml.Node], key: str) -> Iterable[yaml.Node]:
        return self._source.items(fields[key], key) if key in fields else ()

    def _known(self, fields: dict[str, yaml.Node], keys: Iterable[str], what: str) -> None:
        allowed = list(keys)
        for key, value in fields.items():
            if key not in allowed:
                raise self._source.error(
                    value, f'{what} has no key "{key}"', f"The keys here are {', '.join(allowed)}."
                )

    def _parsed(self, node: yaml.Node, what: str, parse: Callable[[str], _T]) -> _T:
        text = self._source.scalar(node, what)
        try:
            return parse(text)
        except ValueError as error:
            raise self._source.error(node, f"{what}: {error}") from error

    def _pipeline(self, fields: dict[str, yaml.Node], root: yaml.Node) -> SqlText | PythonPipeline:
        source = self._source
        given = [key for key in PIPELINE_KEYS if key in fields]
        if len(given) != 1:
            raise source.error(root, "a scenario needs one of sql, file, python as its pipeline")
        (key,) = given
        text = source.scalar(fields[key], key)
        if key == "sql":
            return SqlText(text)
        if key == "python":
            module, colon, function = text.strip().partition(":")
            if not (module and colon and function):
                raise source.error(fields[key], f'"{text}" is not of the form module:function')
            return PythonPipeline(module, function)
        file = source.path.parent / text
        try:
            return SqlText(file.read_text(encoding="utf-8-sig"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise source.error(fields[key], f'pipeline "{file}" cannot be read: {reason}') from error

    def _steps(self, node: yaml.Node) -> Iterable[ScenarioStep]:
        before: ScenarioStep | None = None
        for item in self._source.items(node, "steps"):
            step = self._step(item)
            if isinstance(step, ExpectError) and not isinstance(before, REFUSABLE):
                raise self._source.error(
                    item, "expect_error must come directly after the insert, bound or sql that is refused"
                )
            yield step
            before = step

    def _step(self, node: yaml.Node) -> ScenarioStep:
        source = self._source
        fields = source.fields(node, "a step")
        kinds = [key for key in STEP_KEYS if key in fields]
        if len(kinds) != 1:
            raise source.error(node, "a step needs exactly one of " + ", ".join(STEP_KEYS))
        (kind,) = kinds
        self._known(fields, (kind, *STEP_KEYS[kind]), f'step "{kind}"')
        subject = source.scalar(fields[kind], kind)
        line = line_of(node)
        match kind:
            case "insert":
                return self._insert(node, fields, subject, line)
            case "bound":
                return self._bound(node, fields, subject, line)
            case "expect":
                rows, span = self._expected(node, fields)
                return Expect(subject, rows, self._ordered(fields), self._tolerance(fields), span, line)
            case "expect_table":
                rows, span = self._expected(node, fields)
                return ExpectTable(subject, rows, self._tolerance(fields), span, line)
            case "expect_error":
                return ExpectError(subject, line)
            case "sql":
                return RunSql(subject, line)
            case "send":
                return SendStatements(subject, line)
            case "advance_wallclock":
                return AdvanceWallclock(self._parsed(fields[kind], kind, parse_duration), line)
            case "restart":
                kinds_of_restart = {each.value: each for each in RestartKind}
                return Restart(self._choice(fields[kind], kind, kinds_of_restart), line)
            case _:
                self._choice(fields[kind], kind, {"now": None})
                return Commit(line)

    def _insert(
        self, node: yaml.Node, fields: dict[str, yaml.Node], relation: str, line: int
    ) -> ScenarioStep:
        source = self._source
        content = [key for key in ("rows", "raw", "raw_base64") if key in fields]
        if len(content) != 1:
            raise source.error(node, "insert needs one of rows, raw, raw_base64")
        partition = self._partition(fields) or 0
        if content == ["rows"]:
            if "at" in fields:
                raise source.error(fields["at"], "at goes with raw and raw_base64: a row carries its ROWTIME")
            return Insert(relation, partition, self._rows(fields["rows"]), line)
        at = self._parsed(fields["at"], "at", self._day.parse) if "at" in fields else None
        messages = fields[content[0]]
        each = list(source.items(messages, "raw")) if isinstance(messages, yaml.SequenceNode) else [messages]
        decode = _from_base64 if content == ["raw_base64"] else str.encode
        return InsertRaw(relation, partition, tuple(self._message(item, decode) for item in each), at, line)

    def _message(self, node: yaml.Node, decode: Callable[[str], bytes]) -> bytes | None:
        if self._source.cell(node, "a message") is None:
            return None
        return self._parsed(node, "a message", decode)

    def _bound(self, node: yaml.Node, fields: dict[str, yaml.Node], relation: str, line: int) -> ScenarioStep:
        if "at" not in fields:
            raise self._source.error(node, "bound needs at")
        rowtime = self._parsed(fields["at"], "at", self._day.parse)
        if "strict" in fields and self._choice(fields["strict"], "strict", {"true": True, "false": False}):
            rowtime += 1
        return SetBound(relation, self._partition(fields), rowtime, line)

    def _partition(self, fields: dict[str, yaml.Node]) -> int | None:
        if "partition" not in fields:
            return None
        partition = self._parsed(fields["partition"], "partition", int)
        if partition < 0:
            raise self._source.error(fields["partition"], "a partition number is 0 or more")
        return partition

    def _expected(
        self, node: yaml.Node, fields: dict[str, yaml.Node]
    ) -> tuple[tuple[ScenarioRow, ...] | None, TextSpan]:
        if "rows" in fields:
            rows = fields["rows"]
            return self._rows(rows), TextSpan(rows.start_mark.index, _end_of(rows))
        end = _end_of(node)
        return None, TextSpan(end, end)

    def _ordered(self, fields: dict[str, yaml.Node]) -> bool:
        if "order" not in fields:
            return True
        return self._choice(fields["order"], "order", {"any": False, "exact": True})

    def _tolerance(self, fields: dict[str, yaml.Node]) -> float | None:
        if "tolerance" not in fields:
            return None
        tolerance = self._parsed(fields["tolerance"], "tolerance", float)
        if not 0 <= tolerance < 1:
            raise self._source.error(fields["tolerance"], "a relative tolerance is at least 0 and below 1")
        return tolerance

    def _choice(self, node: yaml.Node, what: str, choices: dict[str, _T]) -> _T:
        text = self._source.scalar(node, what).strip().lower()
        if text not in choices:
            raise self._source.error(node, f'{what} cannot be "{text}"', f"It is {' or '.join(choices)}.")
        return choices[text]

    def _rows(self, node: yaml.Node) -> tuple[ScenarioRow, ...]:
        return tuple(self._row(item) for item in self._source.items(node, "rows"))

    def _row(self, node: yaml.Node) -> ScenarioRow:
        source = self._source
        if isinstance(node, yaml.MappingNode):
            fields = source.fields(node, "a row")
            return NamedRow(
                tuple((name, source.column(value, f'column "{name}"')) for name, value in fields.items()),
                line_of(node),
            )
        if isinstance(node, yaml.SequenceNode):
            return ListRow(tuple(source.column(item, "a column") for item in node.value), line_of(node))
        raise source.error(node, "a row must be a list or a mapping")


def _end_of(node: yaml.Node) -> int:
    """Return the end of a node's text; the end mark of a block node itself is at the next token."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end_of(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"invalid base64: {error}") from error


def find_scenarios(paths: Iterable[Path]) -> list[Path]:
    """Return the scenario files that paths name: each file, and every YAML file below each folder.

    Raises:
      StatementError: if a path does not exist, or a folder has no YAML file below it.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            below = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
            if not below:
                raise StatementError(f'folder "{path}" has no scenario file (.yaml) below it')
            found.update(dict.fromkeys(below))
        elif path.exists():
            found[path] = None
        else:
            raise StatementError(f'file "{path}" does not exist')
    return list(found)
