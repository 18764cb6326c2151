"""A session that drives a pipeline's model by lines of text, at a rowtime that lines set.

``INPUT,OPCODE,value,...`` is a rowop, as in the text driver; an empty value is
NULL. ``at,TIME`` advances to a rowtime and runs the events until then; ``table,NAME`` shows the rows
of a table; ``help`` lists inputs and commands. Rows of outputs are printed in the same form, so that
they can be fed to another model. A row or an event that fails is reported and has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from rowtide.engine.driver import opcode_named
from rowtide.engine.errors import ModelError
from rowtide.engine.loading import model_maker
from rowtide.engine.model import Sent
from rowtide.engine.recoverable import ModelFailure, RecoverableModel, TakenRowop
from rowtide.engine.row_type import RowType
from rowtide.engine.values import type_name
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.recovery.begin import parse_time

AT, TABLE, HELP = "at", "table", "help"
MOST_EVENTS = 1_000_000
"""The most events that one line may run, so that a model that always schedules more cannot hang the
server."""


class ModelSession:
    """One running model, fed with lines; see the module docstring.

    Args:
      path: ``package.module:Class``, as in CREATE MODEL.
      options: the model's options, as text.

    Raises:
      ModelError: if the model cannot be found, called or wired.
    """

    def __init__(self, path: str, options: Mapping[str, str] | None = None) -> None:
        name = path.rpartition(":")[2]
        make = model_maker(name, path, options or {})
        sample = make()
        self._input_types = sample.input_types
        self._output_types = sample.output_types
        self._offers_tables = bool(sample.tables)
        self._model = RecoverableModel(make, lambda sent: None)
        self._rowtime = EARLIEST
        self._commands: dict[str, Callable[[list[str]], list[str]]] = {
            AT: self._go_to,
            TABLE: self._show,
            HELP: self._explain,
        }

    @property
    def inputs(self) -> list[str]:
        """The first words of its lines."""
        return [*self._input_types, *self._commands]

    def feed(self, line: str) -> list[str]:
        """Process a line and return what is printed.

        Raises:
          ModelError: if the line is invalid, or the model failed at it; no state has changed.
          FieldValueError: if a value does not fit its field; no state has changed.
          StatementError: if a time cannot be read.
        """
        words = [word.strip() for word in line.split(",")]
        row_type = self._input_types.get(words[0])
        if row_type is not None:
            return self._take(words[0], row_type, words[1:])
        command = self._commands.get(words[0])
        if command is None:
            raise ModelError(
                f'input "{words[0]}" does not exist', hint=f"There are {', '.join(self.inputs)}."
            )
        return command(words[1:])

    def settle(self) -> list[str]:
        """Return an empty list, because a line is processed as a whole or not at all."""
        return []

    def _take(self, name: str, row_type: RowType, words: list[str]) -> list[str]:
        opcode = opcode_named(words[0] if words else "")
        row = row_type.parse(words[1:])
        try:
            sent = self._model.take(TakenRowop(name, opcode, row, self._rowtime))
        except ModelFailure as error:
            raise ModelError(f"the model failed and is unchanged: {error}") from error
        return [self._printed(each) for each in sent]

    def _go_to(self, words: list[str]) -> list[str]:
        # Times have no decimal comma.
        to = parse_time(",".join(words))
        if to < self._rowtime:
            raise ModelError(f"rowtime does not go back: it is {_time(self._rowtime)}")
        printed: list[str] = []
        for _ in range(MOST_EVENTS):
            due = self._model.next_event
            if due is None or due > to:
                self._rowtime = to
                return printed
            self._rowtime = due
            printed.append(f"{AT},{_time(due)}")
            try:
                printed += [self._printed(each) for each in self._model.run_event()]
            except ModelFailure as error:
                printed.append(f"error: the model failed at the event, and is as before: {error}")
        printed.append(f"error: {MOST_EVENTS} events have run; it is {_time(self._rowtime)}")
        return printed

    def _show(self, words: list[str]) -> list[str]:
        tables = self._model.tables
        name = ",".join(words)
        if name not in tables:
            there = f"There are {', '.join(tables)}." if tables else "The model offers none."
            raise ModelError(f'table "{name}" does not exist', hint=there)
        table = tables[name]
        return [f"{name},{table.row_type.format_csv(row)}" for row in table]

    def _explain(self, words: list[str]) -> list[str]:
        def fields(row_type: RowType) -> str:
            return "".join(f",{name} {type_name(kind)}" for name, kind in row_type.items())

        return [
            *(f"input {name},INSERT|DELETE{fields(of)}" for name, of in self._input_types.items()),
            *(f"output {name},OP_INSERT|OP_DELETE{fields(of)}" for name, of in self._output_types.items()),
            *(f"table {name}{fields(table.row_type)}" for name, table in self._model.tables.items()),
            f"{AT},TIME goes to a rowtime (UTC, or ms) and runs the events until then",
            *([f"{TABLE},NAME shows the rows of a table"] if self._offers_tables else []),
        ]

    def _printed(self, sent: Sent) -> str:
        row_type = self._output_types[sent.output]
        return f"{sent.output},OP_{sent.opcode.name},{row_type.format_csv(sent.row)}"


def _time(rowtime: int) -> str:
    if rowtime == EARLIEST:
        return "before all time"
    text = datetime.fromtimestamp(rowtime // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{rowtime % 1000:03}" if rowtime % 1000 else text
