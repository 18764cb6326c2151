"""A real Spark session, one for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from real.parts import missing
from rowtide.errors import RowtideError
from rowtide.runners.spark.session import KafkaJars, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Yield the session; three partitions a shuffle, so that keys do lie apart."""
    try:
        session = open_session("local[2]", parts=3, kafka=KafkaJars(), is_brief=True)
    except RowtideError as error:
        missing("Spark", error)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@contextmanager
def in_parts(session: SparkSession, parts: int) -> Iterator[None]:
    """Split rows into this number of parts for a while, on the one session that there is."""
    before = session.conf.get("spark.sql.shuffle.partitions")
    session.conf.set("spark.sql.shuffle.partitions", str(parts))
    try:
        yield
    finally:
        session.conf.set("spark.sql.shuffle.partitions", str(before))
