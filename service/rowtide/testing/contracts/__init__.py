"""Contract suites for connectors and formats: the tests that each implementation of an interface passes.

A suite is a class of pytest. Its subclass in a test module returns the implementation from a fixture, and pytest
collects the tests of the suite with it::

    class TestSource(SourceContract):
        @pytest.fixture
        def log(self) -> Log: ...

A suite needs pytest and Rowtide only. Rowtide's own connectors and formats pass the same suites.
"""

from rowtide.testing.contracts.format import FormatCase, FormatContract
from rowtide.testing.contracts.message_sink import MessageSinkContract, Read, Topic
from rowtide.testing.contracts.source import Log, SourceContract

__all__ = [
    "FormatCase",
    "FormatContract",
    "Log",
    "MessageSinkContract",
    "Read",
    "SourceContract",
    "Topic",
]
