"""`explain --why` against a running service, on a real broker and database."""

import json
import random
from pathlib import Path

import pytest

from real.kafka import Broker
from real.postgres import PostgresServer
from rowtide.testing.processes import free_port
from support.service import PERIOD_MS, Reading, config_for, sample, service
from support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(180)]


def test_a_running_service_names_exactly_the_messages_of_a_minute(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    rng, start = random.Random(5), 1_700_000_040_000
    logs: list[list[Reading]] = [[], []]
    for number in range(2_000):
        at = start + 100 * number - rng.choice((0, 0, 1_500))
        logs[number % 2].append(Reading(at, number, f"s{rng.randrange(40)}", number))
    topic, url = kafka.create_topic(2), postgres_server.create_database()
    for partition, log in enumerate(logs):
        kafka.produce(
            topic,
            [each.value() for each in log],
            partition=partition,
            timestamps=[each.timestamp for each in log],
        )
    listen = f"127.0.0.1:{free_port()}"
    config = config_for(kafka.bootstrap_servers, topic, url).replace("127.0.0.1:0", listen)
    with service(tmp_path, config) as made:
        made.start()
        made.wait_for_log("running")
        wait_until(lambda: (seen := sample(url)) is not None and seen.minutes)
        seen = sample(url)
        assert seen is not None
        (period, sensor, count, *_) = min(seen.minutes, key=repr)
        asked = made.run(
            "explain", "--why", "minutes", json.dumps({"period": period, "sensor": sensor}), "--json"
        )
        assert asked.exit_code == 0, asked.stderr
        answer = json.loads(asked.stdout)
        none = made.run("explain", "--why", "minutes", '{"sensor": "no one"}')
        assert none.exit_code == 2
        assert "no such row was written" in none.stderr
    wanted = [
        (topic, partition, offset)
        for partition, log in enumerate(logs)
        for offset, each in enumerate(log)
        if each.timestamp // PERIOD_MS * PERIOD_MS == period and each.sensor == sensor
    ]
    assert [(each["topic"], each["partition"], each["offset"]) for each in answer["inputs"]] == wanted
    assert len(wanted) == count
    # WITHIN is two seconds: the minute was over when either partition had read so much further.
    assert [(each["partition"], each["by"], each["offset"]) for each in answer["releases"]] == [
        (
            partition,
            "ROW",
            next(o for o, each in enumerate(log) if each.timestamp >= int(str(period)) + PERIOD_MS + 2_000),
        )
        for partition, log in enumerate(logs)
    ]
