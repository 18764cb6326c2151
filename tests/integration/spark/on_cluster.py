"""A program on a cluster of two worker processes, in a process of its own: a session has one master.

The first attempt of each task of a source fails when it has given its rows, and when the sources are read one of the
executors is killed. Prints the rows of each output, the faults and the number of killed executors as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from integration.spark.test_a_program_on_spark import PARTITIONS, batch_of, intake, logs, outputs
from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.session import open_session
from rowtide.runners.spark.stage import RunDefinition

MASTER = "local-cluster[2,1,1024]"
OUTPUTS = ("PER_SECOND", "PRICED")
NO_FOLDER = "/proc/no/such/folder"


def fails_once(
    relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
) -> Iterator[tuple[int, Tray | Bound | Fault]]:
    """Yield all rows, then fail if it is the first attempt."""
    from pyspark import TaskContext

    yield from intake(relation, batch, origins)
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise OSError("the first attempt fails")


def executors() -> list[int]:
    """Return the processes of executors that this process has started."""
    parents: dict[int, int] = {}
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue

    def is_mine(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sorted(filter(is_mine, found))


def main() -> None:
    """Run the program."""
    session = open_session(MASTER, parts=3, is_brief=True)
    session.sparkContext.setLogLevel("OFF")
    log = logs(random.Random(1))
    frames = {
        relation: session.createDataFrame(
            pa.Table.from_batches(
                [batch_of(log, (relation, each), 0, len(log[relation, each])) for each in held]
            )
        )
        for relation, held in PARTITIONS.items()
    }
    killed: list[int] = []

    def progress(segment: str, _: int) -> None:
        if not killed and "Source" not in segment:
            killed.append(executors()[0])
            os.kill(killed[0], signal.SIGKILL)

    run = SparkRun(session, RunDefinition(outputs(OUTPUTS), PARTITIONS), NO_FOLDER, fails_once, few=0)
    run.read(frames, progress=progress)
    rows = {name: [repr((row.rowtime, row.row)) for row in run.rows(name).rows()] for name in OUTPUTS}
    sys.stdout.write(
        json.dumps({"rows": rows, "faults": sorted(map(repr, run.faults.read())), "killed": len(killed)})
        + "\n"
    )
    session.stop()


if __name__ == "__main__":
    main()
