"""The text of docs/reference/configuration.md around its tables; ``rowtide.config`` writes the page."""

from __future__ import annotations

HEAD = """\
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

OBJECTS_HEAD = """
## Options in place of those in SQL

| section | replaces | environment variable |
|---|---|---|
"""

OBJECTS_TAIL = """
* Names fold as in SQL. A name that the pipeline does not have is refused.
* A further `__` in a variable's name means a dot: `ROWTIDE_SERVERS__K__SASL__PASSWORD` is the option
  `sasl.password` of server `k`.
* Values from variables are never shown.
"""


MEMORY = """
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

The client holds no messages of a paused partition: it drops fetched messages, and fetches them again when the
partition resumes. Bytes are those of message values. Plan memory of four times the sum of the limits, because a
value exists as bytes, as a row, and as copies during conversion.
"""
