"""JoinTwo: two tables joined by equal keys, every change of either shown as changes of the result.

It consists of two lookup joins: each change of one table is looked up in the
other. For an outer side, the first row of a key on the other side replaces the
results without a match, and the removal of the last such row restores them.

In a self-join the left side follows the table before its changes and the right
side after them, so that every pair of rows is sent exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from rowtide.engine.errors import ModelError
from rowtide.engine.join.lookup_join import By, GroupSize, LookupJoin, join_kind, key_pairs, lookup_node
from rowtide.engine.projection import EVERY_FIELD
from rowtide.engine.row_type import Row
from rowtide.engine.table.table import Table
from rowtide.engine.table.tree import Groups, Node
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import INSERT
from rowtide.engine.values import type_name
from rowtide.rows.rowop import Opcode


class JoinKind(StrEnum):
    """The sides whose rows are in the result even without a match."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    OUTER = "outer"


class UniqueKey(StrEnum):
    """How the key fields, which both sides have, appear in the result.

    With FIRST, LEFT and RIGHT the result has the key fields of one side only; with MANUAL the field patterns
    decide. In all these cases a row without a match fills the key fields of the absent side. NONE does
    neither.
    """

    FIRST = "first"
    LEFT = "left"
    RIGHT = "right"
    MANUAL = "manual"
    NONE = "none"


class JoinTwo:
    """Joins two tables of one unit, and sends the changes of the result to ``out``.

    The arguments can be read from attributes of the same names, with defaults filled in: field patterns
    include the keys that are left out, and ``unique_key`` is the side that ``first`` stands for.

    Args:
      name: the output label is called ``name.out``; its rowops show the label ``name.leftLookup.out`` or
        ``name.rightLookup.out``, for the side whose change caused them.
      left, right: the tables, which can be the same.
      left_index, right_index: paths of the indexes to join by; their key fields are paired in order.
      kind: inner, left, right or outer.
      by: pairs of a left and a right key field, to pair them by name.
      left_fields, right_fields, left_first: as for ``LookupJoin``.
      unique_key: how the key fields appear in the result; see ``UniqueKey``.
      left_from, right_from: labels to take changes from instead of the tables. Look-ups still see the whole
        tables, so results are right only if both sides are filtered in the same way, by the key.
      allow_key_types: compare keys of different types without converting them.
      convert_keys: convert keys between text, bytes and integers, as ``LookupJoin`` does.
      simple_minded: never replace results without a match: wrong for outer joins unless rows are only
        inserted.

    Raises:
      ModelError: if the tables belong to two units, a field or an index does not exist, or the keys do not
        fit each other.
    """

    def __init__(
        self,
        name: str,
        left: Table,
        right: Table,
        *,
        left_index: str | Sequence[str],
        right_index: str | Sequence[str],
        kind: JoinKind | str = JoinKind.INNER,
        by: By | None = None,
        left_fields: Sequence[str] = EVERY_FIELD,
        right_fields: Sequence[str] = EVERY_FIELD,
        left_first: bool = True,
        unique_key: UniqueKey | str = UniqueKey.FIRST,
        left_from: Label | None = None,
        right_from: Label | None = None,
        allow_key_types: bool = False,
        convert_keys: bool = False,
        simple_minded: bool = False,
    ) -> None:
        self.name = name
        self.left, self.right = left, right
        self.kind = join_kind(name, kind, JoinKind)
        self.left_first = left_first
        if left.unit is not right.unit:
            raise ModelError(
                f'join "{name}": tables "{left.name}" and "{right.name}" belong to different units'
            )
        try:
            left_node, right_node = lookup_node(left, left_index), lookup_node(right, right_index)
            self.by = _pairs(left, left_node, right, right_node, by)
            if not (allow_key_types or convert_keys):
                _check_types(left, right, self.by)
        except ModelError as error:
            raise ModelError(f'join "{name}": {error.message}', hint=error.hint) from error
        kept = join_kind(name, unique_key, UniqueKey)
        if kept is UniqueKey.FIRST:
            kept = UniqueKey.LEFT if left_first else UniqueKey.RIGHT
        if kept is UniqueKey.LEFT:
            right_fields = [*(f"!{theirs}" for _, theirs in self.by), *right_fields]
        elif kept is UniqueKey.RIGHT:
            left_fields = [*(f"!{ours}" for ours, _ in self.by), *left_fields]
        self.left_fields, self.right_fields = tuple(left_fields), tuple(right_fields)
        self.unique_key = kept
        self.left_index, self.right_index = left_node.path, right_node.path
        mirror_key = kept is not UniqueKey.NONE

        is_self_join = left is right
        if left_from is None:
            left_from = left.pre if is_self_join else left.out
        left_outer = self.kind in (JoinKind.LEFT, JoinKind.OUTER)
        right_outer = self.kind in (JoinKind.RIGHT, JoinKind.OUTER)
        self.left_lookup = LookupJoin(
            f"{name}.leftLookup",
            left.row_type,
            right,
            by=dict(self.by),
            index=right_node.path,
            left_fields=left_fields,
            right_fields=right_fields,
            left_first=left_first,
            kind="left" if left_outer else "inner",
            mirror_key=mirror_key,
            opposite_outer=right_outer and not simple_minded,
            group_size=_group_size(left, left_node, is_before=is_self_join),
            convert_keys=convert_keys,
        )
        self.right_lookup = LookupJoin(
            f"{name}.rightLookup",
            right.row_type,
            left,
            by={theirs: ours for ours, theirs in self.by},
            index=left_node.path,
            left_fields=right_fields,
            right_fields=left_fields,
            left_first=not left_first,
            kind="left" if right_outer else "inner",
            mirror_key=mirror_key,
            opposite_outer=left_outer and not simple_minded,
            group_size=_group_size(right, right_node, is_before=False),
            convert_keys=convert_keys,
        )
        self.result_type = self.left_lookup.result_type
        self.out = left.unit.label(f"{name}.out", self.result_type)
        self.left_from, self.right_from = left_from, right_from or right.out
        self.left_from.chain(self.left_lookup.input)
        self.right_from.chain(self.right_lookup.input)
        self.left_lookup.out.chain(self.out)
        self.right_lookup.out.chain(self.out)

    def describe(self) -> str:
        """Return a readable description of both look-ups, one line for each step."""
        lines = [f'join "{self.name}": {self.kind}, results go to {self.out.name}']
        for source, lookup in ((self.left_from, self.left_lookup), (self.right_from, self.right_lookup)):
            lines += [f"  {source.name} goes to", *(f"    {line}" for line in lookup.describe().splitlines())]
        return "\n".join(lines)


