"""The contract of a format: what ``rowtide.codec.contract.Decoder`` and the ``Encoder`` beside it promise."""

from __future__ import annotations

import os
import random
import re
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import pytest

from rowtide.codec.contract import Decoder
from rowtide.codec.message import MessageEncoder
from rowtide.codec.options import FormatOptionError
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason
from rowtide.plan.plan import ForeignStream
from rowtide.sql.pipeline import plan_pipeline

UNFORESEEN = re.compile(r"[A-Z]\w*(Error|Exception)\b")
"""The beginning of a fault that is an exception which the decoder did not expect."""

T = TypeVar("T")
Row = tuple[object, ...]
Outcome = tuple[object, ...]
"""A row, or a reason and its message."""


@dataclass(frozen=True, slots=True)
class FormatCase:
    """A declaration of a foreign stream, and messages with what they decode to.

    ``columns`` and ``options`` are written as in SQL; a stream with a ``PRIMARY KEY`` is a table that the topic
    fills. Values of ``good`` are in row form (``rowtide.rows.types``): a TIMESTAMP is in milliseconds since 1970.
    """

    format: str
    columns: str
    good: Mapping[bytes, Row]
    """Messages, and the row of each."""
    bad: Mapping[bytes, Reason]
    """Messages that are rejected."""
    options: Mapping[str, str] = field(default_factory=dict)
    written: bool = True
    """Whether pumps can write the format."""
    nested: Callable[[int], bytes] | None = None
    """Makes a message with so many values within each other; None if the format has no nested values."""

    def stream(self) -> ForeignStream:
        """Return the declaration as planned.

        Raises:
          StatementError: the columns or options are wrong.
        """
        kind = "TABLE" if "PRIMARY KEY" in self.columns.upper() else "FOREIGN STREAM"
        options = {"topic": "messages", "format": self.format, **self.options}
        given = ", ".join(f"{name} '" + text.replace("'", "''") + "'" for name, text in options.items())
        plan = plan_pipeline(
            "CREATE SERVER contract FOREIGN DATA WRAPPER MEMORY;"
            f"CREATE {kind} messages ({self.columns}) SERVER contract OPTIONS ({given});"
        )
        return plan.foreign_streams[0]


class FormatContract:
    """The suite. A subclass has the fixture ``case``."""

    mutated: ClassVar = 10_000
    """The number of messages that are made of those of the case by changes of their bytes."""
    compared: ClassVar = 1_000
    """How many of them are also decoded alone."""

    @pytest.fixture
    def case(self) -> FormatCase:
        """Return a case; a subclass overrides this fixture."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture case")

    def test_a_message_decodes_to_its_row(self, case: FormatCase) -> None:
        """Check each good message."""
        decoder = decoder_of(case.stream())
        assert {message: alone(decoder, message) for message in case.good} == case.good

    def test_a_message_that_does_not_fit_is_rejected_with_a_reason(self, case: FormatCase) -> None:
        """Check the reason of each bad message, and that each has a text."""
        decoder = decoder_of(case.stream())
        found = {message: alone(decoder, message) for message in case.bad}
        assert {message: outcome[0] for message, outcome in found.items()} == case.bad
        assert all(outcome[1] for outcome in found.values())

    def test_a_null_value_is_rejected(self, case: FormatCase) -> None:
        """Check that a message without value and key neither adds nor deletes a row."""
        assert alone(decoder_of(case.stream()), None)[0] == Reason.TOMBSTONE

    def test_a_message_decodes_alike_beside_any_others(self, case: FormatCase) -> None:
        """Check that no message changes how another one decodes, and that no state is kept."""
        rng = random.Random(1)
        messages: list[bytes | None] = [None, *mutations(case, rng, self.compared)]
        decoder, other = decoder_of(case.stream()), decoder_of(case.stream())
        expected = [alone(other, message) for message in messages]
        for batch in batches(range(len(messages)), rng):
            found = outcomes(decoder, [messages[at] for at in batch])
            assert repr(found) == repr([expected[at] for at in batch])

    def test_no_message_stops_a_decoder(self, case: FormatCase) -> None:
        """Check that each mutated message is accepted, or rejected for a reason that the decoder expects."""
        check_mutations(case, seed=2, count=self.mutated)

    @pytest.mark.parametrize("depth", [50, 5_000, 50_000, 500_000])
    def test_no_depth_ends_the_process(self, case: FormatCase, depth: int) -> None:
        """Check in a child process that a nested message is accepted, or rejected for an expected reason."""
        if case.nested is None:
            pytest.skip("the format has no nested values")
        decoder = decoder_of(case.stream())
        batch = [next(iter(case.good)), case.nested(depth), next(iter(case.good))]

        def decode() -> None:
            first, outcome, last = outcomes(decoder, batch)
            assert first == last == case.good[batch[0]]
            assert not (isinstance(outcome[0], Reason) and UNFORESEEN.match(str(outcome[1]))), outcome

        survives(decode)

    def test_a_row_that_is_written_reads_back(self, case: FormatCase) -> None:
        """Check each row of the case; or, of a format that cannot be written, that a pump is refused."""
        stream = case.stream()
        if not case.written:
            with pytest.raises(FormatOptionError, match="cannot be written"):
                MessageEncoder(stream)
            return
        encoder, decoder = MessageEncoder(stream), decoder_of(stream)
        encoder.prepare()
        for row in case.good.values():
            value = encoder.encode(row).value
            assert alone(decoder, value) == row
            assert encoder.encode(row).value == value


def check_mutations(case: FormatCase, seed: int, count: int) -> None:
    """Check that each of so many mutated messages is accepted, or rejected for a reason that the decoder expects."""
    rng = random.Random(seed)
    decoder = decoder_of(case.stream())
    for batch in batches(mutations(case, rng, count), rng):
        for message, outcome in zip(batch, outcomes(decoder, batch), strict=True):
            unforeseen = isinstance(outcome[0], Reason) and UNFORESEEN.match(str(outcome[1]))
            assert not unforeseen, f"{message!r}: {outcome}"


def survives(call: Callable[[], object], seconds: int = 120) -> None:
    """Call ``call`` in a child process; fail if it raises, takes longer than ``seconds``, or ends the process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(seconds)
            call()
            status = 0
        except BaseException:  # noqa: BLE001 - the child runs no further test
            traceback.print_exc()
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child ended with {signal.Signals(-code).name if code < 0 else code}"


