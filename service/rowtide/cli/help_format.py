"""How ``--help`` shows a command: flags without a value, paragraphs wrapped to the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


def _joined(text: str | None) -> str | None:
    """Return a help text with each paragraph on one line: the terminal wraps it."""
    if text is None:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _without_values(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag and each.metavar is None:
            each.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose flags are shown as ``--json``, not as ``--json <bool>``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _joined(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a name for their value."""
        return _without_values(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, shown in the same way."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a name for their value."""
        return _without_values(super().get_params(ctx))


class App(typer.Typer):
    """A Typer application that makes its commands with this help."""

    def command(self, name: str | None = None, **kwargs: Any) -> Callable[[CommandFunction], CommandFunction]:
        """Return the decorator that registers a command."""
        return super().command(name, cls=Command, **kwargs)
