"""The API of a process whose pipeline runs on Spark refuses what only a process can do that reads the rows itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest

from rowtide.app import RunOptions, build_process
from rowtide.cli.pipeline_file import opened
from rowtide.cli.run.run import query_of, why_of
from rowtide.runtime.service import Runs
from rowtide.web.problems import Problem
from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE found (number INTEGER) SERVER d;
CREATE PUMP p AS INSERT INTO found SELECT STREAM number FROM readings;
"""


class OnSpark:
    """Stands for Spark, which is not started."""

    passes_rows = False


@pytest.fixture
def files(tmp_path: Path) -> PipelineFiles:
    """A pipeline with a late row."""
    files = PipelineFiles(tmp_path, SQL, '[service]\nlisten = "127.0.0.1:0"\n')
    files.broker.ensure_topic("readings", 1)
    files.broker.produce("readings", [b'{"number":1}'] * 2, timestamps=[9_000, 1_000], partition=0)
    files.run()
    return files


@pytest.fixture
def url(files: PipelineFiles) -> Iterator[str]:
    with opened(files.sql, files.config) as (pipeline, settings):
        process = build_process(
            pipeline,
            settings,
            RunOptions(listen="127.0.0.1:0", runs=cast("Runs", OnSpark())),
            version="1",
            stopping=lambda: False,
            why=why_of(files.sql, files.config),
            query_of=lambda requests: query_of(files.sql, requests),
        )
        with process.serving() as urls:
            yield urls["url"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_error_rows_are_not_resubmitted_where_nothing_reads_them(
    files: PipelineFiles, url: str, dry_run: bool
) -> None:
    path = f"{url}/api/v1/pipelines/readings/errors/resubmissions"
    refused = httpx.post(path, json={"pending": True, "dry_run": dry_run})
    assert (refused.status_code, refused.json()["type"]) == (409, Problem.NOT_POSSIBLE.urn), refused.text
    assert "a pipeline on Spark reads no error rows again" in refused.json()["detail"]
    assert "without --runner spark" in refused.json()["hint"]
    assert "1 rows would be resubmitted" in files.call("errors resubmit", "--all", "--dry-run")
