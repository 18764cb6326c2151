"""Aggregates without GROUP BY of a query that runs once: without input rows they return one row.

A view over a table has no row before its first change, because no rowtime exists for it. In a query at a
prompt the group exists from the beginning: it contains one extra row, which all aggregates ignore.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rowtide.expr.tree import FieldRef, Literal
from rowtide.plan.nodes import GroupChanges, Merge, Node, TableSource, rewrite
from rowtide.rows.types import BOOLEAN, Field, RowType
from rowtide.sql.relations.relations import project, unique_names

NO_ROW = RowType((Field("$TAKEN", BOOLEAN, nullable=False),))


def with_empty_groups(node: Node, named: Iterable[Node]) -> Node:
    """Create the groups of all rows even without rows, except those of ``named`` relations."""
    theirs = set(map(id, named))

    def begun(each: Node) -> Node:
        if id(each) in theirs or not isinstance(each, GroupChanges) or not each.of_changes:
            return each
        return each if each.keys or each.window is not None or not each.aggregates else _begun(each)

    return rewrite(node, begun)


def _begun(group: GroupChanges) -> GroupChanges:
    """Add the row that all aggregates ignore, and a field that marks it."""
    fields = tuple(group.input.row_type)
    names = unique_names([*(field.name for field in fields), NO_ROW[0].name])
    row_type = RowType(
        (*(replace(field, nullable=True) for field in fields), replace(NO_ROW[0], name=names[-1]))
    )
    taken = tuple(FieldRef(at, field.type) for at, field in enumerate(fields))
    rows = project(group.relation, group.input, (*taken, Literal(True, BOOLEAN)), row_type)
    nothing = tuple(Literal(None, field.type) for field in fields)
    source = TableSource("VALUES of no row", NO_ROW, ((False,),), loaded_once=True)
    none = project(group.relation, source, (*nothing, FieldRef(0, BOOLEAN)), row_type)
    is_row = FieldRef(len(fields), BOOLEAN)
    calls = tuple(replace(call, condition=call.condition or is_row) for call in group.aggregates)
    return replace(group, input=Merge(group.relation, (none, rows), of_changes=True), aggregates=calls)
