"""JOIN .. USING (a, b) and NATURAL JOIN: equal columns of both sides, merged in the joined row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.expressions.scope import Merged, NameScope
from rowtide.sql.grammar.syntax import Binary, BooleanLiteral, ColumnRef, Expression, FunctionCall, Join, Name


def joined_on(join: Join, left: NameScope, right: NameScope) -> Join:
    """Return a join with ON instead of USING or NATURAL.

    Raises:
      StatementError: a side does not have a column, or has it more than once.
    """
    further = join.condition
    condition = None if further == BooleanLiteral(True) else further
    for name in shared(join, left, right):
        equal = Binary("=", _of(left, name, join.place), _of(right, name, join.place), name.place)
        condition = equal if condition is None else Binary("AND", condition, equal, join.place)
    return replace(join, condition=condition or BooleanLiteral(True, join.place), using=None)


def merged_scope(join: Join, left: NameScope, right: NameScope, joined: NameScope) -> NameScope:
    """Return the scope of the joined rows; in it, the columns of USING need no qualifier."""
    names = shared(join, left, right)
    texts = {name.text for name in names}
    merged: list[Merged] = []
    for name in names:
        lefts, rights = _aliases(left, name, join.place), _aliases(right, name, join.place)
        sources = {"RIGHT": rights, "FULL": lefts + rights}.get(join.kind, lefts)
        owners = _owners(left, name, lefts) + _owners(right, name, rights)
        merged.append(Merged(name.text, sources, owners))
    # As in standard SQL, "*" begins with what this join merges.
    merged += [each for side in (left, right) for each in side.merged if each.name not in texts]
    return replace(joined, merged=tuple(merged))


def shared(join: Join, left: NameScope, right: NameScope) -> Sequence[Name]:
    """Return the columns that USING names; for NATURAL the columns that both sides have."""
    if join.using:
        return join.using
    there = dict.fromkeys(name for binding in right.bindings for name, _, _ in binding.columns())
    both = dict.fromkeys(
        name for binding in left.bindings for name, _, _ in binding.columns() if name in there
    )
    return [Name(name, join.place) for name in both]


def _of(scope: NameScope, name: Name, span: SourceSpan) -> Expression:
    refs: tuple[Expression, ...] = tuple(
        ColumnRef((Name(alias, name.place), name), name.place) for alias in _aliases(scope, name, span)
    )
    return refs[0] if len(refs) == 1 else FunctionCall("COALESCE", refs, name.place)


def _owners(scope: NameScope, name: Name, aliases: tuple[str, ...]) -> tuple[str, ...]:
    """Return all relations of one side that have a column: ``aliases``, unless the column is merged already."""
    return next((each.owners for each in scope.merged if each.name == name.text), aliases)


def _aliases(scope: NameScope, name: Name, span: SourceSpan) -> tuple[str, ...]:
    """Return the relations of one side that a column comes from: several if the column is merged already."""
    for each in scope.merged:
        if each.name == name.text:
            return each.sources
    owners = [binding.alias for binding in scope.bindings if binding.field(name.text) is not None]
    if len(owners) == 1:
        return tuple(owners)
    where = ", ".join(f'"{binding.alias}"' for binding in scope.bindings)
    what = "does not exist" if not owners else "is in more than one"
    raise StatementError(f'column "{name.text}" of USING {what}: {where}', span=name.place or span)
