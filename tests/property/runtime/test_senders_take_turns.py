"""However senders take over from each other, fail and die, the topic has each message once and in order."""

from __future__ import annotations

import random
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from rowtide.checkpoint.outbox import NewMessage
from rowtide.errors import TransientError
from rowtide.runtime.crashpoints import SimulatedCrash
from rowtide.runtime.outbox import sender as sending
from rowtide.runtime.outbox.sender import Sender, SenderParts
from rowtide.runtime.retry import Patience, Retry
from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.api import Guarantee
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.memory.broker import MemoryBroker
from rowtide_connectors.memory.sink import MemorySink
from support.outbox import TOPIC, FailingSink

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(1, 7)),
        st.tuples(st.just("step"), st.integers(0, 2)),
        st.tuples(st.just("die"), st.integers(0, 2)),
    ),
    max_size=40,
)


class World:
    """One outbox, one topic, and senders that do not know of each other. All have the pipeline's epoch."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = VirtualClock()
        self.database = InMemoryDatabase()
        self.ledger = InMemoryLedger(self.database, "p", self.clock)
        self.record = self.ledger.claim("{}", "here")
        self.outbox = self.ledger.outbox("ALERTS")
        self.outbox.open()
        self.broker = MemoryBroker()
        self.broker.create_topic(TOPIC)
        self.made = 0
        self.senders = [self.sender() for _ in range(3)]

    def fate(self, step: str) -> None:
        roll = self.rng.random()
        if roll < 0.1:
            raise UnavailableError(step)
        if roll < 0.15:
            raise SimulatedCrash(step)

    def sender(self) -> Sender:
        sink = FailingSink(MemorySink(self.broker, TOPIC, "p-ALERTS"), self.fate, Guarantee.BY_COMMIT_NUMBER)
        once = Retry(
            "it", clock=self.clock, rng=self.rng, stopping=lambda: False, patience=Patience(wait=False)
        )
        parts = SenderParts(
            "ALERTS",
            self.record.epoch,
            Guarantee.BY_COMMIT_NUMBER,
            False,
            self.ledger,
            self.outbox,
            sink,
            once,
            once,
            self,
            self.clock.monotonic,
        )
        return Sender(parts, self.outbox.open())

    def reach(self, point: str) -> None:
        self.fate(point)

    def commit(self, messages: int) -> None:
        with self.database.begin() as transaction:
            numbers = range(self.made + 1, self.made + messages + 1)
            self.outbox.add(transaction, [NewMessage(str(number).encode(), number) for number in numbers])
        self.made += messages

    def step(self, at: int) -> None:
        try:
            self.senders[at].step()
        except (TransientError, UnavailableError):
            pass
        except SimulatedCrash:
            self.senders[at] = self.sender()

    def topic(self) -> list[int]:
        return [int(value or b"0") for value in self.broker.topic(TOPIC)[0].values]


@given(EVENTS, st.integers(0, 2**32))
def test_each_message_is_sent_once_and_in_order(events: list[tuple[str, int]], seed: int) -> None:
    world = World(random.Random(seed))
    before, sending.BATCH_MESSAGES = sending.BATCH_MESSAGES, 3
    try:
        for what, number in events:
            if what == "commit":
                world.commit(number)
            elif what == "die":
                world.senders[number] = world.sender()
            else:
                world.step(number)
            assert world.topic() == list(range(1, len(world.topic()) + 1))
            assert len(world.topic()) <= world.made
        for _ in count():
            world.step(0)
            state = world.outbox.state()
            if state is not None and state.sent == world.made:
                break
    finally:
        sending.BATCH_MESSAGES = before
    assert world.topic() == list(range(1, world.made + 1))
    assert not world.outbox.read(0, 1, 1)
