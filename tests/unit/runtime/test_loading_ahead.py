"""What readers need is loaded beside the start, not before it."""

import threading

from rowtide.runtime.live.loading import load_ahead
from rowtide.testing.in_memory_topic import InMemoryTopic


class SlowTopic(InMemoryTopic):
    """Loads until it is reported that the start has gone on."""

    def __init__(self) -> None:
        super().__init__("slow", 1)
        self.start_went_on, self.loaded = threading.Event(), threading.Event()

    def load(self) -> None:
        assert self.start_went_on.wait(10)
        self.loaded.set()


def test_a_start_goes_on_while_sources_load() -> None:
    slow = SlowTopic()
    load_ahead([InMemoryTopic("ready", 1), slow])
    slow.start_went_on.set()
    assert slow.loaded.wait(10)
