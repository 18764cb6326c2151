"""docs/reference/command-line.md, generated from the commands.

``python -m rowtide.cli.pages.reference > docs/reference/command-line.md``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from rowtide.cli.lazy_commands import LazyCommand

if TYPE_CHECKING:
    from typer.core import TyperCommand

HEAD = """\
# The command line

`rowtide` is the only entry point. Every command has `--help`. `python -m rowtide.cli.pages.reference` writes this page,
and a test checks that it is current.

Exit codes: 0 done; 1 the answer is no (a test failed, a difference was found); 2 a usage or input error, with
what to do; 3 a dependency is down, or another process has taken the pipeline. Errors name the file, line and
column, and show the statement with a caret.

`rowtide --install-completion` lets the shell complete commands, options, their choices and files with Tab, in bash
(4.4 or newer), zsh, fish and PowerShell: it writes a script to the home folder, and a line to the start file of the
shell. Then open a new terminal. `rowtide --show-completion` prints the script instead.
"""


def command_page(app: typer.Typer) -> str:
    """Return the page as Markdown: every command, in the order of its name."""
    return HEAD + "".join(_section(path, command) for path, command in commands(app))


def commands(app: typer.Typer) -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command that is not a group, with its full name."""
    yield from _under("rowtide", typer.main.get_command(app))


def _under(path: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, LazyCommand):
        command = command.load()
    if isinstance(command, TyperGroup):
        for name in sorted(command.commands):
            yield from _under(f"{path} {name}", command.commands[name])
    else:
        yield path, command  # type: ignore[misc]  # what a group holds is a group or a command


def _section(path: str, command: TyperCommand) -> str:
    usage, rows = [path], []
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            shown = parameter.metavar or (parameter.name or "").upper()
            usage.append(shown if parameter.required else f"[{shown}]")
        elif isinstance(parameter, TyperOption) and not parameter.hidden:
            shown = ", ".join((*parameter.opts, *parameter.secondary_opts))
            if not parameter.is_flag:
                shown += f" {_metavar(parameter)}"
        else:
            continue
        rows.append(f"| `{_cell(shown)}` | {_meaning(parameter)} |\n")
    lines = [f"\n## {path}\n\n"]
    about = (command.help or "").split("\n\n")
    lines.extend(" ".join(paragraph.split()) + "\n\n" for paragraph in about)
    lines.append(f"```text\n{' '.join(usage)}{' [OPTIONS]' if len(rows) > len(usage) - 1 else ''}\n")
    if command.epilog:
        lines.append(f"\n{command.epilog}\n")
    lines.append("```\n")
    if rows:
        lines.append("\n| argument or option | meaning |\n|---|---|\n")
        lines.extend(rows)
    return "".join(lines)


def _metavar(parameter: TyperOption) -> str:
    """Return the placeholder of an option's value: as declared, or its choices, or its name."""
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter.default, Enum):
        return "|".join(str(choice.value) for choice in type(parameter.default))
    return (parameter.name or "value").upper()


def _meaning(parameter: TyperArgument | TyperOption) -> str:
    meaning = _cell(parameter.help or "")
    default = parameter.default
    if parameter.required or default is None or default in (False, [], ()):
        return meaning
    return f"{meaning} Default: `{getattr(default, 'value', default)}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from rowtide.cli.main import app as whole

    sys.stdout.write(command_page(whole))
