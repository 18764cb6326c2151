"""The service with recorded answers, before which the page stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.recorded import Recorded, recorded


@pytest.fixture
def service() -> Iterator[Recorded]:
    with recorded() as made:
        made.runs()
        yield made