def alone(decoder: Decoder, message: bytes | None) -> Outcome:
    """Decode one message."""
    return outcomes(decoder, [message])[0]


def outcomes(decoder: Decoder, messages: Sequence[bytes | None]) -> list[Outcome]:
    """Decode messages; return the row, or the reason and its message, of each one.

    Each message must have exactly one of the two, and faults must be in the order of the messages.
    """
    decoded = decoder.decode(messages)
    rows = list(zip(*(column.to_list() for column in decoded.columns), strict=True))
    accepted, faulty = decoded.accepted.tolist(), [fault.index for fault in decoded.faults]
    assert len(rows) == len(accepted)
    assert (accepted, faulty) == (sorted(accepted), sorted(faulty))
    assert sorted([*accepted, *faulty]) == list(range(len(messages)))
    found: dict[int, Outcome] = dict(zip(accepted, rows, strict=True))
    found |= {fault.index: (fault.reason, fault.message) for fault in decoded.faults}
    return [found[at] for at in range(len(messages))]


def batches(given: Iterable[T], rng: random.Random) -> list[list[T]]:
    """Cut what is given into lists of random lengths."""
    found: list[list[T]] = []
    left = 0
    for each in given:
        if left == 0:
            left = rng.randint(1, 50)
            found.append([])
        left -= 1
        found[-1].append(each)
    return found


def mutations(case: FormatCase, rng: random.Random, count: int) -> list[bytes]:
    """Return the messages of a case, and ``count`` that are made of them."""
    originals = [*case.good, *case.bad]
    return originals + [_mutated(rng.choice(originals), originals, rng) for _ in range(count)]


def _mutated(message: bytes, originals: Sequence[bytes], rng: random.Random) -> bytes:
    changed = bytearray(message)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, to = sorted((rng.randint(0, len(changed)), rng.randint(0, len(changed))))
        match rng.randrange(7):
            case 0 if changed:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            case 1:
                changed[at:at] = rng.randbytes(rng.randint(1, 4))
            case 2:
                del changed[at : min(to, at + 8)]
            case 3:
                del changed[at:]
            case 4:
                changed[at:at] = changed[at:to] * rng.randint(1, 3)
            case 5:
                other = rng.choice(originals)
                changed[at:to] = other[rng.randint(0, len(other)) :]
            case _:
                changed[at:at] = rng.choice((b"\0", b"\xff", b"-", b"9" * 40, b"e", b".", b'"', b"\n", b" "))
    return bytes(changed)
