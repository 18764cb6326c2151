"""A local Kafka broker: Apache Kafka from its jars, one node in KRaft mode.

The jars are downloaded once, like those of Spark. A Java runtime must be installed.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rowtide.runners.spark.ivy import fetch, java
from rowtide.runners.spark.session import BRIEF_JVM
from rowtide.testing.processes import ENDS_WITH_PARENT, LOCAL, free_port

KAFKA_VERSION = "4.1.1"
SCALA_VERSION = "2.13"
STOP_S = 30

EVENT_TIME_CONFIG: Mapping[str, str] = {
    # Kafka deletes by the record's timestamp, and event times of tests are years old ...
    "retention.ms": "-1",
    # ... and Kafka refuses timestamps more than an hour ahead.
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
"""The options with which a topic accepts and keeps records of any age."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/log
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
metadata.max.idle.interval.ms=0
auto.create.topics.enable=false
"""


class KafkaServer:
    """One broker with its log in ``directory``; it can be stopped, killed and restarted.

    ``settings`` replace those of ``_PROPERTIES``, and may have the same places for ports. A broker that is brief
    serves tests: it is up sooner, and not as quick with many messages.

    Raises:
      StatementError: Java or PySpark, whose Ivy fetches the jars, is missing.
      TransientError: the jars cannot be downloaded.
    """

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, is_brief: bool = False
    ) -> None:
        self._directory = directory
        self._options = BRIEF_JVM.split() if is_brief else []
        self._classpath = f"{fetch('org.apache.kafka', f'kafka_{SCALA_VERSION}', KAFKA_VERSION)}/*"
        self._java = java()
        self._process: subprocess.Popen[bytes] | None = None
        port = free_port()
        self.bootstrap_servers = f"{LOCAL}:{port}"
        self._properties = directory / "server.properties"
        # Of two lines for one name, the broker takes the last.
        lines = [_PROPERTIES, *(f"{name}={value}\n" for name, value in (settings or {}).items())]
        self._properties.write_text(
            "".join(lines).format(host=LOCAL, port=port, controller_port=free_port(), directory=directory),
            encoding="utf-8",
        )
        format_log = ("kafka.tools.StorageTool", "format", "-t", "rowtide-tests-cluster0", "-c")
        subprocess.run(
            [self._java, *BRIEF_JVM.split(), "-cp", self._classpath, *format_log, str(self._properties)],
            capture_output=True,
            check=True,
        )

    def start(self) -> None:
        """Start the broker on its log; it answers some seconds later."""
        jvm = (self._java, *self._options, "-Xmx512m", "-cp", self._classpath)
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*ENDS_WITH_PARENT, *jvm, "kafka.Kafka", str(self._properties)], stdout=log, stderr=log
            )

    def suspend(self) -> None:
        """Let the broker do nothing, as a machine does that is too busy, until ``resume``."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended broker continue."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self, *, kill: bool = False) -> None:
        """Stop or kill the broker; acknowledged records are still stored after the next ``start``."""
        if self._process is None:
            return
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        self._process = None
