"""The unit: runs labels, one rowop at a time, each to its end before the next.

Pending rowops wait in a stack of frames, each a first-in-first-out queue. The
outermost frame always exists. A call pushes a frame, runs the handler of the
label, runs the rowops that the handler forked into that frame, then the chained
labels in the same frame, depth first, and pops the frame.

All scheduling rules are in this module. They are those of release 1.0 of the
original: a forked rowop runs in its own frame on top of the one it waited in,
and a mark remembers the frame outside that of the label that sets it. A unit
can use those of release 1.1 instead: see ``Scheduling`` and
docs/decisions/0006-rules-of-release-1-1-are-an-option-of-a-unit.md.
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
    """A part of a model that has state: a table, a collapse, or a class of the model."""

    def snapshot(self) -> Any:
        """Return the state as plain values."""

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned; called on a new part."""


class CountsChanges:
    """A stateful part that counts its changes: a table, a collapse, the clock, or a class of the model.

    If all parts of a model count their changes and none has changed, an error costs little: the model
    continues without being restored.
    """

    __slots__ = ()

    @property
    def changes(self) -> int:
        """A number that is different after every change of the state."""
        raise NotImplementedError


STACK_LIMIT = 100
"""The most frames that a unit nests: one takes up to eight Python frames, and Python allows a thousand."""

NO_FIELDS = RowType()


