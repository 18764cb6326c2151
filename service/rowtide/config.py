"""Settings: values that differ between machines. Everything else is in the pipeline's SQL.

Every setting is declared once, as a field below: its name, type, default,
meaning and limit. Values come from a TOML file, and environment variables
override the file: ``ROWTIDE_COMMIT__INTERVAL_MS`` is ``interval_ms`` of
``[commit]``. In the same way, settings replace options of servers, streams
and tables without a change of the SQL.

A value in the file may refer to a secret: ``{ env = "PGPASSWORD" }`` or
``{ file = "/run/secrets/password" }``. The value is never shown.

``python -m rowtide.config > docs/reference/configuration.md`` writes the
reference.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rowtide import config_texts
from rowtide.errors import SourceSpan, StatementError

ENV_PREFIX = "ROWTIDE_"
ENV_SEPARATOR = "__"
"""Separates section and setting. Names contain single underscores."""

HIDDEN = "***"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is never shown. ``reveal`` returns it."""

    _text: str

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


def _means(
    meaning: str, *, at_least: float | None = None, choices: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return the metadata of a setting: its meaning, a fragment for the reference, and its limits."""
    return {"meaning": meaning, "at_least": at_least, "choices": choices}


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The pipeline itself."""

    name: str | None = field(
        default=None,
        metadata=_means(
            "name under which positions are stored; default: the name of the SQL file without its suffix"
        ),
    )


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The running service."""

    listen: str = field(
        default="127.0.0.1:8080",
        metadata=_means("host and port of the API: status, queries, snapshots; also health and metrics"),
    )
    monitoring_listen: str | None = field(
        default=None,
        metadata=_means(
            "host and port of a second listener that has only `/healthz`, `/readyz` and `/metrics`, for probes "
            "and Prometheus; by default there is none. The chart and the compose file use port 8081"
        ),
    )
    tokens_file: str | None = field(
        default=None,
        metadata=_means(
            "file with a line `NAME ROLE TOKEN` for each caller of the API; required unless `listen` is a "
            "loopback address. See [Secure the API](../howto/secure-the-api.md)"
        ),
    )
    tls_cert_file: str | None = field(
        default=None,
        metadata=_means(
            "PEM file with the certificate of the API and its chain; with it the API speaks HTTPS"
        ),
    )
    tls_key_file: str | None = field(
        default=None, metadata=_means("PEM file with the key of that certificate, without a password")
    )
    allowed_hosts: str | None = field(
        default=None,
        metadata=_means(
            "names, separated by commas, that requests may have in their header Host beside those of this "
            "machine; by default none at a loopback address, and any elsewhere"
        ),
    )
    allow_anonymous: bool = field(
        default=False,
        metadata=_means(
            "serve the API without tokens although other machines can reach it: something else must keep "
            "strangers out"
        ),
    )


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """When output and positions are committed: as soon as one of these is reached."""

    interval_ms: int = field(
        default=1000,
        metadata=_means(
            "longest time between two commits, in ms; the first commit after a start does not wait for it",
            at_least=1,
        ),
    )
    max_rows: int = field(
        default=200_000, metadata=_means("maximum number of messages between two commits", at_least=1)
    )
    max_bytes: int = field(
        default=128 * 1024 * 1024,
        metadata=_means("maximum number of message bytes between two commits", at_least=1),
    )


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The database of the checkpoint, and how often operator state is stored in it."""

    url: Secret | None = field(
        default=None,
        metadata=_means(
            "database of a pipeline without foreign tables; other pipelines use the database of their tables"
        ),
    )
    snapshot_interval_s: float = field(
        default=60.0,
        metadata=_means("longest time between two snapshots, in seconds; 0: no limit by time", at_least=0),
    )
    snapshot_rows: int = field(
        default=5_000_000,
        metadata=_means(
            "maximum number of messages between two snapshots; 0: no limit by number", at_least=0
        ),
    )


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Limits of memory, at which the service stops reading, and of a query over HTTP."""

    held_rows: int = field(
        default=2_000_000,
        metadata=_means("maximum number of rows that operators hold before reading pauses", at_least=1),
    )
    held_bytes: int = field(
        default=512 * 1024 * 1024,
        metadata=_means(
            "maximum bytes of held rows before reading pauses; a row counts as the mean message of its stream",
            at_least=1,
        ),
    )
    queue_messages: int = field(
        default=100_000,
        metadata=_means(
            "maximum number of messages of one stream that are read and wait for the engine", at_least=1
        ),
    )
    queue_bytes: int = field(
        default=64 * 1024 * 1024,
        metadata=_means("maximum bytes of one stream that are read and wait for the engine", at_least=1),
    )
    query_s: float = field(
        default=30.0,
        metadata=_means(
            "seconds in which a query of the API must have processed the rows that exist when it starts; a query "
            "that follows the pipeline has no limit of time after that",
            at_least=0.1,
        ),
    )
    query_bytes: int = field(
        default=256 * 1024 * 1024,
        metadata=_means(
            "bytes that a query of the API may take beyond a copy of the state that it reads, in a process of "
            "its own; up to 8 queries run at a time",
            at_least=1024 * 1024,
        ),
    )
    query_rows: int = field(
        default=1_000_000,
        metadata=_means("maximum rows of a query of the API that does not follow the pipeline", at_least=1),
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error."""

    level: str = field(
        default="info",
        metadata=_means("lowest level that is written", choices=("debug", "info", "warning", "error")),
    )
    format: str = field(
        default="auto",
        metadata=_means(
            "text for people, json for programs; auto: text on a terminal, else json",
            choices=("auto", "text", "json"),
        ),
    )


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Files that a backfill on Spark needs."""

    jars: str | None = field(
        default=None,
        metadata=_means(
            "folder with the jars of Spark's Kafka connector, in PySpark's version, and of its dependencies; "
            "default: they are downloaded once from Maven Central"
        ),
    )


OptionValues = Mapping[str, str | Secret]
"""Options of one server, stream or table, by name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. ``servers``, ``streams`` and ``tables`` map folded names to options that replace those of SQL."""

    pipeline: PipelineSettings = PipelineSettings()
    service: ServiceSettings = ServiceSettings()
    commit: CommitSettings = CommitSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    limits: LimitsSettings = LimitsSettings()
    log: LogSettings = LogSettings()
    spark: SparkSettings = SparkSettings()
    servers: Mapping[str, OptionValues] = field(default_factory=dict)
    streams: Mapping[str, OptionValues] = field(default_factory=dict)
    tables: Mapping[str, OptionValues] = field(default_factory=dict)
    file: str | None = None

    def options(self, kind: str, name: str, given: Mapping[str, str]) -> dict[str, str]:
        """Return the effective options of one object, with revealed secrets.

        Args:
          kind: "servers", "streams" or "tables".
          name: the object's name as the catalog folds it.
          given: the options in the SQL.
        """
        replaced: Mapping[str, OptionValues] = getattr(self, kind)
        merged = dict(given)
        for option, value in replaced.get(name.upper(), {}).items():
            merged[option] = value.reveal() if isinstance(value, Secret) else value
        return merged

    def check_names(self, kind: str, known: Sequence[str]) -> None:
        """Refuse options for objects that the pipeline does not have.

        Raises:
          StatementError: names the first one, and the nearest existing name.
        """
        replaced: Mapping[str, OptionValues] = getattr(self, kind)
        folded = [name.upper() for name in known]
        for name in replaced:
            if name not in folded:
                raise StatementError(
                    f'{kind.removesuffix("s")} "{name}" of the configuration is not in the pipeline',
                    file=self.file,
                    hint=_nearest(name, folded),
                )


OBJECTS = {
    "servers": "options of CREATE SERVER",
    "streams": "options of CREATE FOREIGN STREAM",
    "tables": "options of CREATE FOREIGN TABLE",
}
"""Sections with a subsection for each object. Their options replace those in SQL."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting, for reading values and for the reference."""

    section: str
    name: str
    kind: type
    default: object
    meaning: str
    at_least: float | None
    choices: tuple[str, ...]

    @property
    def env(self) -> str:
        """The environment variable."""
        return f"{ENV_PREFIX}{self.section}{ENV_SEPARATOR}{self.name}".upper()


def _declared() -> Iterator[Setting]:
    for section, kind in typing.get_type_hints(Settings).items():
        if not dataclasses.is_dataclass(kind):
            continue
        hints = typing.get_type_hints(kind)
        for each in dataclasses.fields(kind):
            yield Setting(section, each.name, _plain(hints[each.name]), each.default, **each.metadata)


def _plain(hint: Any) -> type:
    """Return the type of a setting that may be None."""
    if isinstance(hint, types.UnionType):
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
    kind: type = hint
    return kind


SETTINGS: tuple[Setting, ...] = tuple(_declared())
"""Every setting, in the order of the reference."""

_SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))


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
    values: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
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
                    held[option] = _text(source.resolved(value, f"{section}.{name}", option, env))
        else:
            raise source.error(
                f'section "{section}" does not exist', section, None, _nearest(section, [*values, *objects])
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
            known = [each.env for each in SETTINGS]
            raise StatementError(
                f'environment variable "{variable}" is not a setting', hint=_nearest(variable, known)
            )
    hints = typing.get_type_hints(Settings)
    built: dict[str, Any] = {section: hints[section](**given) for section, given in values.items()}
    built.update(objects)
    return Settings(**built, file=None if path is None else str(path))


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
            told = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
            raise StatementError(
                f"invalid TOML: {told[1] if told else error}",
                place=SourceSpan(int(told[2]), int(told[3])) if told else None,
                file=str(path),
                text=self._text,
            ) from error

    def error(self, message: str, section: str, name: str | None, hint: str | None = None) -> StatementError:
        """Return an error about a section, or a name in it, with its place."""
        place = self._place(section, name)
        file = None if self.path is None else str(self.path)
        return StatementError(message, place=place, file=file, text=self._text, hint=hint)

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
        raise StatementError(message, hint=_nearest(origin, names))
    names = [each.name for each in known]
    raise origin.error(
        f'setting "{name}" of [{section}] does not exist', section, name, _nearest(name, names)
    )


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
    raise ValueError(f"it must be {_KIND_NAMES[kind]}")


_KIND_NAMES = {
    str: "text",
    Secret: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _text(value: object) -> str | Secret:
    """Return the text that an option has in SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, Secret) else str(value)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f'Did you mean "{near[0]}"?' if near else f"Available: {', '.join(known) or 'none'}."


def _memory() -> str:
    from rowtide_connectors.kafka.connector import BUFFER_KBYTES, FETCH_KBYTES

    return config_texts.MEMORY.format(buffer_kbytes=BUFFER_KBYTES, fetch_kbytes=FETCH_KBYTES)


def configuration_page() -> str:
    """Return the reference as Markdown."""
    lines = [config_texts.HEAD]
    hints = typing.get_type_hints(Settings)
    for section in _SECTIONS:
        lines.append(f"\n## [{section}]\n\n{hints[section].__doc__}\n\n")
        lines.append("| setting | type | default | meaning | environment variable |\n|---|---|---|---|---|\n")
        lines += [_row(setting) for setting in SETTINGS if setting.section == section]
    lines.append(config_texts.OBJECTS_HEAD)
    for kind, meaning in OBJECTS.items():
        lines.append(f"| `[{kind}.NAME]` | {meaning} | `{ENV_PREFIX}{kind.upper()}__NAME__OPTION` |\n")
    lines += [config_texts.OBJECTS_TAIL, _memory()]
    return "".join(lines)


def _row(setting: Setting) -> str:
    kind = " or ".join(f"`{choice}`" for choice in setting.choices) or _KIND_NAMES[setting.kind]
    if setting.kind is Secret:
        kind += ", secret"
    default = "-" if setting.default is None else f"`{_text(setting.default)}`"
    return f"| `{setting.name}` | {kind} | {default} | {setting.meaning} | `{setting.env}` |\n"


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
