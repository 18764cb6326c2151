"""LookupJoin: joins each rowop that arrives with the current rows of a table.

The join does not remember left rows and does not react to changes of the table: it
is for reference tables that are filled before the rows that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from rowtide.engine.errors import ModelError
from rowtide.engine.join.key_conversion import KeyConversion, can_be_equal
from rowtide.engine.projection import EVERY_FIELD, choose_fields, picker, project
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.index_type import Hashed
from rowtide.engine.table.table import Table
from rowtide.engine.table.tree import Groups, KeyedLeaf, Node
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import DELETE, INSERT, Rowop
from rowtide.engine.values import type_name
from rowtide.rows.rowop import Opcode

By = Mapping[str, str] | Sequence[str]
"""Pairs of a left and a right field; or field patterns that turn left names into right ones."""

GroupSize = Callable[[Opcode, Row], int]
"""Returns how many left rows have the key of a row, after its rowop has been applied."""


class LookupKind(StrEnum):
    """What happens to a left row without a match."""

    INNER = "inner"
    LEFT = "left"


class LookupJoin:
    """Joins the rows that arrive at ``input`` with a table, and sends the results to ``out``.

    The arguments can be read from attributes of the same names, with defaults filled in.

    Args:
      name: the labels are ``name.in`` and ``name.out``.
      left: the type of the left rows, or a label to take them from.
      right: the table to look them up in; the join belongs to its unit.
      by: pairs of a left and a right field, or patterns; the right fields must be the key of the index.
      index: the path of the index to use; by default the first hashed index.
      left_fields, right_fields: patterns for the fields of the result, as for ``choose_fields``.
      left_first: whether the left fields come first in the result.
      kind: ``inner`` drops left rows without a match, ``left`` sends them with NULLs in the right fields.
      limit_one: join with the first match only.
      mirror_key: in a result without a match, copy the key to the key fields of the absent side.
      opposite_outer: the right side is an outer side too: results of right rows without a match are
        replaced. Only for a join that is part of a two-sided join.
      group_size: returns the number of left rows with the key of a row; None if there is at most one.
      convert_keys: convert keys between text, bytes and integers: a number is equal to its decimal text,
        text to its bytes in UTF-8; a key that cannot be converted has no match.

    Raises:
      ModelError: if a field does not exist, or the key does not fit the index.
    """

    def __init__(
        self,
        name: str,
        left: Label | RowType,
        right: Table,
        *,
        by: By,
        index: str | Sequence[str] | None = None,
        left_fields: Sequence[str] = EVERY_FIELD,
        right_fields: Sequence[str] = EVERY_FIELD,
        left_first: bool = True,
        kind: LookupKind | str = LookupKind.LEFT,
        limit_one: bool = False,
        mirror_key: bool = False,
        opposite_outer: bool = False,
        group_size: GroupSize | None = None,
        convert_keys: bool = False,
    ) -> None:
        self.name = name
        self.right = right
        self.convert_keys = convert_keys
        self.unit = right.unit
        self.left_type = left.row_type if isinstance(left, Label) else left
        self.kind = join_kind(name, kind, LookupKind)
        self.left_fields, self.right_fields = tuple(left_fields), tuple(right_fields)
        self.left_first = left_first
        self.mirror_key = mirror_key
        self.opposite_outer = opposite_outer
        self.group_size = group_size
        try:
            self._node = lookup_node(right, index)
            self.by = key_pairs(self.left_type, by)
            self._check_key()
            backwards = [(theirs, ours) for ours, theirs in self.by]
            self._to_right = KeyConversion(self.left_type, right.row_type, self.by, converts=convert_keys)
            self._to_left = KeyConversion(right.row_type, self.left_type, backwards, converts=convert_keys)
            left_part = (self.left_type, choose_fields(self.left_type.names, left_fields))
            right_part = (right.row_type, choose_fields(right.row_type.names, right_fields))
            if left_first:
                self.result_type, self._join = project(left_part, right_part)
            else:
                self.result_type, swapped = project(right_part, left_part)
                self._join = lambda left, right: swapped(right, left)
        except ModelError as error:
            raise ModelError(f'join "{name}": {error.message}', hint=error.hint) from error
        sources = [("left", left_part[1]), ("right", right_part[1])]
        self._origins = [
            f"{side}.{old}" for side, part in (sources if left_first else sources[::-1]) for old, _ in part
        ]
        self.limit_one = limit_one or self._node.is_leaf
        self.index = self._node.path
        # Makes a right row with the key of a left one; also used to mirror the key to an absent row.
        self._sample = _translator(self.left_type, right.row_type, self.by)
        self._left_absent: Callable[[Row], Row] = _absent
        self._right_absent: Callable[[Row], Row] = _absent
        if mirror_key:
            to_left = _translator(right.row_type, self.left_type, backwards)
            self._left_absent = _converted(to_left, self._to_left)
            self._right_absent = _converted(self._sample, self._to_right)
        self._find = self._make_finder()
        self.out = self.unit.label(f"{name}.out", self.result_type)
        self.input = self.unit.label(f"{name}.in", self.left_type, self._take)
        if isinstance(left, Label):
            left.chain(self.input)

    def _check_key(self) -> None:
        key = self.right.type.key_of_path(*self._node.path)
        if sorted(key) != sorted(theirs for _, theirs in self.by):
            pairs = ", ".join(f"{ours}={theirs}" for ours, theirs in self.by)
            raise ModelError(
                f'index "{".".join(self._node.path)}" has the key {", ".join(key)}, but is joined by {pairs}'
            )
        if self.convert_keys:
            return
        for ours, theirs in self.by:
            mine = self.left_type.types[self.left_type.index(ours)]
            other = self.right.row_type.types[self.right.row_type.index(theirs)]
            if not can_be_equal(mine, other):
                raise ModelError(
                    f'fields "{ours}" and "{theirs}" can never be equal: '
                    f"{type_name(mine)} and {type_name(other)}",
                    hint="Pass convert_keys=True to convert between text, bytes and integers.",
                )

    def _make_finder(self) -> Callable[[Row], Sequence[Row]]:
        find, convert = self._find_as_they_are(), self._to_right.exact
        if not self._to_right:
            return find

        def find_converted(row: Row) -> Sequence[Row]:
            converted = convert(row)
            return () if converted is None else find(converted)

        return find_converted

    def _find_as_they_are(self) -> Callable[[Row], Sequence[Row]]:
        hashed = self._find_hashed() if self._node.parent is None else None
        if hashed is not None:
            return hashed
        node, top, sample_of = self._node, self.right._top, self._sample
        if node.is_leaf:

            def find_one(row: Row) -> Sequence[Row]:
                sample = sample_of(row)
                leaf = node.locate(top, sample)
                found = None if leaf is None else leaf.find(sample)
                return () if found is None else (found.row,)

            return find_one

        def find_all(row: Row) -> Sequence[Row]:
            sample = sample_of(row)
            above = node.locate(top, sample)
            group = above.groups.get(node.key_of(sample)) if isinstance(above, Groups) else None
            return () if group is None else [handle.row for handle in group.indexes[0]]

        return (lambda row: find_all(row)[:1]) if self.limit_one else find_all

    def _find_hashed(self) -> Callable[[Row], Sequence[Row]] | None:
        """Return a faster look-up in a top-level hashed index: its key is taken from the left row."""
        index_type = self._node.index_type
        if not isinstance(index_type, Hashed):
            return None
        ours = {theirs: mine for mine, theirs in self.by}
        key_of = self.left_type.getter(*(ours[theirs] for theirs in index_type.key_fields))
        index = self.right._top.indexes[self._node.position]
        if isinstance(index, KeyedLeaf):
            rows = index.rows

            def find_one(row: Row) -> Sequence[Row]:
                found = rows.get(key_of(row))
                return () if found is None else (found.row,)

            return find_one
        assert isinstance(index, Groups)
        groups, limit_one = index.groups, self.limit_one

        def find_all(row: Row) -> Sequence[Row]:
            group = groups.get(key_of(row))
            if group is None:
                return ()
            if limit_one:
                return (group.indexes[0].first().row,)
            return [handle.row for handle in group.indexes[0]]

        return find_all

    def lookup(self, row: Row) -> list[Row]:
        """Return the results for a left row without sending them.

        Raises:
          ModelError: if ``row`` is of another type.
          FieldValueError: if ``row`` is a plain tuple and a value does not fit its field.
        """
        row = self.left_type.adopt(row)
        found = self._find(row)
        if found:
            return [self._join(row, right) for right in found]
        return [self._join(row, self._right_absent(row))] if self.kind is LookupKind.LEFT else []

    def describe(self) -> str:
        """Return a readable description of what the join does with a rowop, one line for each step."""
        key = ", ".join(f"{theirs} = left.{ours}" for ours, theirs in self.by)
        many = "one row at most" if self._node.is_leaf else "the first row" if self.limit_one else "all rows"
        index = f"index {'.'.join(self.index)}, {self._node.index_type.describe()}"
        converted = ", keys converted" if self._to_right else ""
        lines = [
            f'join "{self.name}": {self.kind}, each row of {self.input.name} as left',
            f'  find {many} of table "{self.right.name}" where {key}{converted} ({index})',
            *(f"  {line}" for line in self._describe_sending()),
            f"  a result, sent to {self.out.name}, is",
        ]
        for (name, kind), origin in zip(self.result_type.items(), self._origins, strict=True):
            lines.append(f"    {type_name(kind)} {name} = {origin}")
        if self.kind is LookupKind.LEFT or self.opposite_outer:
            other = "the key of the other, else " if self.mirror_key else ""
            lines.append(f"  an absent side has {other}NULLs")
        return "\n".join(lines)

    def _describe_sending(self) -> list[str]:
        """Return the lines that describe which rowops are sent: the steps of ``_take``."""
        alone = self.kind is LookupKind.LEFT
        nothing = f"none found: send {'left with right absent, same opcode' if alone else 'nothing'}"
        if not self.opposite_outer:
            return [nothing, "for each found as right: send both, same opcode"]
        first, last = "", ""
        if self.group_size is not None:
            first, last = "if left is the first of its key, ", "if left was the last of its key, "
        return [
            nothing,
            f"OP_INSERT, for each found as right: {first}OP_DELETE with left absent; OP_INSERT of both",
            f"OP_DELETE, for each found as right: OP_DELETE of both; {last}OP_INSERT with left absent",
            "OP_NOP with any found: send nothing",
        ]

    def _take(self, rowop: Rowop) -> None:
        row, opcode = rowop.row, rowop.opcode
        send, join = self.out.send, self._join
        found = self._find(row)
        if not found:
            if self.kind is LookupKind.LEFT:
                send(opcode, join(row, self._right_absent(row)))
        elif not self.opposite_outer:
            for right in found:
                send(opcode, join(row, right))
        elif opcode is INSERT:
            is_first = self.group_size is None or self.group_size(opcode, row) == 1
            for right in found:
                if is_first:
                    send(DELETE, join(self._left_absent(right), right))
                send(INSERT, join(row, right))
        elif opcode is DELETE:
            is_last = self.group_size is None or self.group_size(opcode, row) == 0
            for right in found:
                send(DELETE, join(row, right))
                if is_last:
                    send(INSERT, join(self._left_absent(right), right))


def _absent(row: Row) -> Row:
    return None


def _translator(source: RowType, target: RowType, pairs: Iterable[tuple[str, str]]) -> Callable[[Row], Row]:
    """Return the function that makes a row of ``target`` from the paired fields of ``source``, else NULL."""
    named = {new: old for old, new in pairs}
    width = len(source)
    pick = picker([source.index(named[name]) if name in named else width for name in target.names])
    make, nothing = target.make, (None,)
    return lambda row: make(pick(row + nothing))


def _converted(translate: Callable[[Row], Row], conversion: KeyConversion) -> Callable[[Row], Row]:
    """Return the same translation with a conversion of the key fields before it, if it is needed."""
    convert = conversion.or_null
    return translate if conversion.is_same_type else lambda row: translate(convert(row))


def lookup_node(table: Table, index: str | Sequence[str] | None) -> Node:
    """Return the index to look rows up in: at a path, or the first hashed index at the top.

    Raises:
      ModelError: if it does not exist.
    """
    if index is not None:
        return table.type.node(*([index] if isinstance(index, str) else index))
    node = table.type.first_of_kind(Hashed)
    if node is None:
        raise ModelError(f'table "{table.name}" has no hashed index at the top, the join needs a path')
    return node


def key_pairs(left: RowType, by: By) -> list[tuple[str, str]]:
    """Return the (left field, right field) pairs of a join condition.

    Raises:
      ModelError: if a left field does not exist or the condition is empty.
    """
    pairs = list(by.items()) if isinstance(by, Mapping) else choose_fields(left.names, by)
    for ours, _ in pairs:
        left.index(ours)
    if not pairs:
        raise ModelError("a join needs at least one pair of fields to join by")
    return pairs


Kind = TypeVar("Kind", bound=StrEnum)


def join_kind(name: str, kind: str, kinds: type[Kind]) -> Kind:
    """Return the kind of a join by its name.

    Raises:
      ModelError: if it does not exist.
    """
    try:
        return kinds(kind)
    except ValueError as error:
        raise ModelError(
            f'join "{name}": kind "{kind}" does not exist', hint=f"The kinds are {', '.join(kinds)}."
        ) from error
