from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app

ROOT = Path(__file__).parents[3]
TRAFFIC = ROOT / "examples/traffic/traffic.py"


@contextmanager
def served(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    paths = os.pathsep.join([str(ROOT / "service"), str(ROOT / "connectors")])
    with subprocess.Popen(
        [sys.executable, "-m", "rowtide", "serve-model", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as server:
        try:
            yield server
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0


def answers(host: str, port: int, lines: str) -> list[str]:
    with socket.create_connection((host, port), timeout=20) as client:
        client.sendall(lines.encode())
        client.shutdown(socket.SHUT_WR)
        return client.makefile().read().splitlines()


def test_the_traffic_example_is_tried_out_by_hand_and_ends_with_a_signal() -> None:
    with served(f"{TRAFFIC}:Traffic", "--json", "-o", "least_bytes=10") as server:
        assert server.stdout is not None
        where = json.loads(server.stdout.readline())
        found = answers(
            where["host"],
            where["port"],
            "at,2024-05-05 10:00:00\npackets,INSERT,10.0.0.1,8.8.8.8,60\n"
            "packets,INSERT,10.0.0.2,8.8.8.8,7\nat,2024-05-06\nquit\n",
        )
    assert [line for line in found if not line.startswith("today,")] == [
        "hourly,OP_INSERT,1714903200000,10.0.0.1,8.8.8.8,60",
        "hourly,OP_INSERT,1714903200000,10.0.0.2,8.8.8.8,7",
        "at,2024-05-06 00:00:00",
        "daily,OP_INSERT,19848,10.0.0.1,60",
    ]


DRIVER = """
from rowtide.engine import RowType, TextDriver, Unit


def echo():
    unit = Unit("u")
    driver = TextDriver(unit)
    driver.inputs["say"] = unit.label("say", RowType(word="string"), driver.print)
    return driver
"""


def test_a_driver_that_a_function_gives_is_served_until_a_client_says_exit(tmp_path: Path) -> None:
    (tmp_path / "echoing.py").write_text(DRIVER)
    with served(f"{tmp_path}/echoing.py:echo", "--echo") as server:
        assert server.stdout is not None
        host, _, port = server.stdout.readline().split()[-1].rpartition(":")
        assert answers(host, int(port), "say,INSERT,hello\nexit\n") == [
            "> say,INSERT,hello",
            'say OP_INSERT word="hello"',
            "> exit",
        ]
        assert server.wait(20) == 0


def test_a_function_takes_no_options(tmp_path: Path) -> None:
    (tmp_path / "echoing2.py").write_text(DRIVER)
    result = CliRunner().invoke(app, ["serve-model", f"{tmp_path}/echoing2.py:echo", "-o", "loud=true"])
    assert result.exit_code == 2
    assert "takes no options" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py:Traffic"], 'file "nowhere.py" does not exist'),
        ([f"{TRAFFIC}:Nothing"], 'module "traffic" has no "Nothing"'),
        ([f"{TRAFFIC}:Traffic", "-o", "least=1"], 'has no option "least"'),
        ([f"{TRAFFIC}:Traffic", "-o", "least"], 'option "least" has no value'),
        (["pathlib:Path.cwd"], "returns PosixPath, not a TextDriver"),
        (["traffic"], 'invalid model path "traffic"'),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["serve-model", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve-model", f"{TRAFFIC}:Traffic", "--port", str(port)])
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
