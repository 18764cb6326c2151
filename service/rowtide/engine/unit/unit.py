"""The unit: runs labels, one rowop at a time, each worked off before the next.

Pending rowops stand in a stack of frames, each a first-in-first-out queue. The
outermost frame is always there. A call pushes a frame, runs the label's
handler, runs what the handler forked into that frame, then the chained labels
in the same frame, depth first, and pops the frame.

All scheduling rules stand here and nowhere else. They are those of release 1.0
of the original (engine decision 1): a forked rowop runs in a frame of its own
on top of the one it waited in, and a mark remembers the frame outside that of
the label which sets it. A unit may choose those of release 1.1 instead
(decision 6): see ``Scheduling``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sized
from types import TracebackType
from typing import Any, Protocol

from rowtide.engine.errors import ExecutionError, ModelError, RecursionFault
from rowtide.engine.row_type import RowType
from rowtide.engine.unit.frame import Frame, FrameMark
from rowtide.engine.unit.label import Handler, Label
from rowtide.engine.unit.rowop import Rowop, Tray
from rowtide.engine.unit.scheduling import Entry, Scheduling
from rowtide.engine.unit.trace import Moment, TraceEvent, Tracer


class Stateful(Protocol):
    """A part of a model that remembers something: a table, a collapse, or one of the model's own."""

    def snapshot(self) -> Any:
        """Give everything it remembers, as plain values."""

    def restore(self, state: Any) -> None:
        """Take over, while new, what ``snapshot`` gave."""


class CountsChanges:
    """A stateful part that can tell cheaply whether it is as it was: tables, collapses and the clock are.

    A part of a model's own may be one too. A model fails cheaply while all its parts are, and none has
    changed yet.
    """

    __slots__ = ()

    @property
    def changes(self) -> int:
        """A number that is another one after every change of what the part remembers."""
        raise NotImplementedError


STACK_LIMIT = 100
"""Frames a unit may nest: one takes up to eight Python frames, of which Python allows a thousand."""

NO_FIELDS = RowType()


