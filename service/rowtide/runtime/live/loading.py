"""What a start loads while it waits for brokers and the database: it would wait for it later."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rowtide_connectors.api import LoadingSource, TopicSource


def load_ahead(sources: Sequence[TopicSource]) -> None:
    """Let the sources load what they read with, in a thread of its own.

    No one waits for it but the end of the process, which must not come while machine code is loaded: who
    needs what is not there yet loads it, or waits for just that.
    """
    loading = [source for source in sources if isinstance(source, LoadingSource)]

    def load() -> None:
        for source in loading:
            source.load()

    if loading:
        threading.Thread(target=load, name="load ahead").start()
