"""A procedural model in the flow (docs/sql/semantics.md#models); plain Python, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from rowtide.engine.generated import generated
from rowtide.engine.loading import model_maker
from rowtide.engine.model import Sent
from rowtide.engine.recoverable import KEEP_AFTER, Jumped, ModelFailure, RecoverableModel, TakenRowop, stored
from rowtide.engine.typed_state import load_state
from rowtide.engine.values import column_check
from rowtide.errors import FaultError, Reason, RowtideError
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput
from rowtide.operators.faults import rejected
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.splitting import BEFORE, key_of, merged_given, split_clock, split_state
from rowtide.operators.storage.key_parts import parts_of
from rowtide.plan.nodes import Model, Node
from rowtide.plan.nodes.model import first_field
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import INTEGER_BYTES, Field, Kind, RowType
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound

MODELS = "models"
STATE = "state"
MOST_EVENTS = 1_000_000
"""Limit of events of one model at one rowtime: more than a model needs, few enough to detect a hang."""
MOST_STATE_BYTES = 1 << 30
"""Size limit of a model, with all keys, in a snapshot. Several copies are in memory while it is written."""
KEEP_AFTER_SPLIT = 256
"""Minimum steps between stored states of the model of one key, because there are many models."""


class _Gives(NamedTuple):
    """One output: the parts before and after its fields in a tagged row, and how values are stored."""

    before: Row
    behind: Row
    changes: bool
    surely_fits: Callable[[Row], bool]
    checks: tuple[Callable[[Any], object], ...]
    names: tuple[str, ...]


@dataclass(slots=True)
class _Part:
    """The model of one key. ``first`` is the place of its first row, ``due`` when its next event is."""

    key: Row
    number: int
    model: RecoverableModel
    first: tuple[int, int, int]
    due: int | None = None


class ModelOperator:
    """Runs the model's events and rows in the order of rowtime. No row waits.

    A split model has one instance for each key, created at its first row; events of one rowtime run in
    the order in which the instances were created. A model that is not split exists from the start.

    An event at t runs as soon as the bound or a row has reached t. At the end of time the known
    events still run, and those that they schedule up to the last of these.
    """

    def __init__(self, node: Model, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._origin = site.origin
        self._bound = EARLIEST
        self._given = self._before = 0
        self._accepts = [
            (port.name, first_field(node.accepts, number), port.row_type)
            for number, port in enumerate(node.accepts)
        ]
        self._gives = _outputs(node)
        self._width = len(node.key)
        self._ranks = Ranks(origin for origins in site.port_origins for origin in origins)
        self._make = model_maker(node.relation, node.path, dict(node.options), node.folder)
        self._parts: dict[Row, _Part] = {}
        self._made: list[_Part] = []
        # The due time and the number of the model. An entry is stale if the due time of the model has changed.
        self._due: list[tuple[int, int]] = []
        self._jumped: Jumped | None = None
        if not self._width:
            self._part((), (EARLIEST, 0, 0))

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, tagged rows in rowtime order."""
        out: list[TimedRow] = []
        faults: list[Fault] = []
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            for timed in tray.rows():
                self._run_events(timed.rowtime, out, faults)
                self._take(timed, out, faults)
            self._bound = max(self._bound, int(tray.rowtime[-1]))
        self._bound = max(self._bound, bound.rowtime)
        self._run_events(self._bound, out, faults)
        self.account.rows_out += len(out)
        given = Tray.from_rows(self._node.row_type, out) if out else None
        return StepOutput(given, self._bound_out(), faults)

    def table_inside(self, name: str) -> Tray | None:
        """Return the rows that wait: those of a split model key by key."""
        for port in self._node.gives:
            if port.name.upper() == name and all(port.name in part.model.tables for part in self._made):
                fields = tuple(Field(field.name.upper(), field.type) for field in port.row_type)
                held = (row for part in self._made for row in part.model.tables[port.name])
                rows = (
                    TimedRow(self._bound, self._origin, number, Opcode.INSERT, tuple(row))
                    for number, row in enumerate(held)
                )
                return Tray.from_rows(RowType(fields), rows)
        return None

    def jumps_from(self) -> int | None:
        wants = self._jumped is None and any(part.model.wants_jump for part in self._made)
        return self._bound if wants else None

    def jump(self, before: int, after: int) -> None:
        if self._jumped is not None:
            return
        self._jumped = Jumped(before, after)
        for part in self._made:
            self._tell_jump(part)

    def _tell_jump(self, part: _Part) -> None:
        if self._jumped is not None and self._jumped.before < self._jumped.after:
            part.model.jump(*self._jumped)
            self._note_due(part)

    def held(self) -> int:
        """Return 0: no row waits, because output rows are the model's own."""
        return 0

    def snapshot(self) -> State:
        """``models`` has one row a key, in order of the first rows."""
        parts = self._made
        origins = np.array([part.first[1] for part in parts], dtype=np.int64)
        contents = self._stored()
        return {
            "account": self.account.to_arrow(),
            "clock": _clock_table(self._bound, self._given, self._jumped, self._before),
            MODELS: pa.table(
                {
                    **{
                        name: pa.array([part.first[place] for part in parts], pa.int64())
                        for place, name in enumerate((ROWTIME, ORIGIN, COUNTER))
                    },
                    RANK: self._ranks.of(origins) if self._width else origins,
                    STATE: pa.array(contents, pa.large_binary()),
                }
            ),
        }

    def _stored(self) -> list[bytes]:
        """Return the state of each model, with its key, as bytes.

        Raises:
          FaultError: it cannot be stored, or is too large.
        """
        found: list[bytes] = []
        total = 0
        for part in self._made:
            found.append(stored((part.key, part.model.snapshot()), self._node.relation))
            total += len(found[-1])
            if total > MOST_STATE_BYTES:
                raise FaultError(
                    f'the state of model "{self._node.relation}" is too large for a snapshot: more than '
                    f"{MOST_STATE_BYTES:,} bytes",
                    hint="Remove unneeded state from the model, or keep it in an engine table of the "
                    "pipeline.",
                )
        return found

    def restore(self, state: State) -> None:
        """Implement the contract.

        Raises:
          FaultError: the model's class has changed, and its state does not fit.
        """
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._bound, self._given = clock["bound"], clock["given"]
        jumped, self._before = _jumped(clock), clock.get(BEFORE, 0)
        self._parts, self._made, self._due, self._jumped = {}, [], [], None
        for row in state[MODELS].to_pylist():
            try:
                key, content = load_state(row[STATE])
                part = self._part(key, (row[ROWTIME], row[ORIGIN], row[COUNTER]))
                part.model.restore(content)
            except Exception as error:
                # A class that has changed fails in any way.
                text = (
                    error.message if isinstance(error, RowtideError) else f"{type(error).__name__}: {error}"
                )
                raise FaultError(
                    f'the state of model "{self._node.relation}" does not fit "{self._node.path}": {text}',
                    hint="Run the version of the module that wrote it.",
                ) from error
            self._note_due(part)
        # The models have it in their own states.
        self._jumped = jumped

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        # The models of all keys, in the order of their first rows.
        parts = pa.concat_tables([state[MODELS] for state in states])
        clocks = [state["clock"].to_pylist()[0] for state in states]
        return {
            "account": pa.concat_tables([state["account"] for state in states]),
            "clock": _clock_table(
                max(clock["bound"] for clock in clocks), merged_given(clocks), _jumped(clocks[0])
            ),
            MODELS: parts.sort_by([(name, "ascending") for name in (ROWTIME, RANK, COUNTER)]),
        }

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        (key,) = key_of(node)
        fields = node.inputs[0].row_type
        keys = [load_state(content)[0] for content in state[MODELS].column(STATE).to_pylist()]
        columns = [
            Column.from_values(fields[index].type, (each[at] for each in keys))
            for at, index in enumerate(key)
        ]
        by_part = {MODELS: parts_of(columns, parts)}
        return [*split_state({**state, "clock": split_clock(state["clock"])}, by_part, parts)]

    def _part(self, key: Row, first: tuple[int, int, int]) -> _Part:
        """Make the model of a key."""
        keep_after = KEEP_AFTER_SPLIT if self._width else KEEP_AFTER
        model = RecoverableModel(self._make, self._judge, keep_after)
        part = self._parts[key] = _Part(key, len(self._made), model, first)
        self._made.append(part)
        if self._jumped is not None and first[0] < self._jumped.after:
            self._tell_jump(part)
        return part

    def _note_due(self, part: _Part) -> None:
        """Note the time of a model's next event."""
        due = part.model.next_event
        if due != part.due:
            part.due = due
            if due is not None:
                heappush(self._due, (due, part.number))

    def _run_events(self, until: int, out: list[TimedRow], faults: list[Fault]) -> None:
        if not self._due or self._due[0][0] > until:
            return
        if until == LATEST:
            known = (part.model.last_event for part in self._made)
            until = max(event for event in known if event is not None)
        reached, count = EARLIEST, 0
        while self._due and self._due[0][0] <= until:
            due, number = heappop(self._due)
            part = self._made[number]
            if due != part.due:
                continue
            part.due = None
            count = count + 1 if due == reached else 0
            reached = due
            if count > MOST_EVENTS * len(self._made):
                raise FaultError(
                    f'model "{self._node.relation}" schedules events at rowtime {due} without end',
                    hint="Schedule the next event at a later rowtime.",
                )
            try:
                self._give(part.model.run_event(), out)
            except ModelFailure as failure:
                message = f"an event: {failure}"
                faults.append(
                    Fault(self._node.relation, Reason.FUNCTION, message, due, self._origin, self._given)
                )
            self._note_due(part)

    def _take(self, timed: TimedRow, out: list[TimedRow], faults: list[Fault]) -> None:
        name, first, row_type = self._accepts[cast("int", timed.row[0])]
        row = timed.row[first : first + len(row_type)]
        key = timed.row[1 : 1 + self._width]
        part = self._parts.get(key) or self._part(key, (timed.rowtime, timed.origin, timed.counter))
        try:
            sent = part.model.take(TakenRowop(name, Opcode(timed.opcode), row, timed.rowtime))
        except ModelFailure as failure:
            self.account.rejected += 1
            given = timed._replace(row=row)
            faults.append(rejected(self._node.relation, Reason.FUNCTION, str(failure), given, row_type.names))
            return
        self.account.done += 1
        self._give(sent, out)
        self._note_due(part)

    def _give(self, sent: Sequence[Sent], out: list[TimedRow]) -> None:
        for name, opcode, row, rowtime in sent:
            if opcode is not Opcode.NOP:
                self._given += 1
                before, behind = self._gives[name][:2]
                out.append(TimedRow(rowtime, self._origin, self._given, opcode, (*before, *row, *behind)))

    def _judge(self, sent: Sent) -> None:
        """Check that a rowop can be an output.

        Raises:
          ValueError: a stream gets a DELETE, or a column cannot hold a value.
        """
        gives = self._gives[sent.output]
        if sent.opcode is Opcode.DELETE and not gives.changes:
            raise ValueError(f'output "{sent.output}" is a stream and takes no DELETE')
        if gives.surely_fits(sent.row):
            return
        for check, value, name in zip(gives.checks, sent.row, gives.names, strict=True):
            if value is not None:
                try:
                    check(value)
                except (TypeError, ValueError) as error:
                    raise ValueError(
                        f'field "{name}" of output "{sent.output}" cannot hold {value!r}'
                    ) from error

    def _bound_out(self) -> Bound:
        if self._bound in (EARLIEST, LATEST) or not self._given:
            return Bound(self._bound)
        return Bound(self._bound, self._origin, self._given)


