"""The text driver: runs a model from lines of text and collects what it prints.

A line is ``INPUT,OPCODE,value,...`` or, if the model has one input called "",
``OPCODE,value,...``; an empty value is NULL and nothing is quoted. Commands of
the model's own take the words of their line. After every line the unit is
drained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rowtide.engine.errors import ModelError
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import Rowop
from rowtide.engine.unit.unit import Unit
from rowtide.rows.rowop import Opcode

Command = Callable[[list[str]], None]
"""Works off the words that follow the command's name."""


class TextDriver:
    """Feeds lines to the labels and commands of one model and keeps what it prints."""

    def __init__(self, unit: Unit, inputs: Mapping[str, Label | Command] | None = None) -> None:
        self._unit = unit
        self.inputs: dict[str, Label | Command] = dict(inputs or {})
        self._printed: list[str] = []

    def print(self, line: object) -> None:
        """Add a line, or several, to the output."""
        self._printed.extend(str(line).split("\n"))

    def show(self, *labels: Label) -> None:
        """Print every rowop that reaches any of ``labels``."""
        for label in labels:
            label.then(self.print, name=f"{label.name}.print")

    def feed(self, line: str) -> list[str]:
        """Work off one line and give what was printed meanwhile.

        Raises:
          ModelError: if the line names no input or opcode.
          FieldValueError: if a value does not fit its field.
          ExecutionError: if a label raised.
        """
        words = [word.strip() for word in line.split(",")]
        target = self.inputs.get(words[0])
        if target is None:
            words.insert(0, "")
            target = self.inputs.get("")
        if target is None:
            raise ModelError(
                f'input "{words[1]}" does not exist', hint=f"There are {', '.join(self.inputs)}."
            )
        if isinstance(target, Label):
            opcode = opcode_named(words[1]) if len(words) > 1 else Opcode.NOP
            target.send(opcode, target.row_type.parse(words[2:]))
        else:
            target(words[1:])
        return self.settle()

    def settle(self) -> list[str]:
        """Run what is queued, and give what was printed and not yet given.

        For whoever goes on after ``feed`` has raised: what came of a line must not show under the next one.

        Raises:
          ExecutionError: if a label raised; nothing is queued any more.
        """
        self._unit.drain()
        printed, self._printed = self._printed, []
        return printed

    def replay(self, transcript: Iterable[str]) -> list[str]:
        """Give a transcript anew: what the model prints now under each line ``> input`` of it.

        Equal to ``transcript`` if the model still does what was written down; lines of ``#`` are kept.
        """
        given: list[str] = []
        for line in transcript:
            if line.startswith("#"):
                given.append(line)
            elif line.startswith("> "):
                given += [line, *self.feed(line.removeprefix("> "))]
        return given

    def run(self, lines: Iterable[str]) -> list[str]:
        """Work off lines and give everything that was printed."""
        return [printed for line in lines for printed in self.feed(line)]


def opcode_named(name: str) -> Opcode:
    """Give the opcode called ``name``, with or without ``OP_``.

    Raises:
      ModelError: if there is none.
    """
    try:
        return Opcode[name.removeprefix("OP_")]
    except KeyError as error:
        raise ModelError(f'opcode "{name}" does not exist') from error


def printed_in_full(rowop: Rowop) -> str:
    """Give a rowop as label, opcode and all values separated by commas, as a server answers a client."""
    return f"{rowop.label.name},OP_{rowop.opcode.name},{rowop.label.row_type.format_csv(rowop.row)}"
