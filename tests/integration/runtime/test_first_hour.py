"""docs/first-hour.md is typed as it is written, on a real broker and database: what it shows is what comes out."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from house.machine import ROOT
from real.kafka import Broker
from real.postgres import PostgresServer
from rowtide.testing.processes import ENDS_WITH_PARENT, LOCAL, free_port
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(900)]

PAGE = ROOT / "docs/first-hour.md"
BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8080"
"""Where the page's service listens; that of a test takes a free port."""
PRODUCER = re.compile(r"docker compose exec -T kafka \S+/kafka-console-producer.sh .*--topic (\w+) < (\S+)")
SHOWN = 18
"""The commands whose output the page shows."""
LOOKS = ("rowtide sql", "rowtide explain", "rowtide errors list", "rowtide positions", "curl")
"""Commands that change nothing: they are typed again until the running service has come as far as the page."""


@dataclass(frozen=True)
class Step:
    """Commands of the page, and what it shows of them."""

    commands: str
    shown: str | None

    @property
    def code(self) -> int:
        """The exit code that the page names; without one, 0."""
        found = re.search(r"# exit code (\d)", self.commands)
        return 0 if found is None else int(found[1])

    @property
    def is_service(self) -> bool:
        return self.commands.startswith("rowtide run") and "--until-end" not in self.commands

    def fits(self, said: str) -> bool:
        """Whether an output is the one that is shown, in which ``..`` is any text of a line, or any lines."""
        if self.shown is None:
            return True
        forms = (
            "(?:.*\n)*" if line == ".." else ".*".join(map(re.escape, line.split(".."))) + "\n"
            for line in self.shown.splitlines()
        )
        return re.fullmatch("".join(forms), said.rstrip("\n") + "\n") is not None


def steps_of(page: str) -> Iterator[Step]:
    blocks = BLOCK.findall(page)
    for (language, text), (following, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "bash":
            yield Step(text, shown if following == "text" else None)


@dataclass
class Newcomer:
    """Who types the commands, in a folder that ``cd`` changes."""

    kafka: Broker
    place: Path
    environment: dict[str, str]
    folder: Path = field(init=False)
    service: subprocess.Popen[bytes] | None = None
    topics: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.place

    def type(self, step: Step) -> str:
        """Type the commands of a step; return what they write to the standard output."""
        if step.commands.startswith("docker "):
            return "".join(self._servers(line) for line in step.commands.splitlines())
        if step.is_service:
            return self._start(step.commands)
        if step.commands.startswith("rowtide run"):
            self.kill()
        if not step.commands.startswith(LOOKS):
            return self._run(step)
        said: list[str] = []

        def fits() -> bool:
            said.append(self._run(step))
            return step.fits(said[-1])

        wait_until(fits, lambda: f"{step.commands}\nshown:\n{step.shown}\nsaid:\n{said[-1]}", every_s=0.5)
        return said[-1]

    def kill(self) -> None:
        if self.service is not None:
            self.service.kill()
            self.service.wait()
            self.service = None

    def _run(self, step: Step) -> str:
        went = self.place / "went"
        commands = step.commands.replace(ADDRESS, self.environment["ROWTIDE_SERVICE__LISTEN"])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"trap 'pwd > {shlex.quote(str(went))}' EXIT\n{commands}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        with (self.place / "transcript").open("a") as transcript:
            transcript.write(
                f"$ {step.commands}{done.stdout}--\n{done.stderr}== exit code {done.returncode}\n"
            )
        assert done.returncode == step.code, f"{step.commands}{done.stdout}{done.stderr}"
        self.folder = Path(went.read_text().strip())
        return done.stdout

    def _servers(self, line: str) -> str:
        """Do what a line for Docker does, on the servers of the test."""
        if line == "docker compose run --rm topics":
            self.topics.append(self.kafka.create_topic(name="orders"))
        elif (sent := PRODUCER.fullmatch(line)) is not None:
            self.kafka.produce(sent[1], (self.folder / sent[2]).read_bytes().splitlines())
        else:
            assert line == "docker compose up --detach --wait kafka postgres"
        return ""

    def _start(self, command: str) -> str:
        log = self.place / "service.log"
        with log.open("ab") as output:
            self.service = subprocess.Popen(
                [*ENDS_WITH_PARENT, "bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        process = self.service

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                with urllib.request.urlopen(f"http://{self.environment['ROWTIDE_SERVICE__LISTEN']}/readyz"):
                    return True
            except (urllib.error.URLError, ConnectionError):
                return False

        wait_until(is_ready, log.read_text)
        return ""


@contextmanager
def newcomer(kafka: Broker, database: str, place: Path) -> Iterator[Newcomer]:
    """Provide the command ``rowtide`` of this tree, and the addresses of the servers."""
    (place / "bin").mkdir()
    command = place / "bin/rowtide"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rowtide "$@"\n')
    command.chmod(0o755)
    given = {
        "PATH": os.pathsep.join((str(command.parent), os.environ["PATH"])),
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        "ROWTIDE_SERVERS__BROKER__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "ROWTIDE_SERVERS__WAREHOUSE__URL": database,
        "ROWTIDE_SERVERS__WAREHOUSE__PASSWORD": sa.make_url(database).password or "rowtide",
        "ROWTIDE_SERVICE__LISTEN": f"{LOCAL}:{free_port()}",
    }
    made = Newcomer(kafka, place, os.environ | given)
    try:
        yield made
    finally:
        made.kill()
        for topic in made.topics:
            kafka.delete_topic(topic)


def test_the_first_hour_goes_as_the_page_says(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    steps = list(steps_of(PAGE.read_text(encoding="utf-8")))
    assert sum(step.shown is not None for step in steps) == SHOWN
    differing = []
    with newcomer(kafka, postgres_server.create_database(), tmp_path) as typist:
        for step in steps:
            said = typist.type(step)
            if not step.fits(said):
                differing.append(f"{step.commands}shown:\n{step.shown}said:\n{said}")
    assert not differing, "\n".join(differing)
