"""The reference of all settings: ``python -m rowtide.config > docs/reference/configuration.md``."""

from __future__ import annotations

import typing

from rowtide.config.settings import (
    ENV_PREFIX,
    KIND_NAMES,
    OBJECTS,
    SECTIONS,
    SETTINGS,
    Secret,
    Setting,
    Settings,
    option_text,
)
from rowtide_connectors.sizes import WRITE_BYTES

_HEAD = """\
# Configuration

`rowtide run PIPELINE.sql --config FILE` reads settings from a TOML file. Environment variables override the
file. Unknown names are refused. `python -m rowtide.config` writes this page, and a test checks that it is
current.

```toml
[commit]
interval_ms = 500

[servers.warehouse]            # CREATE SERVER warehouse ...
url = "postgresql://rowtide@db.example/warehouse"
password = { env = "PGPASSWORD" }

[streams.orders]               # CREATE FOREIGN STREAM orders ...
topic = "orders-test"

[servers.k]
"sasl.password" = { file = "/run/secrets/kafka" }
```

To keep a secret out of this file, refer to an environment variable, `{ env = "NAME" }`, or to a file,
`{ file = "/path" }`. Such a value is never shown.
"""

_OBJECTS_HEAD = """
## Options in place of those in SQL

| section | replaces | environment variable |
|---|---|---|
"""

_OBJECTS_TAIL = """
* Names fold as in SQL. A name that the pipeline does not have is refused.
* A further `__` in a variable's name means a dot: `ROWTIDE_SERVERS__K__SASL__PASSWORD` is the option
  `sasl.password` of server `k`.
* Values from variables are never shown.
"""


_MEMORY = """
## What is held in memory

A pipeline holds the state that its queries need (open windows, tables, rows that a join may still match), and
input that it has read but not processed. Each part of this input has a limit. The rest stays in the log:

* Messages in the Kafka client, for each foreign stream with all of its partitions: the server's option
  `buffer_kbytes` ({buffer_kbytes} KiB), plus one response of each broker, `fetch_kbytes`
  ({fetch_kbytes} KiB, compressed).
* Messages that are read and wait for the engine, for each foreign stream: `limits.queue_bytes` and
  `limits.queue_messages`. The engine may hold the same number again.
* Messages since the last commit, for the raw bytes of error rows: `commit.max_bytes` and `commit.max_rows`.
* Rows that wait for another partition or stream: `limits.held_rows` and `limits.held_bytes`. Above these
  limits, the partitions ahead are paused.
* Rows that are written: they are copied for the connector of the database, and a statement has at most
  {write_mbytes} MiB of texts and binary values, or one row.

The client holds no messages of a paused partition: it drops fetched messages, and fetches them again when the
partition resumes. Bytes are those of message values. Plan memory of four times the sum of the limits, because a
value exists as bytes, as a row, and as copies during conversion, and 64 MiB for what allocators keep of freed memory.
"""


def _memory() -> str:
    from rowtide_connectors.kafka.connector import BUFFER_KBYTES, FETCH_KBYTES

    return _MEMORY.format(
        buffer_kbytes=BUFFER_KBYTES, fetch_kbytes=FETCH_KBYTES, write_mbytes=WRITE_BYTES >> 20
    )


def configuration_page() -> str:
    """Return the reference as Markdown."""
    lines = [_HEAD]
    hints = typing.get_type_hints(Settings)
    for section in SECTIONS:
        lines.append(f"\n## [{section}]\n\n{hints[section].__doc__}\n\n")
        lines.append("| setting | type | default | meaning | environment variable |\n|---|---|---|---|---|\n")
        lines += [_row(setting) for setting in SETTINGS if setting.section == section]
    lines.append(_OBJECTS_HEAD)
    for kind, meaning in OBJECTS.items():
        lines.append(f"| `[{kind}.NAME]` | {meaning} | `{ENV_PREFIX}{kind.upper()}__NAME__OPTION` |\n")
    lines += [_OBJECTS_TAIL, _memory()]
    return "".join(lines)


def _row(setting: Setting) -> str:
    kind = " or ".join(f"`{choice}`" for choice in setting.choices) or KIND_NAMES[setting.kind]
    if setting.kind is Secret:
        kind += ", secret"
    default = "-" if setting.default is None else f"`{option_text(setting.default)}`"
    return f"| `{setting.name}` | {kind} | {default} | {setting.meaning} | `{setting.env}` |\n"
