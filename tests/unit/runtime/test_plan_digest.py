"""A plan's digest distinguishes plans, and nothing else."""

import subprocess
import sys
from dataclasses import replace

import pytest

from rowtide.cli.author.connectors import options_of
from rowtide.plan.plan import ForeignStream, Server
from rowtide.runtime.recovery.digest import differences, dumped, plan_digests
from rowtide_connectors.api import Option
from rowtide_connectors.registry import BUILT_IN, find_connector
from support.runtime import readings_plan


def test_equal_plans_have_equal_digests_in_every_process() -> None:
    script = (
        "from support.runtime import readings_plan\n"
        "from rowtide.runtime.recovery.digest import dumped, plan_digests\n"
        "print(dumped(plan_digests(readings_plan())))"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "5"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert run.stdout.decode().strip() == dumped(plan_digests(readings_plan()))


def test_every_change_of_what_comes_out_is_named() -> None:
    plan = readings_plan()
    kept = dumped(plan_digests(plan))
    assert differences(kept, plan_digests(readings_plan(within_ms=2_001))) == [
        'pump "P_LATEST" has changed',
        'pump "P_LOG" has changed',
        'pump "P_MINUTES" has changed',
    ]
    (stream,) = plan.foreign_streams
    other_topic = replace(plan, foreign_streams=(replace(stream, options=(("topic", "other"),)),))
    assert differences(kept, plan_digests(other_topic)) == ['foreign stream "READINGS" has changed']
    fewer = replace(plan, pumps=plan.pumps[1:], foreign_tables=plan.foreign_tables[1:])
    assert differences(kept, plan_digests(fewer)) == [
        'foreign table "MINUTES" is gone',
        'pump "P_MINUTES" is gone',
    ]


def test_where_a_server_is_and_how_its_client_is_set_changes_nothing() -> None:
    plan = readings_plan()
    (stream,) = plan.foreign_streams
    moved = replace(
        plan,
        servers=(Server("K", "KAFKA", (("bootstrap_servers", "elsewhere:9092"),)),),
        foreign_streams=(replace(stream, options=(*stream.options, ("fetch.max.bytes", "7"))),),
    )
    assert differences(dumped(plan_digests(plan)), plan_digests(moved)) == []


READING = [
    (name, option)
    for name in BUILT_IN
    for option in options_of(find_connector(name))
    if option.applies_to in ("stream", "polled table") and not option.name.startswith("registry_")
]


@pytest.mark.parametrize(
    ("connector", "option"), READING, ids=[f"{name}-{each.name}" for name, each in READING]
)
def test_only_options_that_affect_rows_that_were_read_change_the_digest(
    connector: str, option: Option
) -> None:
    plan = replace(readings_plan(), servers=(Server("K", connector.upper(), ()),))
    (stream,) = plan.foreign_streams

    def with_options(*options: tuple[str, str]) -> dict[str, str]:
        given: ForeignStream = replace(stream, options=options)
        return plan_digests(replace(plan, foreign_streams=(given,)))

    same = with_options((option.name, "1")) == with_options((option.name, "2")) == with_options()
    assert same is option.changeable