def _jumped(clock: Mapping[str, Any]) -> Jumped | None:
    # States of older versions contain no jump.
    before, after = clock.get("jumped_from"), clock.get("jumped_to")
    return None if before is None or after is None else Jumped(before, after)


def _clock_table(bound: int, given: int, jumped: Jumped | None, shown_before: int = 0) -> pa.Table:
    before, after = (None, None) if jumped is None else jumped
    return pa.table(
        {
            "bound": [bound],
            "given": [given],
            BEFORE: [shown_before],
            "jumped_from": pa.array([before], pa.int64()),
            "jumped_to": pa.array([after], pa.int64()),
        }
    )


def _surely_fits(row_type: RowType) -> Callable[[Row], bool]:
    """Return a quick check of a row. If it fails, each value must be checked."""
    tests = ["True"]
    for index, field in enumerate(row_type):
        value = f"row[{index}]"
        if field.type.is_integer:
            limit = 1 << (8 * INTEGER_BYTES[field.type.kind] - 1)
            test = f"{value}.__class__ is int and -{limit} <= {value} < {limit}"
        elif field.type.kind is Kind.DOUBLE:
            test = f"{value}.__class__ is float"
        elif field.type.is_text:
            test = f"{value}.__class__ is str"
            test += "" if field.type.precision is None else f" and len({value}) <= {field.type.precision}"
        else:
            test = "False"
        tests.append(f"({value} is None or {test})")
    return generated("surely_fits", ("row",), [f"return {' and '.join(tests)}"])


def _outputs(node: Model) -> dict[str, _Gives]:
    found = {}
    width = len(node.row_type)
    for number, port in enumerate(node.gives):
        first = first_field(node.gives, number)
        count = len(port.row_type)
        found[port.name] = _Gives(
            (number, *(None,) * (first - 1)),
            (None,) * (width - first - count),
            port.changes,
            _surely_fits(port.row_type),
            tuple(column_check(field.type) for field in port.row_type),
            port.row_type.names,
        )
    return found
