"""Commands that are imported when they are called, so that other commands and the help start fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from rowtide.cli.help_format import App, Group


class LazyCommand(TyperCommand):
    """A command or a group of commands that is not imported yet.

    Its module has the group as ``app``, or a function with the command's name and the last line of its help
    as ``EXAMPLE``.

    Args:
      name: the name of the command.
      summary: the first paragraph of its help, which the list of commands shows.
      module: the module in ``rowtide.cli``, with its room.
    """

    def __init__(self, name: str, summary: str, module: str) -> None:
        super().__init__(name, help=summary)
        self._function = name.replace("-", "_")
        self._module = f"rowtide.cli.{module}"

    def load(self) -> TyperCommand | TyperGroup:
        """Return the command itself."""
        module = import_module(self._module)
        if hasattr(module, "app"):
            return typer.main.get_group(module.app)
        alone = App(add_completion=False)
        alone.command(self.name, epilog=module.EXAMPLE)(getattr(module, self._function))
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return a context of the command itself, which its group then invokes."""
        return self.load().make_context(*args, **kwargs)


class LazyGroup(Group):
    """A group with further commands that are imported when they are called.

    ``listed`` has the room and the summary of each command by name, in the order of the help. The module of a
    command has the name of the command, unless ``modules`` has another one.
    """

    listed: ClassVar[Mapping[str, tuple[str, str]]]
    modules: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name, (room, summary) in self.listed.items():
            module = self.modules.get(name, name.replace("-", "_"))
            self.add_command(LazyCommand(name, summary, f"{room}.{module}"))
