"""Every setting, declared once: its name, type, default, meaning and limit.

Everything that does not differ between machines is in the pipeline's SQL. A
section of the configuration is a class here, and a setting is a field of it.
``reading`` fills them, ``page`` writes the reference.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowtide.errors import StatementError

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
            "file with a line `NAME RIGHTS TOKEN` for each caller of the API; required unless `listen` is a "
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
    allow_export: bool = field(
        default=True, metadata=_means("give rows also as CSV, for other programs; false: as JSON only")
    )


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The OpenID Connect provider whose tokens the API accepts, see [Secure the API](../howto/secure-the-api.md)."""

    issuer: str | None = field(
        default=None,
        metadata=_means(
            "address of the provider, as its tokens have it in the claim `iss`; without it only tokens of "
            "`service.tokens_file` are accepted"
        ),
    )
    audience: str | None = field(
        default=None,
        metadata=_means("name of this API in the claim `aud` of tokens; required if there is an issuer"),
    )
    roles_claim: str = field(
        default="roles",
        metadata=_means(
            "claim with the rights of a caller: a list, or text with spaces between them. Dots lead into "
            "objects: `realm_access.roles`"
        ),
    )
    role_prefix: str = field(
        default="rowtide-",
        metadata=_means("what precedes `read`, `post`, `operate` or `admin` in that claim"),
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
    snapshot_commit_kbytes: int = field(
        default=16_384,
        metadata=_means(
            "kilobytes (1,024 bytes) of a snapshot that one commit stores at most; the next commits store the rest. "
            "Less delays rows less, and a snapshot takes longer",
            at_least=1,
        ),
    )
    parts: str | None = field(
        default=None,
        metadata=_means(
            "where the tasks of a backfill keep operator state in parts, so that it does not pass through Spark's "
            "driver: the path of a folder that driver, workers and service share, an address such as "
            "s3://bucket/folder, or `database` for small states; by default the driver collects the state"
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
    why_s: float = field(
        default=300.0,
        metadata=_means(
            "seconds in which the service must explain where a row comes from; it reads the log again for that",
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
class StandbySettings:
    """Replicas of one pipeline that take over, see [High availability](../howto/high-availability.md)."""

    enabled: bool = field(
        default=False,
        metadata=_means(
            "this process is one of several replicas: it follows the one that leads, and takes over when that one "
            "shows no sign of life. All replicas have the same settings. `rowtide run --standby` sets it, too"
        ),
    )
    takeover_ms: int = field(
        default=5000,
        metadata=_means(
            "time without a commit or heartbeat of the leader after which a follower takes over, in ms; at least "
            "twice `commit.interval_ms`. Processes that are no replica show by it that they live, too. A session that "
            "is silent within a transaction for half of it is ended if another process waits for it",
            at_least=200,
        ),
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
    oidc: OidcSettings = OidcSettings()
    commit: CommitSettings = CommitSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    limits: LimitsSettings = LimitsSettings()
    standby: StandbySettings = StandbySettings()
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
                    hint=nearest(name, folded),
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

SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))

KIND_NAMES = {
    str: "text",
    Secret: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
"""The types of settings, as messages and the reference call them."""


def option_text(value: object) -> str | Secret:
    """Return the text that an option has in SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, Secret) else str(value)


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint with the known name that resembles ``name``, or with all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    return f'Did you mean "{near[0]}"?' if near else f"Available: {', '.join(known) or 'none'}."
