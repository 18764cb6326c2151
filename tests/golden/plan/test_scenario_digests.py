"""The plans of scenarios keep their digests and the keys of their snapshots: checkpoints can be taken over.

A line of ``digests.txt`` is a scenario, the digest of its plan and that of its snapshot keys. A change means
that running pipelines of that shape restart from the log or go through ``rowtide apply``, so its commit says
why; ``pytest --rewrite`` writes the file. A scenario that is not listed is not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from rowtide.errors import RowtideError
from rowtide.flow.program import Program
from rowtide.plan.plan import Plan, Pump
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.testing.pipeline import pipeline_text
from rowtide.testing.reading import find_scenarios, read_scenario
from rowtide.testing.versions import start_session

GOLDEN = Path(__file__).with_name("digests.txt")
SCENARIOS = Path(__file__).parents[2] / "scenarios"


def test_plans_of_scenarios_keep_their_digests(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        found = digests(find_scenarios([SCENARIOS]))
        GOLDEN.write_text("".join(f"{name} {of}\n" for name, of in found.items()), encoding="utf-8")
    kept = dict(line.split(" ", 1) for line in GOLDEN.read_text(encoding="utf-8").splitlines())
    assert digests(SCENARIOS / name for name in kept) == kept


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Return the two digests of each scenario whose pipeline is accepted."""
    found = {}
    for file in files:
        scenario = read_scenario(file)
        try:
            plan = start_session(scenario, pipeline_text(scenario)).plan
        except RowtideError:
            continue
        own = plan_digests(with_every_relation(plan))
        keys = [step.key for step in Program(dict(plan.relations), {}).steps]
        found[str(file.relative_to(SCENARIOS))] = f"{digest(sorted(own.items()))} {digest(keys)}"
    return found


def with_every_relation(plan: Plan) -> Plan:
    """Return the plan with a pump out of every relation, so that each of them has a digest."""
    pumps = tuple(Pump(f"to {name}", name, node) for name, node in plan.relations)
    return Plan(plan.servers, plan.foreign_streams, plan.foreign_tables, plan.relations, pumps)


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
