"""``rowtide run --runner spark``: opens the session, and makes what runs the pipeline on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowtide.cli.run.spark_options import SparkOrder, check_staging, conf_of, py_files_of
from rowtide.runners.spark.kafka import read_range
from rowtide.runners.spark.session import KafkaJars, open_session, spark_errors
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.backfill.slice_work import OnSpark
from rowtide.runtime.batches.limits import refuse_plan
from rowtide.runtime.batches.loop import BatchPace
from rowtide.runtime.batches.running import RunBatches

if TYPE_CHECKING:
    from rowtide.config.settings import Settings
    from rowtide.runtime.pipeline import Pipeline


@contextmanager
def runs_on_spark(pipeline: Pipeline, settings: Settings, order: SparkOrder) -> Iterator[RunBatches]:
    """Open the session, and stop it at the end of the block.

    Raises:
      StatementError: the pipeline cannot run on Spark, or an option or a package is missing or wrong.
      TransientError: Spark does not start.
    """
    check_staging(order.staging)
    conf, py_files = conf_of(order.conf), py_files_of(order.py_files)
    refuse_plan(pipeline.plan)
    frames = kafka_frames(pipeline.plan, lambda *args: read_range(session, *args))
    session = open_session(
        order.master,
        parts=order.parts,
        conf={"spark.app.name": f"rowtide {pipeline.name}"} | conf,
        py_files=py_files,
        ui=order.ui,
        kafka=KafkaJars(settings.spark.jars) if pipeline.plan.foreign_streams else None,
    )
    trigger_ms = settings.commit.interval_ms if order.trigger_ms is None else order.trigger_ms
    try:
        with tempfile.TemporaryDirectory(prefix="rowtide-run-", dir=order.staging) as folder:
            spark = OnSpark(session, frames, folder, in_order=True)
            pace = BatchPace(trigger_ms / 1000, order.batch_messages)
            yield RunBatches(spark, pace)
    finally:
        # It may be gone.
        with spark_errors():
            session.stop()