def _pairs(
    left: Table, left_node: Node, right: Table, right_node: Node, by: By | None
) -> list[tuple[str, str]]:
    ours = left.type.key_of_path(*left_node.path)
    theirs = right.type.key_of_path(*right_node.path)
    if len(ours) != len(theirs):
        raise ModelError(
            f"the keys have {len(ours)} and {len(theirs)} fields: {', '.join(ours)}; {', '.join(theirs)}"
        )
    if by is None:
        return list(zip(ours, theirs, strict=True))
    pairs = key_pairs(left.row_type, by)
    if sorted(pair[0] for pair in pairs) != sorted(ours) or sorted(pair[1] for pair in pairs) != sorted(
        theirs
    ):
        raise ModelError(
            f"fields to join by are not the keys of the indexes: {', '.join(ours)}; {', '.join(theirs)}"
        )
    return pairs


def _check_types(left: Table, right: Table, pairs: Sequence[tuple[str, str]]) -> None:
    for ours, theirs in pairs:
        mine = left.row_type.types[left.row_type.index(ours)]
        other = right.row_type.types[right.row_type.index(theirs)]
        if mine != other:
            raise ModelError(
                f'key fields "{ours}" and "{theirs}" have types {type_name(mine)} and {type_name(other)}'
            )


def _group_size(table: Table, node: Node, *, is_before: bool) -> GroupSize | None:
    """Return the function that counts the rows with a key; ``is_before``: called before the change."""
    if node.is_leaf:
        return None
    count = _counter(table, node)
    if is_before:
        return lambda opcode, row: count(row) + (1 if opcode is INSERT else -1)

    def count_after(opcode: Opcode, row: Row) -> int:
        return count(row)

    return count_after


def _counter(table: Table, node: Node) -> Callable[[Row], int]:
    top = table._top

    def count(row: Row) -> int:
        above = node.locate(top, row)
        group = above.groups.get(node.key_of(row)) if isinstance(above, Groups) else None
        return 0 if group is None else len(group)

    return count
