"""Every worked example of the Triceps guide that prints something, replayed.

A transcript names its model in the first line; a line that starts with ``> `` is fed to the model
(``engine_models_*.py``), and the lines after it are what the model prints.
"""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import pytest

from golden.engine.engine_models_aggregation import AGGREGATION_MODELS
from golden.engine.engine_models_joins import JOIN_MODELS
from golden.engine.engine_models_scheduling import SCHEDULING_MODELS
from golden.engine.engine_models_tables import TABLE_MODELS
from golden.engine.engine_models_time import TIME_MODELS
from rowtide.model_server.text_server import TextServer

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.txt"))
MODELS = {**SCHEDULING_MODELS, **TABLE_MODELS, **AGGREGATION_MODELS, **JOIN_MODELS, **TIME_MODELS}


def replay(written: list[str]) -> list[str]:
    model = MODELS[written[0].removeprefix("model: ")]()
    return [written[0], *model.replay(written[1:])]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_model_prints_what_the_guide_prints(transcript: Path, request: pytest.FixtureRequest) -> None:
    written = transcript.read_text().splitlines()
    replayed = replay(written)
    if request.config.getoption("--rewrite"):
        transcript.write_text("\n".join(replayed) + "\n")
    assert replayed == written


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_model_prints_the_same_to_a_client(transcript: Path) -> None:
    """As the guide's ``run`` does: all input first, then ``exit``, then every answer is read."""
    written = transcript.read_text().splitlines()
    server = TextServer(MODELS[written[0].removeprefix("model: ")](), echo=True)
    serving = Thread(target=server.run)
    serving.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        inputs = [line.removeprefix("> ") for line in written if line.startswith("> ")]
        client.sendall("".join(f"{line}\n" for line in [*inputs, "exit,OP_INSERT"]).encode())
        client.shutdown(socket.SHUT_WR)
        answers = client.makefile(encoding="utf-8").read().splitlines()
    serving.join(20)
    assert not serving.is_alive()
    expected = [line for line in written[1:] if not line.startswith("#")]
    assert answers == [*expected, "> exit,OP_INSERT"]


def test_every_model_has_a_transcript() -> None:
    used = {path.read_text().splitlines()[0].removeprefix("model: ") for path in TRANSCRIPTS}
    assert used == set(MODELS)