class Unit:
    """Labels that work together in one thread.

    ``recursion_limit`` is how often one label may be executing at the same time: 1 forbids recursion.
    ``stack_limit`` is how deep calls may nest. ``scheduling`` says by which rules forked rowops run.
    """

    def __init__(
        self,
        name: str,
        *,
        recursion_limit: int = 1,
        stack_limit: int = STACK_LIMIT,
        scheduling: Scheduling = Scheduling.OWN_FRAMES,
    ) -> None:
        self.name = name
        self._scheduling = scheduling
        self._shares_frames = scheduling is Scheduling.SHARED_FRAMES
        self.recursion_limit = recursion_limit
        self.stack_limit = stack_limit
        self.tracer: Tracer | None = None
        self._labels: list[Label] = []
        self._parts: list[tuple[str, Stateful]] = []
        self._outermost = Frame()
        # A frame is only made when something is queued in it or marks it; None stands for an empty one.
        self._frames: list[Frame | None] = [self._outermost]

    @property
    def scheduling(self) -> Scheduling:
        """By which rules forked rowops run.

        May be set while the unit has nothing to run.

        Raises:
          ModelError: when set while rowops are queued or running; nothing has changed.
        """
        return self._scheduling

    @scheduling.setter
    def scheduling(self, rules: Scheduling) -> None:
        if len(self._frames) > 1 or not self.is_empty:
            raise ModelError(f'unit "{self.name}" cannot change its scheduling while it has rowops to run')
        self._scheduling = rules
        self._shares_frames = rules is Scheduling.SHARED_FRAMES

    def label(
        self,
        name: str,
        row_type: RowType,
        handler: Handler | None = None,
        on_clear: Callable[[], None] | None = None,
        *,
        reentrant: bool = True,
    ) -> Label:
        """Make a label; without a handler it only passes rowops on to those chained to it.

        One that is not ``reentrant`` may not be reached while it is executing, whatever the unit allows.
        """
        made = Label(self, name, row_type, handler, on_clear)
        made.reentrant = reentrant
        self._labels.append(made)
        return made

    def handler(self, row_type: RowType, *, reentrant: bool = True) -> Callable[[Handler], Label]:
        """Decorate a function to make it a label of its own name."""
        return lambda handler: self.label(handler.__name__, row_type, handler, reentrant=reentrant)

    def clearing_label(self, name: str, on_clear: Callable[[], None]) -> Label:
        """Make a label that takes no data and only exists to run ``on_clear`` when the unit is cleared."""
        made = self.label(name, NO_FIELDS, None, on_clear)
        made._handler = made._refuse
        return made

    def call(self, *items: Rowop | Tray) -> None:
        """Run rowops now, each with everything that follows from it; a tray runs in a frame of its own.

        Raises:
          ExecutionError: if a label raised; what had already been done stays done.
        """
        for item in items:
            if isinstance(item, Rowop):
                self._run(item, item.label, None)
            else:
                self._call_tray(item)

    def fork(self, *items: Rowop | Tray) -> None:
        """Queue rowops to run after the handler that is running now, before its caller goes on."""
        frame = self._frames[-1]
        if frame is None:
            frame = self._frames[-1] = Frame()
        self._enqueue(frame, items)

    def schedule(self, *items: Rowop | Tray) -> None:
        """Queue rowops at the end of the outermost frame, to run when it is drained."""
        self._enqueue(self._outermost, items)

    def set_mark(self, mark: FrameMark) -> None:
        """Let ``mark`` remember the frame outside that of the label that is running now.

        With shared frames: the frame of that label itself. Outside of any call the mark is unset.
        """
        frames = self._frames
        if len(frames) < 2:
            mark._frame = None
            return
        position = -1 if self._shares_frames else -2
        frame = frames[position]
        if frame is None:
            frame = frames[position] = Frame()
        mark._frame, mark._unit = frame, self

    def loop_at(self, mark: FrameMark, *items: Rowop | Tray) -> None:
        """Queue rowops in the marked frame, or like ``schedule`` if the mark is no longer set.

        Raises:
          ModelError: if the mark stands on a frame of another unit, or a rowop is of one.
        """
        frame = mark._frame
        if frame is None or not frame.is_open:
            frame = self._outermost
        elif mark._unit is not None and mark._unit is not self:
            raise ModelError(
                f'mark "{mark.name}" is set in unit "{mark._unit.name}", not in unit "{self.name}"'
            )
        self._enqueue(frame, items)

    def drain(self) -> None:
        """Run all rowops of the innermost frame (outside of any call: the outermost one).

        Raises:
          ExecutionError: if a label raised; what was still queued in the frame is dropped.
        """
        frame = self._frames[-1]
        if frame is not None:
            self._drain(frame)

    def run_next(self) -> bool:
        """Run one rowop of the innermost frame; give False if there is none."""
        frame = self._frames[-1]
        if frame is None or not frame.queue:
            return False
        rowop = frame.queue.popleft()
        self._run(rowop, rowop.label, None)
        return True

    @property
    def is_empty(self) -> bool:
        """Tell whether no rowop is queued anywhere."""
        return all(frame is None or not frame.queue for frame in self._frames)

    @property
    def stack_depth(self) -> int:
        """How many frames there are: 1 when nothing runs, at least 2 inside a handler."""
        return len(self._frames)

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels of this unit in the order in which they were made."""
        return tuple(self._labels)

    def keep(self, name: str, part: Stateful) -> None:
        """Include a part of the model in the unit's snapshots; tables and collapses do it by themselves."""
        self._parts.append((name, part))

    def changes(self) -> tuple[int, ...] | None:
        """Give what stays the same while no part changes; None if one does not count or a rowop is queued."""
        counted = [part.changes for _, part in self._parts if isinstance(part, CountsChanges)]
        is_known = len(counted) == len(self._parts) and len(self._frames) == 1 and not self._outermost.queue
        return tuple(counted) if is_known else None

    def held(self) -> int:
        """Count what the parts of the model that have a length hold: rows, for a table."""
        return sum(len(part) for _, part in self._parts if isinstance(part, Sized))

    def snapshot(self) -> dict[str, Any]:
        """Give everything that the parts of the model remember, by name, as plain values.

        Raises:
          ModelError: if rowops are queued or running, or two parts have the same name.
        """
        if len(self._frames) > 1 or not self.is_empty:
            raise ModelError(f'unit "{self.name}" cannot be saved while it has rowops to run')
        names = [name for name, _ in self._parts]
        for name in names:
            if names.count(name) > 1:
                raise ModelError(f'unit "{self.name}" has two parts called "{name}", it cannot be saved')
        return {name: part.snapshot() for name, part in self._parts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Let the parts of a new model take over what ``snapshot`` of an equal model gave.

        Raises:
          ModelError: if the parts are not the same.
        """
        if sorted(state) != sorted(name for name, _ in self._parts):
            raise ModelError(f'unit "{self.name}" has not the parts of the snapshot: {", ".join(state)}')
        for name, part in self._parts:
            part.restore(state[name])

    def clear(self) -> None:
        """Clear every label, so that nothing refers to anything any more; the unit is done with."""
        for label in self._labels:
            label.clear()
        self._labels.clear()
        self._parts.clear()
        self._outermost.queue.clear()

    def __enter__(self) -> Unit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def _enqueue(self, frame: Frame, items: tuple[Rowop | Tray, ...]) -> None:
        rowops = [rowop for item in items for rowop in ((item,) if isinstance(item, Rowop) else item)]
        for rowop in rowops:
            self._own(rowop)
        frame.queue.extend(rowops)

    def _own(self, rowop: Rowop) -> None:
        if rowop.label._unit is not self:
            if rowop.label.is_cleared:
                rowop.label._refuse(rowop)
            raise ModelError(
                f'label "{rowop.label.name}" is of unit "{rowop.label.unit.name}", not of unit "{self.name}"'
            )

    def _drain(self, frame: Frame) -> None:
        queue = frame.queue
        try:
            while queue:
                rowop = queue.popleft()
                self._run(rowop, rowop.label, None)
        except BaseException:
            queue.clear()
            raise

    def _call_tray(self, tray: Tray) -> None:
        frame = Frame()
        self._enqueue(frame, (tray,))
        self._frames.append(frame)
        try:
            self._drain(frame)
        finally:
            self._frames.pop()
            frame.is_open = False

    def _run(self, rowop: Rowop, label: Label, source: Label | Entry | None) -> None:
        """Run one label: in a frame of its own or, chained from ``source``, in the one that is there."""
        frames = self._frames
        if label._running and (label._running >= self.recursion_limit or not label.reentrant):
            times = f" {label._running} times" if label._running > 1 else ""
            raise RecursionFault(
                f'label "{label.name}" was reached again while it was executing{times}: {rowop}',
                hint="Use schedule or a loop instead of calling back.",
            )
        if source is None:
            if label._unit is not self:
                self._own(rowop)
            if len(frames) > self.stack_limit:
                raise RecursionFault(
                    f'label "{label.name}" cannot be called: '
                    f'unit "{self.name}" allows {self.stack_limit} nested calls'
                )
            if self._shares_frames:
                self._run_sharing(rowop, label)
                return
            frames.append(None)
        label._running += 1
        last: Label | None = None
        try:
            if self.tracer is not None:
                self._run_traced(self.tracer, rowop, label, source)
                return
            handler = label._handler
            if handler is not None:
                handler(rowop)
                frame = frames[-1]
                if frame is not None and frame.queue and not self._shares_frames:
                    self._drain(frame)
            for follower in label._followers:
                handler = follower._handler
                if handler is None or follower._followers or follower._running:
                    self._run(rowop, follower, label)
                    continue
                # The end of a chain, where most labels are, runs here: a call less for each rowop.
                follower._running = 1
                last = follower
                handler(rowop)
                frame = frames[-1]
                if frame is not None and frame.queue and not self._shares_frames:
                    self._drain(frame)
                follower._running = 0
                last = None
        except ExecutionError as error:
            if last is not None:
                error.stack.append(_stack_line(last, rowop, label))
            error.stack.append(_stack_line(label, rowop, source))
            raise
        except RecursionError:
            cause = self._too_deep(last or label)
            raise _explained(cause, rowop, label, source, last) from cause
        except Exception as error:
            raise _explained(error, rowop, label, source, last) from error
        finally:
            if last is not None:
                last._running = 0
            label._running -= 1
            if source is None:
                frame = frames.pop()
                if frame is not None:
                    frame.is_open = False

    def _run_sharing(self, rowop: Rowop, label: Label) -> None:
        """Run a label in a new frame, then in that same frame all that is forked, first come first served."""
        frames = self._frames
        frames.append(None)
        try:
            self._run(rowop, label, Entry.CALLED)
            frame = frames[-1]
            if frame is None or not frame.queue:
                return
            if self.tracer is not None:
                self.tracer(TraceEvent(self, label, None, rowop, Moment.BEFORE_DRAIN))
            while frame.queue:
                forked = frame.queue.popleft()
                self._run(forked, forked.label, Entry.FORKED)
            if self.tracer is not None:
                self.tracer(TraceEvent(self, label, None, rowop, Moment.AFTER_DRAIN))
        finally:
            frame = frames.pop()
            if frame is not None:
                frame.is_open = False

    def _run_traced(self, tracer: Tracer, rowop: Rowop, label: Label, entry: Label | Entry | None) -> None:
        source = entry if isinstance(entry, Label) else None
        tracer(TraceEvent(self, label, source, rowop, Moment.BEFORE))
        if label._handler is not None:
            label._handler(rowop)
        if not self._shares_frames:
            tracer(TraceEvent(self, label, source, rowop, Moment.DRAIN))
            self.drain()
        if label._followers:
            tracer(TraceEvent(self, label, source, rowop, Moment.BEFORE_CHAINED))
            for follower in label._followers:
                self._run(rowop, follower, label)
            if self._shares_frames:
                tracer(TraceEvent(self, label, source, rowop, Moment.AFTER_CHAINED))
        tracer(TraceEvent(self, label, source, rowop, Moment.AFTER))

    def _too_deep(self, label: Label) -> RecursionFault:
        """Say that Python's own limit came first: long chains, or deep functions, between nested calls."""
        executing = sum(one._running for one in self._labels)
        return RecursionFault(
            f'label "{label.name}" is nested too deep for Python, '
            f"which allows {sys.getrecursionlimit()} calls: {executing} labels are executing",
            hint="Use schedule, a loop or shorter chains.",
        )


def _explained(
    cause: Exception, rowop: Rowop, label: Label, source: Label | Entry | None, last: Label | None
) -> ExecutionError:
    explained = ExecutionError((last or label).name, cause)
    if last is not None:
        explained.stack.append(_stack_line(last, rowop, label))
    explained.stack.append(_stack_line(label, rowop, source))
    return explained


def _stack_line(label: Label, rowop: Rowop, source: Label | Entry | None) -> str:
    if isinstance(source, Label):
        how = f'chained from "{source.name}"'
    else:
        how = "forked" if source is Entry.FORKED else "called"
    return f'label "{label.name}", {how}, with {rowop}'
