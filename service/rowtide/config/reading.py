"""Read settings from a TOML file and from environment variables, which override the file.

``ROWTIDE_COMMIT__INTERVAL_MS`` is ``interval_ms`` of ``[commit]``. In the same
way, settings replace options of servers, streams and tables without a change of
the SQL. A value in the file may refer to a secret: ``{ env = "PGPASSWORD" }`` or
``{ file = "/run/secrets/password" }``. The value is never shown.
"""

from __future__ import annotations

import os
import re
import tomllib
import typing
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rowtide.config.settings import (
    ENV_PREFIX,
    ENV_SEPARATOR,
    KIND_NAMES,
    OBJECTS,
    SECTIONS,
    SETTINGS,
    Secret,
    Setting,
    Settings,
    nearest,
    option_text,
)
from rowtide.errors import SourceSpan, StatementError


def load_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read settings from a TOML file, if any, and from environment variables, which override the file.

    Args:
      path: the file; None: defaults and environment only.
      environment: by default that of the process.

    Raises:
      StatementError: the file cannot be read, or a name or value is invalid.
    """
    env = os.environ if environment is None else environment
    source = _File(path)
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    objects: dict[str, dict[str, dict[str, str | Secret]]] = {kind: {} for kind in OBJECTS}
    for section, content in source.content.items():
        if section in values:
            for name, value in source.table(content, section).items():
                setting = _find(section, name, source)
                values[section][name] = _typed(setting, source.resolved(value, section, name, env), source)
        elif section in objects:
            for name, options in source.table(content, section).items():
                held = objects[section].setdefault(name.upper(), {})
                for option, value in source.table(options, section, name).items():
                    held[option] = option_text(source.resolved(value, f"{section}.{name}", option, env))
        else:
            raise source.error(
                f'section "{section}" does not exist', section, None, nearest(section, [*values, *objects])
            )
    for variable, text in env.items():
        section, *names = variable.removeprefix(ENV_PREFIX).lower().split(ENV_SEPARATOR)
        if not variable.startswith(ENV_PREFIX) or not names:
            continue
        if section in objects and len(names) >= 2:
            # The name of a variable cannot have the dots of a client option.
            option = ".".join(names[1:])
            objects[section].setdefault(names[0].upper(), {})[option] = Secret(text)
        elif section in values and len(names) == 1:
            setting = _find(section, names[0], variable)
            values[section][names[0]] = _typed(setting, text, variable)
        else:
            raise StatementError(
                f'environment variable "{variable}" is not a setting', hint=_hint_for(variable, section)
            )
    hints = typing.get_type_hints(Settings)
    built: dict[str, Any] = {section: hints[section](**given) for section, given in values.items()}
    built.update(objects)
    return Settings(**built, file=None if path is None else str(path))


def _hint_for(variable: str, section: str) -> str:
    """Return the hint for a variable that is not a setting: the nearest one of its section, or the sections."""
    if section in OBJECTS:
        return f"Write {ENV_PREFIX}{section.upper()}{ENV_SEPARATOR}NAME{ENV_SEPARATOR}OPTION."
    sections = [*SECTIONS, *OBJECTS]
    near = get_close_matches(section, sections, n=1)
    known = [each.env for each in SETTINGS if each.section in near]
    if known:
        return nearest(variable, known)
    # All variables have one beginning, so that the nearest of all may have nothing else in common.
    names = ", ".join(f"{ENV_PREFIX}{each.upper()}" for each in near or sections)
    return f"The first part names a section: {names}."


class _File:
    """The TOML file: its content, and the place of a name in it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.content: dict[str, Any] = {}
        self._text = ""
        if path is None:
            return
        try:
            self._text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise StatementError(f'file "{path}" cannot be read: {error.strerror}') from error
        except UnicodeDecodeError as error:
            raise StatementError(f'file "{path}" is not UTF-8 text') from error
        try:
            self.content = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            located = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
            raise StatementError(
                f"invalid TOML: {located[1] if located else error}",
                span=SourceSpan(int(located[2]), int(located[3])) if located else None,
                file=str(path),
                text=self._text,
            ) from error

    def error(self, message: str, section: str, name: str | None, hint: str | None = None) -> StatementError:
        """Return an error about a section, or a name in it, with its place."""
        place = self._place(section, name)
        file = None if self.path is None else str(self.path)
        return StatementError(message, span=place, file=file, text=self._text, hint=hint)

    def table(self, value: object, *path: str) -> Mapping[str, Any]:
        """Check that a value is a table.

        Raises:
          StatementError.
        """
        if not isinstance(value, dict):
            section, *rest = path
            name = rest[0] if rest else None
            raise self.error(f'"{".".join(path)}" is a value, not a section', section, name)
        return value

    def resolved(self, value: object, section: str, name: str, env: Mapping[str, str]) -> object:
        """Return the value that a reference to a secret names, or the value itself if it is plain.

        Raises:
          StatementError: the secret does not exist, or the reference is invalid.
        """
        if not isinstance(value, dict):
            return value
        if list(value) == ["env"] and isinstance(value["env"], str):
            if value["env"] not in env:
                raise self.error(f'environment variable "{value["env"]}" is not set', section, name)
            return Secret(env[value["env"]])
        if list(value) == ["file"] and isinstance(value["file"], str):
            try:
                return Secret(Path(value["file"]).read_text(encoding="utf-8").rstrip("\r\n"))
            except (OSError, UnicodeDecodeError) as error:
                raise self.error(f'file "{value["file"]}" cannot be read', section, name) from error
        raise self.error(
            f'value of "{name}" is neither plain nor a reference to a secret',
            section,
            name,
            'Write a value, or { env = "NAME" }, or { file = "/path" }.',
        )

    def _place(self, section: str, name: str | None) -> SourceSpan | None:
        """Search the text for the line of a section or name, because the TOML parser does not report it."""
        current, wanted = "", section.lower()
        for number, line in enumerate(self._text.splitlines(), 1):
            if header := re.match(r"\s*\[\s*([^\]]+?)\s*\]", line):
                current = header[1].replace('"', "").lower()
                if name is None and current.split(".")[0] == wanted:
                    return SourceSpan(number, header.start(1) + 1, len(header[1]))
            elif key := re.match(r'\s*("?)([^"=]+?)\1\s*=', line):
                path = f"{current}.{key[2]}".strip(".").lower()
                if path == f"{wanted}.{name}".lower() or (name is None and path.split(".")[0] == wanted):
                    return SourceSpan(number, key.start(2) + 1, len(key[2]))
        return None


