"""The examples of docs/engine.md, run as one reads them: what a comment says is printed is printed."""

from __future__ import annotations

import re
from pathlib import Path

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
    packet, arrive, packets, sums = (names[name] for name in ("packet", "arrive", "packets", "sums"))
    hour = 3_600_000_000
    for time, size in [(0, 100), (1, 50), (hour, 300), (3 * hour, 10)]:
        arrive.insert(packet.row(time, "1.2.3.4", "5.6.7.8", size))  # type: ignore[attr-defined]
    arrive.insert(packet.row(4 * hour))  # type: ignore[attr-defined]
    assert [(row.hour // hour, row.bytes) for row in sums] == [(0, 150), (1, 300), (3, 10)]  # type: ignore[attr-defined]
    assert [row.time // hour for row in packets] == [3]  # type: ignore[attr-defined]
    capsys.readouterr()
