"""Which error rows can be read again by a plan."""

from __future__ import annotations

from rowtide.checkpoint.ledger import ErrorRow, StoredError
from rowtide.codec.contract import DecodeFault, Decoder
from rowtide.codec.format_options import REGISTRY_URL
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, StatementError
from rowtide.flow.gates import Gates, Target
from rowtide.flow.program import Program
from rowtide.operators.contract import RESUBMITTED
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, Plan


class Resubmittable:
    """Returns why error rows cannot be resubmitted to a plan's relations."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._streams = {stream.name: stream for stream in plan.foreign_streams}
        self._decoders: dict[str, Decoder] = {}
        self._refusals: dict[tuple[str, str, bool], str | None] = {}

    def refusal(self, stored: StoredError) -> str | None:
        """Return why a row cannot be resubmitted; None: it can."""
        row = stored.row
        if stored.resubmitted is not None:
            return "already resubmitted"
        if row.topic is None:
            return "made by an operator, so no message can be read again"
        if row.raw is None:
            return "the message has no bytes, or they are unknown"
        if row.stream is None or row.stream not in self._streams:
            return "stored before rows knew their stream, or the stream is gone"
        if row.message_time is None and row.rowtime is None:
            return "the time of the message is not known"
        if (fault := self._decode_fault(self._streams[row.stream], row)) is not None:
            return f"the message does not change, and cannot be decoded: {fault.message}"
        key = (row.stream, row.relation, row.row is not None)
        if key not in self._refusals:
            self._refusals[key] = self._refusal(*key)
        return self._refusals[key]

    def _decode_fault(self, stream: ForeignStream, row: ErrorRow) -> DecodeFault | None:
        """Return why the message of an undecoded row is rejected again; None: it may be accepted.

        A schema of a registry may have changed since, and changes of a table have keys, too: these are read again.
        """
        undecoded = row.row is None and row.reason.partition(":")[0] == Reason.DECODE.value
        if not undecoded or stream.key or REGISTRY_URL in dict(stream.options):
            return None
        if stream.name not in self._decoders:
            self._decoders[stream.name] = decoder_of(stream)
        return next(iter(self._decoders[stream.name].decode([row.raw]).faults), None)

    def _refusal(self, stream: str, relation: str, entered: bool) -> str | None:
        place = (stream, RESUBMITTED)
        program = Program(table_nodes(self._plan), {stream: (0, RESUBMITTED)})
        if place not in program.entrances:
            return f'no pump reads "{stream}"'
        try:
            Gates(program, {place: Target(relation, entered)})
        except StatementError as error:
            return error.message
        return None