def _find(section: str, name: str, origin: _File | str) -> Setting:
    for setting in SETTINGS:
        if setting.section == section and setting.name == name:
            return setting
    known = [setting for setting in SETTINGS if setting.section == section]
    if isinstance(origin, str):
        message, names = f'environment variable "{origin}" is not a setting', [each.env for each in known]
        raise StatementError(message, hint=nearest(origin, names))
    names = [each.name for each in known]
    raise origin.error(f'setting "{name}" of [{section}] does not exist', section, name, nearest(name, names))


def _typed(setting: Setting, value: object, origin: _File | str) -> object:
    """Convert a value to the setting's type. Text of a variable or secret is parsed."""
    try:
        typed = _read(setting.kind, value)
        if setting.choices and typed not in setting.choices:
            raise ValueError(f"it must be one of {', '.join(setting.choices)}")
        if setting.at_least is not None and isinstance(typed, int | float) and not typed >= setting.at_least:
            raise ValueError(f"it must be at least {setting.at_least:g}")
    except ValueError as error:
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        what = f'"{setting.name}" of [{setting.section}]' if isinstance(origin, _File) else f'"{origin}"'
        message = f"{what} is {shown}: {error}"
        if isinstance(origin, _File):
            raise origin.error(message, setting.section, setting.name) from error
        raise StatementError(message) from error
    return typed


def _read(kind: type, value: object) -> object:
    text = value.reveal() if isinstance(value, Secret) else value
    if kind is Secret and isinstance(text, str):
        return Secret(text)
    if kind is str and isinstance(text, str):
        return text
    if kind is float and isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    if kind is int and isinstance(text, int) and not isinstance(text, bool):
        return text
    if kind is bool and (isinstance(text, bool) or text in ("true", "false")):
        return text in (True, "true")
    if kind in (int, float) and isinstance(text, str):
        try:
            return kind(text)
        except ValueError:
            pass
    raise ValueError(f"it must be {KIND_NAMES[kind]}")
