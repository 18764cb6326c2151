"""On two worker processes tasks that fail run again, and what a lost worker held is made again, rows and state.

Nothing is shared but the store of the state in parts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.on_cluster import OUTPUTS
from integration.spark.test_a_program_on_spark import PARTITIONS, feed, logs, outputs, rows_of
from rowtide.flow.flow import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

TESTS = Path(__file__).parents[2]


def test_two_workers_give_the_rows_of_a_flow(spark: SparkSession, tmp_path: Path) -> None:
    assert spark, "only where Spark runs at all"
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "integration.spark.on_cluster", str(tmp_path / "parts")],
        env={**os.environ, "PYTHONPATH": path},
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] == 1

    log = logs(random.Random(1))
    live = Flow(outputs(OUTPUTS), PARTITIONS)
    feed(live, log, {place: (0, len(held)) for place, held in log.items()})
    wanted = live.drain()
    for name in OUTPUTS:
        rows = [repr((row.rowtime, row.row)) for row in rows_of(wanted.outputs[name])]
        assert rows
        assert sorted(found["rows"][name]) == sorted(rows)
    assert found["faults"] == sorted(map(repr, dict.fromkeys(wanted.faults)))
