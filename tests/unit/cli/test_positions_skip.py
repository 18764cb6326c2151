"""``positions skip``: a message that stops the pipeline is skipped for good, and nothing else is."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from rowtide.codec.contract import Decoded
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.errors import FaultError
from unit.cli.test_service_commands import Files

POISON = b'{"sensor":"poison","amount":1}'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    decode = JsonDecoder.decode

    def dies(self: JsonDecoder, values: Sequence[bytes | None]) -> Decoded:
        if POISON in values:
            raise FaultError("an invariant broke")
        return decode(self, values)

    monkeypatch.setattr(JsonDecoder, "decode", dies)
    return Files(tmp_path)


def poison(files: Files) -> None:
    """Let partition 0 have 10 good messages, the poison at offset 10, and then more."""
    files.broker.produce("readings", [POISON], timestamps=[20_000], partition=0)
    for number in range(21, 30):
        value = b'{"sensor":"s","amount":%d}' % number
        files.broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)


def times(files: Files) -> list[object]:
    query = "select at from raw_log order by at"
    return [at for (at,) in sqlite3.connect(files.database).execute(query)]


def skipped(files: Files) -> list[tuple[object, ...]]:
    rows = json.loads(files.call("errors list", "--reason", "SKIPPED", "--json"))["errors"]
    return [(row["partition"], row["offset"], row["reason"]) for row in rows]


@pytest.mark.parametrize("rows_before", [True, False])
def test_the_pipeline_goes_on_behind_a_skipped_message_also_after_a_recovery(
    files: Files, rows_before: bool
) -> None:
    if rows_before:
        files.call("run", "--until-end")
    poison(files)
    for _ in range(2):
        files.call("run", "--until-end", code=1)
    assert "The next start skips offset 10" in files.call("positions skip", "readings", "0", "10", "--yes")
    files.call("run", "--until-end")
    assert skipped(files) == [(0, 10, "SKIPPED: by `rowtide positions skip`")]
    # 29 s waits for the other partition; the other message is broken.
    wanted = [f"1970-01-01 00:00:{number:02}.000" for number in range(29) if number not in (7, 20)]
    assert times(files) == wanted
    # A recovery without a snapshot reads the message again, and so does a replay.
    assert json.loads(files.call("state list", "--json", code=1))["snapshots"] == []
    files.broker.produce("readings", [b'{"sensor":"s","amount":1}'], timestamps=[60_000], partition=0)
    files.broker.produce("readings", [b'{"sensor":"s","amount":1}'], timestamps=[60_000], partition=1)
    files.call("run", "--until-end")
    assert times(files)[: len(wanted) + 1] == [*wanted, "1970-01-01 00:00:29.000"]
    assert len(skipped(files)) == 1
    files.call("replay", "--compare")


def test_a_skip_is_refused_where_there_is_no_message_to_skip(files: Files) -> None:
    def refused(*arguments: str) -> str:
        return files.call("positions skip", *arguments, "--yes", code=2)

    assert "has committed nothing yet" in refused("readings", "0", "0")
    files.call("run", "--until-end")
    assert "is committed: the position is 10" in refused("readings", "0", "9")
    assert "is not in the log: it ends at 10" in refused("readings", "0", "10")
    assert "has no committed position" in refused("readings", "7", "0")
    assert "no pump" in refused("nothing", "0", "0")
    assert "Add --yes." in files.call("positions skip", "readings", "0", "10", code=2)
    refused("readings", "0", "9" * 21)
    assert json.loads(files.call("positions", "--json"))["epoch"] == 1


@pytest.mark.parametrize("order", [("positions", "show"), ("positions",)])
def test_positions_are_shown_with_and_without_the_word(files: Files, order: tuple[str, ...]) -> None:
    files.call("run", "--until-end")
    shown = json.loads(files.call(" ".join(order), "--json"))
    assert [each["next_offset"] for each in shown["positions"]] == [10, 10]
