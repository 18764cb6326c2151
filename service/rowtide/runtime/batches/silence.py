"""Silent partitions while Spark processes a batch: the rules and the clocks of the live service.

If a silent partition followed the others only after a batch, all rows of the batch would wait for it and come out
in the driver. So it follows within the batch: after all messages of the batch, before its rows are merged. That is
the place of the decision in the log, as if a live service had read the same messages and then decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import numpy as np

from rowtide.checkpoint.ledger import PartitionId
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.backfill.silence import PartitionSilence
from rowtide.runtime.ingest.append_times import AppendTimes
from rowtide.runtime.ingest.idle import IdleWatch
from rowtide.runtime.pipeline_io import PipelineIO


class SilenceInBatch(PartitionSilence):
    """The decisions of a batch.

    Args:
      io: the watch of partitions, and the sources.
      cut: the offset at which each partition ends.
      heard: the partitions that have messages in the batch.
    """

    def __init__(
        self, io: PipelineIO, cut: Mapping[PartitionId, int], heard: Collection[PartitionId]
    ) -> None:
        super().__init__(cut)
        self._io = io
        self._heard = heard
        self._is_looked_up = False

    def _append_times(self, latest: Mapping[str, int]) -> AppendTimes:
        self._look_up(latest)
        return self._io.partitions.append_times

    def _idle(self) -> IdleWatch | None:
        return self._io.partitions.idle

    def _look_up(self, latest: Mapping[str, int]) -> None:
        """Note, once, what the batch has brought, then look up the ends: a partition may have messages since."""
        if self._is_looked_up:
            return
        self._is_looked_up = True
        partitions = self._io.partitions
        for place in self._heard:
            partitions.idle.note_arrival(place)
        for relation, source in sorted(self._io.context.sources.items()):
            has_append_times = partitions.append_times.watches(relation)
            if not has_append_times and partitions.idle.timeout_ms(relation) is None:
                continue
            partitions.append_times.note_arrival(relation, np.array([latest.get(relation, EARLIEST)]))
            ranges = self._io.broker.call(source.ranges)
            self._io.broker.call(partial(self._io.looked_up, relation, ranges))
            # Everything was read before this look-up began: the first time notes it, the second proves it.
            log_ends = {(relation, partition): held.log_end for partition, held in ranges.items()}
            partitions.append_times.look_up(relation, log_ends)
