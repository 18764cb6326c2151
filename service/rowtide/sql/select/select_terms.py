"""Terms of GROUP BY and ORDER BY that are positions or aliases of the select list."""

from __future__ import annotations

from rowtide.errors import StatementError
from rowtide.sql.expressions.scope import ROWTIME, NameScope, UnknownColumn
from rowtide.sql.grammar.syntax import ColumnRef, Expression, NumberLiteral, Select, SelectItem, StarItem


def meant_by_group_term(select: Select, term: Expression, scope: NameScope) -> Expression:
    """Return the expression of a term of GROUP BY; an alias of the select list, unless a column has that name.

    A number is a position in the select list.
    """
    if isinstance(term, NumberLiteral):
        return at_position(select, term, "GROUP BY")
    if not isinstance(term, ColumnRef) or len(term.parts) > 1 or term.parts[0].text == ROWTIME:
        return term
    if any(name == term.parts[0].text for name, _, _ in scope.columns()):
        return term
    for item in select.items:
        if isinstance(item, SelectItem) and item.alias == term.parts[0]:
            return item.expression
    return term


def at_position(select: Select, number: NumberLiteral, clause: str) -> Expression:
    """Return the column of the select list for a number in GROUP BY or ORDER BY.

    Raises:
      StatementError: the column does not exist.
    """
    items = select.items
    if number.text.isdigit() and 1 <= int(number.text) <= len(items):
        item = items[int(number.text) - 1]
        if not any(isinstance(each, StarItem) for each in items) and isinstance(item, SelectItem):
            return item.expression
    raise StatementError(
        f"{number.text} is not a position in the select list",
        span=number.place,
        hint=f"A number in {clause} is the position of a column in the select list, from 1; the list must "
        "not contain *.",
    )


def named_in_list(select: Select, error: UnknownColumn) -> UnknownColumn:
    """Return the error of a column that does not exist, with a hint if the select list gives its name."""
    names = [
        item.alias.text for item in select.items if isinstance(item, SelectItem) and item.alias is not None
    ]
    if error.name in names:
        error.hint = (
            f"{error.name} is a name of the select list, which ORDER BY, GROUP BY and QUALIFY see. Here write its "
            f"expression again, or read it from a query: FROM (SELECT .. AS {error.name} ..)."
        )
    return error
