"""A program on a cluster of two worker processes, in a process of its own: a session has one master.

It runs in two slices, whose state is in parts in the folder that the argument names. The first attempt of each task of
a source fails when it has given its rows, and when the sources of the second slice are read one of the executors is
killed. Prints the rows of each output, the faults and the number of killed executors as JSON.
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
from rowtide.checkpoint.parts.files import FileParts
from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.session import open_session
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runners.spark.start import Beginning

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
    cut = {place: len(held) // 2 for place, held in log.items()}
    ends = {place: len(held) for place, held in log.items()}
    store = FileParts(sys.argv[1])
    rows: dict[str, list[str]] = {name: [] for name in OUTPUTS}
    faults: list[str] = []
    killed: list[int] = []
    state = None
    for number, (first, last) in enumerate([(dict.fromkeys(log, 0), cut), (cut, ends)]):
        frames = {
            relation: session.createDataFrame(
                pa.Table.from_batches(
                    [
                        batch_of(log, (relation, each), first[relation, each], last[relation, each])
                        for each in held
                    ]
                )
            )
            for relation, held in PARTITIONS.items()
        }

        def progress(segment: str, _: int, *, is_last: bool = number == 1) -> None:
            if is_last and not killed and "Source" not in segment:
                killed.append(executors()[0])
                os.kill(killed[0], signal.SIGKILL)

        definition = RunDefinition(outputs(OUTPUTS), PARTITIONS)
        start = Beginning(state, PartKeeper(store, f"cluster/1/{number}"))
        run = SparkRun(session, definition, NO_FOLDER, fails_once, few=0, start=start)
        run.read(frames, progress=progress)
        for name, held in rows.items():
            held += [repr((row.rowtime, row.row)) for row in run.rows(name).rows()]
        faults += map(repr, run.faults.read())
        state = run.state()
        run.close()
    sys.stdout.write(json.dumps({"rows": rows, "faults": sorted(faults), "killed": len(killed)}) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