class Unit:
    """The labels of one model, and the order in which they run; a unit is used by one thread.

    ``recursion_limit`` is how often one label may be executing at the same time: 1 forbids recursion.
    ``stack_limit`` is the greatest depth of nested calls. ``scheduling`` selects the rules for forked
    rowops. Set ``tracer`` to a function to observe every step. A unit is a context manager that clears
    itself at the end of the block.
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
        """The rules for forked rowops; can be set while no rowops are queued or running.

        Raises:
          ModelError: if it is set at another time; nothing has changed.
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
        """Make a label; without a handler it only passes rowops on to the labels chained to it.

        ``on_clear`` runs when the label is cleared. A label that is not ``reentrant`` cannot be called
        while it is executing, even if the unit allows recursion.
        """
        made = Label(self, name, row_type, handler, on_clear)
        made.reentrant = reentrant
        self._labels.append(made)
        return made

    def handler(self, row_type: RowType, *, reentrant: bool = True) -> Callable[[Handler], Label]:
        """Return a decorator that makes a label of a function, with the name of the function."""
        return lambda handler: self.label(handler.__name__, row_type, handler, reentrant=reentrant)

    def clearing_label(self, name: str, on_clear: Callable[[], None]) -> Label:
        """Make a label that takes no rowops and runs ``on_clear`` when the unit is cleared."""
        made = self.label(name, NO_FIELDS, None, on_clear)
        made._handler = made._refuse
        return made

    def call(self, *items: Rowop | Tray) -> None:
        """Run rowops now, each with everything that follows from it; a tray runs in its own frame.

        Raises:
          ModelError: if a rowop belongs to another unit.
          RecursionFault: if a label is executing and may not be called again, or calls nest too deeply.
          ExecutionError: if a label raised; changes that were made before it remain.
        """
        for item in items:
            if isinstance(item, Rowop):
                self._run(item, item.label, None)
            else:
                self._call_tray(item)

    def fork(self, *items: Rowop | Tray) -> None:
        """Queue rowops to run after the current handler, before its caller continues.

        Raises:
          ModelError: if a rowop belongs to another unit.
        """
        frame = self._frames[-1]
        if frame is None:
            frame = self._frames[-1] = Frame()
        self._enqueue(frame, items)

    def schedule(self, *items: Rowop | Tray) -> None:
        """Queue rowops at the end of the outermost frame, to run when it is drained.

        Raises:
          ModelError: if a rowop belongs to another unit.
        """
        self._enqueue(self._outermost, items)

    def set_mark(self, mark: FrameMark) -> None:
        """Set ``mark`` on the frame outside that of the current label.

        With shared frames, set it on the frame of that label itself. Outside of a call, unset the mark.
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
        """Queue rowops in the marked frame, or as ``schedule`` does if the mark is not set.

        Raises:
          ModelError: if the mark or a rowop belongs to another unit.
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
        """Run all rowops of the innermost frame; outside of a call, of the outermost frame.

        Raises:
          ExecutionError: if a label raised; the other rowops in the frame are dropped.
        """
        frame = self._frames[-1]
        if frame is not None:
            self._drain(frame)

    def run_next(self) -> bool:
        """Run one rowop of the innermost frame; return whether there was one."""
        frame = self._frames[-1]
        if frame is None or not frame.queue:
            return False
        rowop = frame.queue.popleft()
        self._run(rowop, rowop.label, None)
        return True

    @property
    def is_empty(self) -> bool:
        """Whether no rowops are queued in any frame."""
        return all(frame is None or not frame.queue for frame in self._frames)

    @property
    def stack_depth(self) -> int:
        """The number of frames: 1 when nothing runs, at least 2 inside a handler."""
        return len(self._frames)

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels of this unit, in the order in which they were made."""
        return tuple(self._labels)

    def keep(self, name: str, part: Stateful) -> None:
        """Include a part of the model in the snapshots of the unit; tables and collapses add themselves."""
        self._parts.append((name, part))

    def changes(self) -> tuple[int, ...] | None:
        """Return the change counts of all parts; None if a part does not count, or rowops are queued."""
        counted = [part.changes for _, part in self._parts if isinstance(part, CountsChanges)]
        is_known = len(counted) == len(self._parts) and len(self._frames) == 1 and not self._outermost.queue
        return tuple(counted) if is_known else None

    def held(self) -> int:
        """Return the total length of the parts that have one: for a table, its number of rows."""
        return sum(len(part) for _, part in self._parts if isinstance(part, Sized))

    def snapshot(self) -> dict[str, Any]:
        """Return the state of all parts of the model by name, as plain values.

        Raises:
          ModelError: if rowops are queued or running, or two parts have the same name.
          TableError: if a table is broken or being changed.
        """
        if len(self._frames) > 1 or not self.is_empty:
            raise ModelError(f'unit "{self.name}" cannot be saved while it has rowops to run')
        names = [name for name, _ in self._parts]
        for name in names:
            if names.count(name) > 1:
                raise ModelError(f'unit "{self.name}" has two parts called "{name}", it cannot be saved')
        return {name: part.snapshot() for name, part in self._parts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore, in a new model, the state that ``snapshot`` of an equal model returned.

        Raises:
          ModelError: if the names of the parts differ.
          TableError: if a table is not empty.
        """
        if sorted(state) != sorted(name for name, _ in self._parts):
            raise ModelError(
                f'unit "{self.name}" does not have the same parts as the snapshot: {", ".join(state)}'
            )
        for name, part in self._parts:
            part.restore(state[name])

    def clear(self) -> None:
        """Clear all labels, which drops the references between them; the unit can no longer be used."""
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
                f'label "{rowop.label.name}" belongs to unit "{rowop.label.unit.name}", '
                f'not to unit "{self.name}"'
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
        """Run one label: in its own frame or, chained from ``source``, in the current one."""
        frames = self._frames
        if label._running and (label._running >= self.recursion_limit or not label.reentrant):
            times = f" {label._running} times" if label._running > 1 else ""
            raise RecursionFault(
                f'label "{label.name}" was called again while it was executing{times}: {rowop}',
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
                # Most labels are the end of a chain: running them here saves a call for each rowop.
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
        """Run a label in a new frame, then in the same frame all forked rowops, first in, first out."""
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
        """Return the error for reaching Python's own limit, by long chains or by deep calls in handlers."""
        executing = sum(one._running for one in self._labels)
        return RecursionFault(
            f'label "{label.name}" is nested too deeply for Python, '
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
