"""The grammar of UPDATE, DELETE, TRUNCATE and MERGE."""

from __future__ import annotations

from typing import Protocol

from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.statements import (
    Assignment,
    Delete,
    MergeBranch,
    MergeInto,
    RowChange,
    Truncate,
    Update,
)
from rowtide.sql.grammar.syntax import Expression, Name, QualifiedName, QuerySyntax


class ChangeGrammar(Protocol):
    """The parts of these statements."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def query(self) -> QuerySyntax:
        """Read a query."""

    def inserted(self) -> Expression:
        """Read one value of a row that is inserted, or DEFAULT."""


def row_change(grammar: ChangeGrammar) -> RowChange | None:
    """Read UPDATE, DELETE, TRUNCATE or MERGE if it comes next."""
    cursor = grammar.cursor
    first = cursor.current
    match cursor.one_of("UPDATE", "DELETE", "TRUNCATE", "MERGE"):
        case "UPDATE":
            target, alias = _target(cursor, "SET")
            cursor.expect("SET")
            changes = cursor.comma_list(lambda: _assignment(grammar))
            return Update(target, alias, changes, _where(grammar), cursor.place_of(first))
        case "DELETE":
            if not cursor.accept("FROM"):
                raise cursor.unexpected('"FROM" after DELETE')
            target, alias = _target(cursor, "WHERE", "USING")
            return Delete(target, alias, _where(grammar), cursor.place_of(first))
        case "TRUNCATE":
            cursor.accept("TABLE")
            return Truncate(cursor.qualified_name("the name of a table"), cursor.place_of(first))
        case "MERGE":
            return _merge(grammar)
        case _:
            return None


def _target(cursor: Cursor, *following: str) -> tuple[QualifiedName, Name | None]:
    """Read ``table [[AS] alias]``; ``following`` are the words that can come next."""
    name = cursor.qualified_name("the name of a table")
    if cursor.accept("AS") or (cursor.is_name() and not any(map(cursor.is_word, following))):
        return name, cursor.name("an alias")
    return name, None


def _where(grammar: ChangeGrammar) -> Expression | None:
    return grammar.expression() if grammar.cursor.accept("WHERE") else None


def _assignment(grammar: ChangeGrammar) -> Assignment:
    cursor = grammar.cursor
    if cursor.is_symbol("("):
        raise cursor.unsupported("SET of a row of columns is", hint="Write SET a = 1, b = 2.")
    column = cursor.name("the name of a column")
    if cursor.is_symbol("."):
        raise cursor.fail("SET names the columns of the table without its name")
    cursor.expect_symbol("=")
    return Assignment(column, grammar.inserted())


def _merge(grammar: ChangeGrammar) -> MergeInto:
    cursor = grammar.cursor
    first = cursor.expect("INTO")
    target, alias = _target(cursor, "USING")
    cursor.expect("USING")
    source: QualifiedName | QuerySyntax
    if cursor.accept_symbol("("):
        source = grammar.query()
        cursor.expect_symbol(")")
    else:
        source = cursor.qualified_name("the name of a table")
    source_alias, columns = None, tuple[Name, ...]()
    if cursor.accept("AS") or cursor.is_name():
        source_alias = cursor.name("an alias")
        if cursor.is_symbol("("):
            columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
    cursor.expect("ON")
    condition = grammar.expression()
    branches = [_branch(grammar)]
    while cursor.is_word("WHEN"):
        branches.append(_branch(grammar))
    place = cursor.place_of(first)
    return MergeInto(target, alias, source, source_alias, columns, condition, tuple(branches), place)


def _branch(grammar: ChangeGrammar) -> MergeBranch:
    """Read ``WHEN [NOT] MATCHED [AND condition] THEN UPDATE SET .. | DELETE | INSERT .. | DO NOTHING``."""
    cursor = grammar.cursor
    first = cursor.expect("WHEN")
    matched = not cursor.accept("NOT")
    cursor.expect("MATCHED")
    condition = grammar.expression() if cursor.accept("AND") else None
    cursor.expect("THEN")
    place = cursor.place_of(first)
    if cursor.accept("DO", "NOTHING"):
        return MergeBranch(matched, condition, "NOTHING", place=place)
    if not matched:
        cursor.expect("INSERT")
        columns: tuple[Name, ...] = ()
        if cursor.is_symbol("("):
            columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
        cursor.expect("VALUES")
        return MergeBranch(
            matched,
            condition,
            "INSERT",
            columns=columns,
            values=cursor.wrapped(grammar.inserted),
            place=place,
        )
    if cursor.accept("DELETE"):
        return MergeBranch(matched, condition, "DELETE", place=place)
    cursor.expect("UPDATE", "SET")
    changes = cursor.comma_list(lambda: _assignment(grammar))
    return MergeBranch(matched, condition, "UPDATE", changes, place=place)
