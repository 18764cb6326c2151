"""The text driver: runs a model from lines of text and collects what it prints.

A line is ``INPUT,OPCODE,value,...`` or, if the model has an input called "",
``OPCODE,value,...``; an empty value is NULL and there are no quotes. A command
of the model takes the words of its line. The unit is drained after every line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rowtide.engine.errors import ModelError
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import Rowop
from rowtide.engine.unit.unit import Unit
from rowtide.rows.rowop import Opcode

Command = Callable[[list[str]], None]
"""Handles the words that follow the name of the command."""


class TextDriver:
    """Runs one model from lines of text and collects what it prints.

    ``inputs`` are the labels and commands by the name that a line starts with. A line is
    ``INPUT,OPCODE,value,...`` or, for an input called "", ``OPCODE,value,...``; an empty value is NULL.
    """

    def __init__(self, unit: Unit, inputs: Mapping[str, Label | Command] | None = None) -> None:
        self._unit = unit
        self.inputs: dict[str, Label | Command] = dict(inputs or {})
        self._printed: list[str] = []

    def print(self, line: object) -> None:
        """Add one or more lines to the output."""
        self._printed.extend(str(line).split("\n"))

    def show(self, *labels: Label) -> None:
        """Print every rowop that reaches one of ``labels``."""
        for label in labels:
            label.then(self.print, name=f"{label.name}.print")

    def feed(self, line: str) -> list[str]:
        """Run one line and return the lines that it printed.

        Raises:
          ModelError: if the input or the opcode does not exist.
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
                f'input "{words[1]}" does not exist', hint=f"The inputs are {', '.join(self.inputs)}."
            )
        if isinstance(target, Label):
            opcode = opcode_named(words[1]) if len(words) > 1 else Opcode.NOP
            target.send(opcode, target.row_type.parse(words[2:]))
        else:
            target(words[1:])
        return self.settle()

    def settle(self) -> list[str]:
        """Run the queued rowops and return the lines that have been printed since the last call.

        Call it after ``feed`` has raised an error, so that output of one line does not appear under the
        next one.

        Raises:
          ExecutionError: if a label raised; the queue is empty then.
        """
        self._unit.drain()
        printed, self._printed = self._printed, []
        return printed

    def replay(self, transcript: Iterable[str]) -> list[str]:
        """Run the lines ``> input`` of a transcript and return it with what the model prints now.

        The result equals ``transcript`` if the model behaves as recorded. Lines that start with ``#`` are
        kept.
        """
        given: list[str] = []
        for line in transcript:
            if line.startswith("#"):
                given.append(line)
            elif line.startswith("> "):
                given += [line, *self.feed(line.removeprefix("> "))]
        return given

    def run(self, lines: Iterable[str]) -> list[str]:
        """Run lines and return everything that they printed."""
        return [printed for line in lines for printed in self.feed(line)]


def opcode_named(name: str) -> Opcode:
    """Return the opcode called ``name``, with or without ``OP_``.

    Raises:
      ModelError: if it does not exist.
    """
    try:
        return Opcode[name.removeprefix("OP_")]
    except KeyError as error:
        raise ModelError(f'opcode "{name}" does not exist') from error


def printed_in_full(rowop: Rowop) -> str:
    """Return a rowop as label, opcode and all values separated by commas, as a server answers a client."""
    return f"{rowop.label.name},OP_{rowop.opcode.name},{rowop.label.row_type.format_csv(rowop.row)}"
