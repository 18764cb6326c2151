"""Aggregators: what a table runs for each group that a change touches.

An aggregator is attached to an index type. Its groups are those of the index
above (at the top: the whole table), and it reads the rows of a group in the
order of its own index. One table operation calls it for each group like this:

* BEFORE_MOD with opcode DELETE, once however many rows change: the group still
  shows its old rows. There is no such call for a group that does not exist yet.
* AFTER_DELETE for each removed row, then AFTER_INSERT for the inserted row: the
  group already shows its final rows. The last of these calls for each group has
  the opcode INSERT, the others NOP.
* COLLAPSE with opcode NOP if the group is left empty, before it is removed.

Several aggregators of a table are called in the order of the index tree: first
those of a group, index by index, each for all changed rows of the group, and
then the groups inside it, again index by index; groups of one index follow each
other in the order of their first changed row. Each kind of call goes through the
whole tree before the next kind starts. COLLAPSE reaches inner groups first.

Results are sent in batches: after all BEFORE_MOD calls, after all AFTER calls,
and after all COLLAPSE calls. The group at the top always exists: it never
collapses, and BEFORE_MOD reaches it even when it is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from rowtide.engine.errors import ModelError, TableError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.handle import RowHandle
from rowtide.engine.table.tree import Group, Groups, Index, Node, indexes_below
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import DELETE, INSERT, NOP, Rowop
from rowtide.engine.values import Value
from rowtide.rows.rowop import Opcode

if TYPE_CHECKING:
    from rowtide.engine.table.table import Table


class AggregatorCall(Enum):
    """Why an aggregator is called."""

    BEFORE_MOD = "AO_BEFORE_MOD"
    AFTER_DELETE = "AO_AFTER_DELETE"
    AFTER_INSERT = "AO_AFTER_INSERT"
    COLLAPSE = "AO_COLLAPSE"


BEFORE_MOD, AFTER_DELETE = AggregatorCall.BEFORE_MOD, AggregatorCall.AFTER_DELETE
AFTER_INSERT, COLLAPSE = AggregatorCall.AFTER_INSERT, AggregatorCall.COLLAPSE


class AggregatorContext:
    """One call of an aggregator for one group; valid until the handler returns.

    ``call`` is the reason for the call, ``opcode`` the opcode of a result that is sent now, ``changed`` the
    row that was inserted or removed (None in BEFORE_MOD and COLLAPSE), ``index`` has the rows of the group
    in order, and ``state`` is the state of the aggregator for the group: assign to it or modify it. The
    length of a context is the number of rows in the group.
    """

    __slots__ = (
        "_group",
        "_handler",
        "_label",
        "_over",
        "_pending",
        "_row_class",
        "aggregator",
        "call",
        "changed",
        "index",
        "opcode",
        "state",
    )

    def __init__(self, aggregator: Aggregator, label: Label, pending: list[Rowop]) -> None:
        self._label = label
        self._row_class = label.row_type.row_class
        self._pending = pending
        self._group: Group | None = None
        self.aggregator = aggregator
        self.call = COLLAPSE
        self.opcode: Opcode = NOP
        self.changed: Row | None = None
        self._handler = aggregator.handler
        self._over: Index = _Over(aggregator.name)  # type: ignore[assignment]
        self.index = self._over
        self.state: Any = None

    def __len__(self) -> int:
        return len(self.index)

    def __bool__(self) -> bool:
        return True

    def rows(self, *path: str) -> Iterator[Row]:
        """Return the rows of the group in order, or in the order of another index of the same group.

        ``path`` is the path of that index inside the group: its name, and those of indexes nested in it.

        Raises:
          ModelError: if the group has no such index.
        """
        if not path:
            return (handle.row for handle in self.index)
        beside = self._order(path[0])
        node = beside.node
        for name in path[1:]:
            found = next((child for child in node.children if child.name == name), None)
            if found is None:
                raise self._no_index(".".join(path))
            node = found
        return (handle.row for index in indexes_below(beside, node) for handle in index)

    def first(self, index: str | None = None) -> Row | None:
        """Return the first row of the group, in its order or that of another index, or None.

        Raises:
          ModelError: if the group has no such index.
        """
        handle = self._order(index).first()
        return None if handle is None else handle.row

    def last(self, index: str | None = None) -> Row | None:
        """Return the last row of the group, in its order or that of another index, or None.

        Raises:
          ModelError: if the group has no such index.
        """
        handle = self._order(index).last()
        return None if handle is None else handle.row

    def _order(self, name: str | None) -> Index:
        if name is None or self._group is None:
            return self.index
        for index in self._group.indexes:
            if index.node.name == name:
                return index
        raise self._no_index(name)

    def _no_index(self, name: str) -> ModelError:
        return ModelError(f'aggregator "{self.aggregator.name}": the group has no index "{name}"')

    def result(self, *values: Value, **named: Value) -> Row:
        """Make a row of the result type; see ``RowType.row``.

        Raises:
          ModelError: if a field does not exist, or there are too many values.
          FieldValueError: if a value does not fit its field.
        """
        return self._label.row_type.row(*values, **named)

    def send(self, row: Row, opcode: Opcode | None = None) -> None:
        """Send a result row with ``opcode``, by default the opcode of the call.

        The row leaves after all aggregators of the table have been called.

        Raises:
          ModelError: if the row is of another type, or the call is over.
          FieldValueError: if ``row`` is a plain tuple and a value does not fit its field.
        """
        if row.__class__ is not self._row_class:
            row = self._label.row_type.adopt(row)
        if self._group is None:
            len(self.index)
        self._pending.append(Rowop(self._label, self.opcode if opcode is None else opcode, row))


class _Over:
    """Replaces the index of a context after its call: every use is an error."""

    def __init__(self, aggregator: str) -> None:
        self._aggregator = aggregator

    def _refuse(self) -> Any:
        raise ModelError(f'aggregator "{self._aggregator}": the context is valid only during a call')

    __len__ = __iter__ = first = last = _refuse


AggregatorHandler = Callable[[AggregatorContext], None]


class Running:
    """The running sums of one group, and the last result sent."""

    __slots__ = ("counts", "sent", "sums")

    def __init__(self, width: int) -> None:
        self.sums: list[Any] = [0] * width
        self.counts = [0] * width
        self.sent: Row | None = None


class Additive(NamedTuple):
    """The functions of an additive aggregator, for a faster call than that of its handler.

    ``refresh`` returns the new result of a group and keeps it as sent; None for an empty group.
    """

    add: Callable[[Running, Row], None]
    subtract: Callable[[Running, Row], None]
    refresh: Callable[[Running, Index], Row | None]


class Aggregator:
    """A computation for each group: its name, the type of its results, and the function that runs.

    The table calls ``handler`` with an ``AggregatorContext``. ``initial_state`` makes the state of a new
    group. If the state does not consist of plain values, ``save_state`` converts it for a snapshot and
    ``load_state`` converts it back. Several table types can use the same aggregator. ``additive`` is for
    ``AdditiveAggregator``.
    """

    def __init__(
        self,
        name: str,
        result_type: RowType,
        handler: AggregatorHandler,
        initial_state: Callable[[], Any] | None = None,
        *,
        save_state: Callable[[Any], Any] | None = None,
        load_state: Callable[[Any], Any] | None = None,
        additive: Additive | None = None,
    ) -> None:
        self.name = name
        self.additive = additive
        self.result_type = result_type
        self.handler = handler
        self.initial_state: Callable[[], Any] = initial_state or _nothing
        self.save_state: Callable[[Any], Any] = save_state or _itself
        self.load_state: Callable[[Any], Any] = load_state or _itself

    def equals(self, other: Aggregator) -> bool:
        """Return whether the other has the same name, an equal result type and the same functions."""
        return self.name == other.name and self.result_type == other.result_type and self._alike(other)

    def matches(self, other: Aggregator) -> bool:
        """Return whether the other has a matching result type and the same functions."""
        return self.result_type.matches(other.result_type) and self._alike(other)

    def _alike(self, other: Aggregator) -> bool:
        mine, theirs = (
            (each.handler, each.initial_state, each.save_state, each.load_state) for each in (self, other)
        )
        return mine == theirs

    def __repr__(self) -> str:
        return f'<Aggregator "{self.name}">'


def _nothing() -> None:
    return None


def _itself(state: Any) -> Any:
    return state


class _Short(NamedTuple):
    """The only aggregator of a kind of group, if it is additive: position, functions, name and label."""

    position: int
    additive: Additive
    name: str
    label: Label


_Callee = tuple[int, AggregatorContext]
"""An aggregator in its groups: the position of its index there, and the context that it is called with."""


class _Place:
    """A kind of group with aggregators in it or in groups inside it.

    ``callees`` are the aggregators on the indexes of such a group, in order; ``inner`` are the positions
    of those of its indexes whose groups have aggregators, with the place of these groups.
    """

    __slots__ = ("callees", "find", "inner", "is_top", "short")

    def __init__(
        self, above: Node | None, top: Group, callees: list[_Callee], inner: list[tuple[int, _Place]]
    ) -> None:
        self.is_top = above is None
        self.callees = callees
        self.inner = inner
        self.short: _Short | None = None
        if len(callees) == 1:
            position, context = callees[0]
            aggregator = context.aggregator
            if aggregator.additive is not None:
                self.short = _Short(position, aggregator.additive, aggregator.name, context._label)
        self.find: Callable[[Row], Group | None] = _finder(above, top)


def _finder(above: Node | None, top: Group) -> Callable[[Row], Group | None]:
    if above is None:
        return lambda row: top
    key_of = above.key_of
    if above.parent is None:
        groups = top.indexes[above.position]
        assert isinstance(groups, Groups)
        held = groups.groups
        return lambda row: held.get(key_of(row))

    def find(row: Row) -> Group | None:
        index = above.locate(top, row)
        return index.groups.get(key_of(row)) if isinstance(index, Groups) else None

    return find


def _split(index: Index, handles: list[RowHandle]) -> dict[Group, list[RowHandle]]:
    """Return the groups of an index that rows belong to, as far as they exist, each with its rows."""
    found: dict[Group, list[RowHandle]] = {}
    for handle in handles:
        group = _group_of(index, handle)
        if group is not None:
            found.setdefault(group, []).append(handle)
    return found


def _group_of(index: Index, handle: RowHandle) -> Group | None:
    assert isinstance(index, Groups)
    group: Group | None = index.groups.get(index.key_of(handle.row))
    return group


class Aggregation:
    """The running aggregators of one table.

    Groups are visited from the top of the index tree down: first the aggregators of a group, in the order
    of its indexes, and then index by index the groups inside it, in the order of their first changed row.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._pending: list[Rowop] = []
        self.labels: dict[str, Label] = {}
        self._contexts: list[AggregatorContext] = []
        self._places: list[_Place] = []
        self._root = self._add_place(None, table.type.nodes)
        with_callees = [place for place in self._places if place.callees]
        self._solo = with_callees[0] if len(with_callees) == 1 else None

    @classmethod
    def of(cls, table: Table) -> Aggregation | None:
        """Return the aggregation of a table that has aggregators; None for one that has none."""
        made = cls(table)
        return made if made.labels else None

    def _add_place(self, above: Node | None, nodes: list[Node]) -> _Place:
        callees = []
        for node in nodes:
            aggregator = node.index_type.aggregator
            if aggregator is not None:
                label = self._table.unit.label(
                    f"{self._table.name}.{aggregator.name}", aggregator.result_type
                )
                self.labels[aggregator.name] = label
                context = AggregatorContext(aggregator, label, self._pending)
                callees.append((node.position, context))
                self._contexts.append(context)
        inner = [
            (node.position, self._add_place(node, node.children)) for node in nodes if node.keeps_empty_groups
        ]
        place = _Place(above, self._table._top, callees, inner)
        self._places.append(place)
        return place

    def before(self, removed: list[RowHandle], inserted: RowHandle | None) -> None:
        """Call all aggregators of the groups that the rows are in or go to, then send."""
        if self._solo is not None and len(removed) <= 1:
            # The usual case: one kind of group, at most one row removed and one inserted.
            old = self._solo.find(removed[0].row) if removed else None
            new = self._solo.find(inserted.row) if inserted is not None else None
            short = self._solo.short
            if short is not None and old is new and old is not None:
                sent = old.states[short.position].sent
                if sent is not None:
                    self._table.unit._run(Rowop(short.label, DELETE, sent), short.label, None)
                return
            if old is not None:
                self._call(self._solo.callees, old, BEFORE_MOD, DELETE, None)
            if new is not None and new is not old:
                self._call(self._solo.callees, new, BEFORE_MOD, DELETE, None)
        else:
            called: set[Group] = set()
            if removed:
                self._before_in(self._root, self._table._top, removed, called)
            if inserted is not None:
                self._before_in(self._root, self._table._top, [inserted], called)
        self._send()

    def _before_in(self, place: _Place, group: Group, handles: list[RowHandle], called: set[Group]) -> None:
        """Call the aggregators of a group, and of those inside it, that ``handles`` belong to."""
        if group not in called:
            called.add(group)
            self._call(place.callees, group, BEFORE_MOD, DELETE, None)
        for position, inner in place.inner:
            for below, mine in _split(group.indexes[position], handles).items():
                self._before_in(inner, below, mine, called)

    def after(self, removed: list[RowHandle], inserted: RowHandle | None) -> None:
        """Call all aggregators of the groups that have changed, then send; then collapse empty groups."""
        if self._solo is not None and len(removed) <= 1:
            self._after_at_most_two(self._solo, removed[0] if removed else None, inserted)
        else:
            root, top = self._root, self._table._top
            if removed:
                self._after_in(root, top, AFTER_DELETE, removed, inserted)
            if inserted is not None:
                self._after_in(root, top, AFTER_INSERT, [inserted], None)
            self._send()
            if removed:
                self._collapse_in(root, top, removed)
                self._send()

    def _after_in(
        self,
        place: _Place,
        group: Group,
        call: AggregatorCall,
        handles: list[RowHandle],
        later: RowHandle | None,
    ) -> None:
        """Call the aggregators of a group, and of those inside it, for changes before ``later``."""
        last = handles[-1] if later is None else None
        for callee in place.callees:
            for handle in handles:
                self._call((callee,), group, call, INSERT if handle is last else NOP, handle.row)
        for position, inner in place.inner:
            index = group.indexes[position]
            below_later = None if later is None else _group_of(index, later)
            for below, mine in _split(index, handles).items():
                self._after_in(inner, below, call, mine, later if below is below_later else None)

    def _collapse_in(self, place: _Place, group: Group, removed: list[RowHandle]) -> None:
        """Collapse the groups inside one that ``removed`` have left empty, the innermost first."""
        for position, inner in place.inner:
            index = group.indexes[position]
            assert isinstance(index, Groups)
            for below, mine in _split(index, removed).items():
                self._collapse_in(inner, below, mine)
                if not below.indexes[0]:
                    self._call(inner.callees, below, COLLAPSE, NOP, None)
                    index.close(below.key, below)

    def _after_replacement(self, short: _Short, group: Group, removed: Row, inserted: Row) -> None:
        """Run an additive aggregator for a group in which one row replaced another."""
        position, additive, name, label = short
        state, call = group.states[position], AFTER_DELETE
        try:
            additive.subtract(state, removed)
            call = AFTER_INSERT
            additive.add(state, inserted)
            result = additive.refresh(state, group.indexes[position])
        except Exception as error:
            raise self._failed(name, call, error) from error
        if result is not None:
            self._table.unit._run(Rowop(label, INSERT, result), label, None)

    def _after_at_most_two(
        self, place: _Place, removed: RowHandle | None, inserted: RowHandle | None
    ) -> None:
        new = place.find(inserted.row) if inserted is not None else None
        old = None
        if removed is not None:
            old = place.find(removed.row)
            assert old is not None
            if old is new and place.short is not None and inserted is not None:
                self._after_replacement(place.short, old, removed.row, inserted.row)
                return
            self._call(place.callees, old, AFTER_DELETE, NOP if old is new else INSERT, removed.row)
        if inserted is not None:
            assert new is not None
            self._call(place.callees, new, AFTER_INSERT, INSERT, inserted.row)
        self._send()
        if removed is not None and old is not None and not place.is_top and not old.indexes[0]:
            self._collapse_in(self._root, self._table._top, [removed])
            self._send()

    def _call(
        self,
        callees: Sequence[_Callee],
        group: Group,
        call: AggregatorCall,
        opcode: Opcode,
        changed: Row | None,
    ) -> None:
        for position, context in callees:
            state = group.states[position]
            context.call = call
            context.opcode = opcode
            context.changed = changed
            context.state = state
            context.index = group.indexes[position]
            context._group = group
            try:
                context._handler(context)
            except Exception as error:
                self._end()
                self._pending.clear()
                raise self._failed(context.aggregator.name, call, error) from error
            if context.state is not state:
                group.states[position] = context.state

    def _failed(self, aggregator: str, call: AggregatorCall, error: Exception) -> TableError:
        return TableError(self._table.name, f'aggregator "{aggregator}" at {call.value}: {error}')

    def _end(self) -> None:
        """Invalidate all contexts."""
        for context in self._contexts:
            context.index = context._over
            context._group = None

    def _send(self) -> None:
        self._end()
        pending, unit = self._pending, self._table.unit
        if len(pending) == 1:
            rowop = pending.pop()
            unit._run(rowop, rowop.label, None)
        elif pending:
            sending = pending[:]
            pending.clear()
            for rowop in sending:
                unit._run(rowop, rowop.label, None)
