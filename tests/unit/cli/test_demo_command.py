"""rowtide demo --serve: what it proposes to type is answered at once."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from rowtide.cli.author.demo import PROPOSED, serving
from rowtide.cli.main import app
from rowtide.clock import SystemClock
from rowtide.demo import run
from rowtide.demo.flights import messages
from rowtide.sql.pipeline import SqlSession
from rowtide.testing.processes import free_port
from support.waiting import wait_until

MESSAGES = 3_000
"""Those of three days."""


class NoDisplay:
    def stage(self, text: str, total: int | None = None) -> None:
        pass

    def advance(self, done: int) -> None:
        pass


def test_the_query_that_a_served_demo_proposes_reads_what_is_committed() -> None:
    session = SqlSession(committed=True)
    session.feed(files("rowtide.demo").joinpath("pipeline.sql").read_text())
    assert session.listing(PROPOSED).is_committed


@pytest.mark.long
def test_what_a_served_demo_proposes_is_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "messages", lambda: messages()[:MESSAGES])
    course = run.Demo(tmp_path, SystemClock(), NoDisplay(), free_port())
    result = course.run()
    assert (result.messages, result.differences) == (MESSAGES, ())
    answers: dict[str, list[str]] = {}

    def type_all(address: str, config: Path) -> None:
        wait_until(lambda: httpx.get(f"{address}/readyz", trust_env=False).is_success)
        serving(address, config)
        said = capsys.readouterr().err
        assert f" {address}/ui/, " in said
        assert httpx.get(f"{address}/ui/", trust_env=False).is_success
        for line in said.splitlines():
            _, _, command = line.partition("rowtide ")
            if line.startswith(("Try: rowtide ", "     rowtide ")):
                typed = CliRunner().invoke(app, shlex.split(command))
                assert typed.exit_code == 0, typed.output
                answers[command.split()[0]] = typed.stdout.splitlines()
        # As Ctrl-C does.
        raise KeyboardInterrupt

    course.serve(type_all)
    header, *rows, end = answers.pop("sql")
    assert (header, end) == ("HOUR_START | ORIGIN | FLIGHTS | CANCELLED | WIND | VISIBILITY", "(5 rows)")
    cancelled = [int(row.split(" | ")[3]) for row in rows]
    assert cancelled[0] > 0
    assert cancelled == sorted(cancelled, reverse=True)
    assert any("flights" in line for line in answers.pop("positions"))
    assert answers == {}
