"""Messages become rows with the pseudo-columns that the pipeline names."""

from __future__ import annotations

import numpy as np

from rowtide.codec.registry import decoder_for
from rowtide.runtime.ingest.intake import deliver
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import Messages

SQL = """
CREATE SERVER b FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'b:9092');
CREATE FOREIGN STREAM f (n INTEGER) SERVER b OPTIONS (topic 't', format 'JSON');
CREATE VIEW v AS
  SELECT STREAM n, KAFKA_KEY AS k, KAFKA_HEADERS AS h, KAFKA_OFFSET AS o FROM f WHERE KAFKA_PARTITION = 3;
"""
MESSAGES = Messages(
    topic="t",
    partition=3,
    offsets=np.array([5, 6, 9], dtype=np.int64),
    timestamps=np.array([100, 100, 200], dtype=np.int64),
    keys=[b"k", b"\xff", None],
    values=[b'{"n": 1}', b"no JSON", b'{"n": 2}'],
    next_offset=10,
    headers=[[("a", b"1"), ("a", b"\xff")], None, None],
)


def test_rows_carry_what_queries_name_of_their_message_and_nothing_else() -> None:
    (stream,) = plan_pipeline(SQL).foreign_streams
    assert stream.pseudo == ("KAFKA_PARTITION", "KAFKA_OFFSET", "KAFKA_KEY", "KAFKA_HEADERS")
    delivery = deliver(stream, decoder_for("JSON", stream.name, stream.row_type), 0, MESSAGES)
    (tray,) = delivery.parts
    assert [row.row for row in tray.rows()] == [  # type: ignore[union-attr]
        (1, 3, 5, b"k", '[["a", "1"], ["a", {"base64": "/w=="}]]'),
        (2, 3, 9, None, None),
    ]
    assert [fault.counter for fault in delivery.faults] == [6]


def test_a_stream_whose_pseudo_columns_nothing_names_has_none() -> None:
    text = SQL.replace("KAFKA_KEY", "n").replace("KAFKA_HEADERS", "n + 1").replace("KAFKA_OFFSET", "n + 2")
    (stream,) = plan_pipeline(text.replace(" WHERE KAFKA_PARTITION = 3", "")).foreign_streams
    assert stream.source_type == stream.row_type


def test_what_is_no_broker_has_no_pseudo_columns() -> None:
    text = SQL.replace("WRAPPER KAFKA", "WRAPPER FILE").split("CREATE VIEW")[0]
    assert plan_pipeline(text).foreign_streams[0].pseudo == ()
