"""The examples of docs/engine.md, run as one reads them: what a comment says is printed is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "engine.md"


def test_the_guide_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(compile(block, str(GUIDE), "exec"), names)
        said = [line.removeprefix("# ") for line in block.splitlines() if line.startswith("# ")]
        assert capsys.readouterr().out.splitlines() == said


def test_the_traffic_of_the_guide_is_summed_up_and_expires(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(compile(block, str(GUIDE), "exec"), names)
    packet: Any = names["packet"]
    traffic: Any = names["traffic"]
    hour = 3_600_000_000
    for time, size in [(0, 100), (1, 50), (hour, 300), (3 * hour, 10)]:
        traffic.input.insert(packet.row(time, "1.2.3.4", "5.6.7.8", size))
    traffic.input.insert(packet.row(4 * hour))
    assert [(row.hour // hour, row.bytes) for row in traffic.sums] == [(0, 150), (1, 300), (3, 10)]
    assert [row.time // hour for row in traffic.packets] == [3]
    capsys.readouterr()


IN_THE_GUIDE = {"weighted": 56, "class Traffic": 121, "to_usd": 62}
"""Lines of code of the same three models in the guide of the original, comments and empty lines left out:
Triceps Developer's Guide, 11.1, 13.1 and 12.8."""


@pytest.mark.parametrize("model", IN_THE_GUIDE)
def test_a_model_takes_less_than_half_the_lines_of_the_original(model: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (block,) = (each for each in blocks if model in each)
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) < IN_THE_GUIDE[model] / 2
