"""What the documentation and the images show works: pipelines plan, sample data gives the sums it must."""

from __future__ import annotations

import importlib
import re
from collections import Counter, defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from house.machine import ROOT
from rowtide.cli.template.project import project_files
from rowtide.clock import SystemClock
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.live import live_runner
from rowtide.testing.session import ScenarioRun, Verdict

SQL = sorted([*ROOT.glob("docker/**/*.sql"), *ROOT.glob("examples/**/*.sql")])
SCENARIOS = sorted(ROOT.glob("examples/**/*.yaml"))
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    for number, block in enumerate(re.findall(r"```sql\n(.*?)```", page.read_text(), flags=re.DOTALL))
    if "CREATE PUMP" in block
]


@pytest.fixture
def produce(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The producer of sample orders, as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "docker/orders"))
    return importlib.import_module("produce")


@pytest.mark.parametrize("path", SQL, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_sample_pipeline_is_accepted_without_a_warning(path: Path) -> None:
    assert plan_pipeline(path.read_text(), file=str(path)).notices == ()


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: str(path.relative_to(ROOT)))
@pytest.mark.parametrize("batching", ["1", "random:7"])
def test_an_example_keeps_its_scenarios(path: Path, batching: str) -> None:
    (outcome,) = ScenarioRun(live_runner, SystemClock(), batching).run([path])
    assert outcome.verdict is Verdict.PASSED, outcome.report()


@pytest.mark.parametrize("block", BLOCKS)
def test_a_pipeline_in_the_documentation_is_accepted_without_a_warning(block: str) -> None:
    assert plan_pipeline(block).notices == ()


def test_sample_orders_are_out_of_order_but_never_late(produce: ModuleType) -> None:
    times = defaultdict(list)
    for order in produce.orders(20_000):
        times[order.partition].append(order.ordered_at)
    assert len(times) == produce.PARTITIONS
    for partition in times.values():
        assert any(later < earlier for earlier, later in pairwise(partition))
        high = partition[0]
        for at in partition:
            assert at + 30_000 >= high
            high = max(high, at)


def test_the_sample_pipeline_counts_the_sample_orders(produce: ModuleType, tmp_path: Path) -> None:
    orders = list(produce.orders(1_400))
    steps: list[dict[str, object]] = [
        {
            "insert": "orders",
            "partition": order.partition,
            "at": order.ordered_at,
            "raw": order.message().decode(),
        }
        for order in orders
    ]
    # On every partition orders have been seen up to 2:48, so the first two minutes have passed for good.
    minute_ends = [produce.FIRST_MS + minute * 60_000 for minute in (1, 2)]
    count, quantity, amount = Counter[object](), Counter[object](), defaultdict[object, Decimal](Decimal)
    for order in orders:
        minute = (order.ordered_at - produce.FIRST_MS) // 60_000
        key = (produce.FIRST_MS + (minute + 1) * 60_000, order.product)
        count[key] += 1
        quantity[key] += order.quantity
        amount[key] += order.quantity * Decimal(produce.PRICES[order.product])
    rows = [
        [end, product, count[end, product], quantity[end, product], str(amount[end, product])]
        for end in minute_ends
        for product in sorted(produce.PRICES)
    ]
    steps.append({"expect": "SYS.ERRORS", "rows": []})
    steps.append({"expect_table": "orders_per_minute", "rows": rows})
    scenario = {"name": "sample orders", "file": str(ROOT / "docker/orders/pipeline.sql"), "steps": steps}
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    (outcome,) = ScenarioRun(live_runner, SystemClock(), "random:7").run([path])
    assert outcome.verdict is Verdict.PASSED, outcome.report()[:3000]


def test_the_first_page_shows_the_pipeline_of_a_new_project_and_what_it_gives() -> None:
    page = (ROOT / "docs/index.md").read_text()
    files = project_files("shop")
    (pipeline,) = re.findall(r"```sql\n(.*?)```", page, flags=re.DOTALL)
    (result,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    assert files["pipeline.sql"].endswith(pipeline)
    assert result in files["README.md"]
