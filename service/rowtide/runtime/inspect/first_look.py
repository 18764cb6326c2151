"""A look at the first messages of a new pipeline: what ``connectors check --sample`` finds is logged by ``run``, too.

The messages are those that the pipeline reads anyway, so the look reads nothing and delays no start. It changes no row.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from rowtide.codec.format_options import REGISTRY_URL
from rowtide.errors import Reason
from rowtide.plan.plan import ForeignStream
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.inspect.sampling import Sample, findings

LOOKED_AT = 100
"""Messages of a stream that are compared with its declaration."""
MOST_BYTES = 64 * 1024
"""Larger messages are left out, so that those that are held take little memory."""
LEAST = 10
"""So many are compared with the first commit that has them. The end of a run takes fewer."""

_log = structlog.get_logger("rowtide")


class FirstLook:
    """Compares the first messages of streams with their declarations, once.

    Streams of a registry are left out: their messages name the schema, and to fetch it may take time.
    """

    def __init__(self, pipeline: str, streams: Iterable[ForeignStream]) -> None:
        self._pipeline = pipeline
        self._left = {each.name: each for each in streams if REGISTRY_URL not in dict(each.options)}
        self._taken: dict[str, dict[int, list[bytes]]] = {name: {} for name in self._left}

    def entered(self, delivery: Delivery) -> None:
        """Take messages of a delivery, and look at them once there are enough."""
        if delivery.relation not in self._left:
            return
        taken = self._taken[delivery.relation].setdefault(delivery.partition, [])
        # A message that a person has skipped may be one that ends the process when it is decoded.
        skipped = {fault.counter for fault in delivery.faults if fault.reason is Reason.SKIPPED}
        offsets = delivery.messages.offsets.tolist()
        values = [
            value
            for offset, value in zip(offsets, delivery.messages.values, strict=True)
            if value is not None and len(value) <= MOST_BYTES and offset not in skipped
        ]
        taken += values[: LOOKED_AT - len(taken)]
        self._look(LOOKED_AT)

    def committed(self) -> None:
        """Look at the streams of which some messages are there."""
        self._look(LEAST)

    def ended(self) -> None:
        """Look at what is there: no more messages follow."""
        self._look(1)

    def _look(self, least: int) -> None:
        for name, partitions in self._taken.items():
            if name in self._left and sum(map(len, partitions.values())) >= least:
                stream = self._left.pop(name)
                for found in findings(stream, Sample(name, partitions)):
                    if not found.fits:
                        _log.warning(
                            "declaration_does_not_fit",
                            pipeline=self._pipeline,
                            stream=name,
                            reason=found.text,
                            hint=found.hint,
                        )
        self._taken = {name: self._taken[name] for name in self._left}
