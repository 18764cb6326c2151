"""Modules that a start loads while it waits for brokers and the database."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rowtide_connectors.api import LoadingSource, TopicSource


def load_ahead(sources: Sequence[TopicSource]) -> None:
    """Let the sources load their decoders in a separate thread.

    Only the end of the process waits for this thread, because it must not end while machine code is
    loaded. Code that needs a module earlier loads it, or waits for that module.
    """
    loading = [source for source in sources if isinstance(source, LoadingSource)]

    def load() -> None:
        for source in loading:
            source.load()

    if loading:
        threading.Thread(target=load, name="load ahead").start()
