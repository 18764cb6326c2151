"""The grammar of CREATE FUNCTION (docs/sql/functions.md)."""

from __future__ import annotations

from typing import Protocol

from rowtide.errors import StatementError
from rowtide.rows.types import Type
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.statements import CreateFunction, OptionItem, ParameterDefinition
from rowtide.sql.grammar.syntax import Expression

_HOW = "Write LANGUAGE PYTHON AS 'module.function', or RETURN expression."
_AGGREGATE = "CREATE AGGREGATE FUNCTION name(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'module.Class'"
_TABLE = (
    "CREATE FUNCTION name(x DOUBLE) RETURNS TABLE (at TIMESTAMP, x DOUBLE) LANGUAGE PYTHON AS 'module.Class'"
)
_REPEATED = (
    "After a restart, rows are computed again and must be the same. Put random values and times of a clock into "
    "the data; ROWTIME is the time of a row."
)


class StatementGrammar(Protocol):
    """The parts of a statement."""

    cursor: Cursor

    def type(self) -> Type:
        """Read the name of a type."""

    def expression(self) -> Expression:
        """Read one expression."""

    def options(self) -> tuple[OptionItem, ...]:
        """Read OPTIONS (name 'value', ...) if it follows."""


def create_aggregate(grammar: StatementGrammar, first: Token, *, replace: bool) -> CreateFunction:
    """Read what follows CREATE: AGGREGATE FUNCTION and the rest."""
    cursor = grammar.cursor
    if not cursor.accept("AGGREGATE", "FUNCTION"):
        raise cursor.fail("CREATE AGGREGATE is not supported", hint=f"Write {_AGGREGATE}.")
    return create_function(grammar, first, replace=replace, aggregate=True)


def no_aggregate_kind(cursor: Cursor) -> StatementError:
    """Return the error for AGGREGATE in DROP and similar statements."""
    return cursor.fail("an aggregate is a function here", hint="DROP FUNCTION name drops it.")


def create_function(
    grammar: StatementGrammar, first: Token, *, replace: bool, aggregate: bool = False
) -> CreateFunction:
    """Read what follows CREATE FUNCTION."""
    cursor = grammar.cursor
    name = cursor.qualified_name("the name of the function")
    if not cursor.is_symbol("("):
        words = "AGGREGATE FUNCTION" if aggregate else "FUNCTION"
        hint = f"Write CREATE {words} {name.parts[-1].text}(x DOUBLE) RETURNS DOUBLE .."
        raise cursor.fail('expected "(" and the parameters of the function', hint=hint)
    cursor.expect_symbol("(")
    parameters: tuple[ParameterDefinition, ...] = ()
    if not cursor.is_symbol(")"):
        parameters = cursor.comma_list(lambda: _parameter(grammar))
    cursor.expect_symbol(")")
    cursor.expect("RETURNS")
    if cursor.is_word("SETOF"):
        raise cursor.unsupported("RETURNS SETOF is", hint=f"Write {_TABLE}.")
    token = cursor.current
    returns: Type | tuple[ParameterDefinition, ...]
    if cursor.accept("TABLE"):
        returns = cursor.wrapped(lambda: _parameter(grammar))
        if aggregate:
            raise cursor.fail("an aggregate returns one value", token=token, hint=f"Write {_AGGREGATE}.")
    else:
        returns = grammar.type()
    clauses = _Clauses(grammar)
    clauses.read()
    token = cursor.current
    source: str | Expression
    if aggregate and (clauses.language == "SQL" or cursor.is_word("RETURN")):
        raise cursor.fail("an aggregate is a class in Python", token=token, hint=f"Write {_AGGREGATE}.")
    if isinstance(returns, tuple) and (clauses.language == "SQL" or cursor.is_word("RETURN")):
        raise cursor.fail("a table function is a class in Python", token=token, hint=f"Write {_TABLE}.")
    if cursor.accept("RETURN"):
        if clauses.language == "PYTHON":
            raise cursor.fail("a function in Python has no RETURN", token=token, hint=_HOW)
        token = cursor.current
        source = grammar.expression()
        place = cursor.span(token)
    elif cursor.accept("AS"):
        token = cursor.current
        if clauses.language != "PYTHON" and token.kind is TokenKind.STRING:
            what = "LANGUAGE is missing" if clauses.language is None else "a function in SQL has no AS"
            raise cursor.fail(what, token=token, hint=f"Write {_AGGREGATE}." if aggregate else _HOW)
        source = cursor.string(
            "the class as 'module.Class'" if aggregate else "the function as 'module.function'"
        )
        place = cursor.place_of(token)
    else:
        wanted = "AS 'module.function'" if clauses.language == "PYTHON" else '"RETURN"'
        raise cursor.unexpected("LANGUAGE PYTHON AS 'module.Class'" if aggregate else wanted)
    clauses.read()
    return CreateFunction(
        name,
        replace,
        parameters,
        returns,
        source,
        clauses.takes_null,
        clauses.options,
        place,
        cursor.place_of(first),
        aggregate,
    )


def _parameter(grammar: StatementGrammar) -> ParameterDefinition:
    return ParameterDefinition(grammar.cursor.name("the name of a parameter"), grammar.type())


class _Clauses:
    """LANGUAGE, DETERMINISTIC, what NULL does, and OPTIONS: each at most once, in any order."""

    def __init__(self, grammar: StatementGrammar) -> None:
        self.language: str | None = None
        self.takes_null: bool | None = None
        self.options: tuple[OptionItem, ...] = ()
        self._grammar = grammar
        self._is_deterministic: bool | None = None

    def read(self) -> None:
        """Read the clauses that follow."""
        while self._one():
            pass

    def _one(self) -> bool:
        cursor = self._grammar.cursor
        token = cursor.current
        if cursor.accept("LANGUAGE"):
            self._once(self.language, token)
            self.language = self._language()
        elif cursor.is_word("NOT", "DETERMINISTIC") or cursor.is_word("VOLATILE") or cursor.is_word("STABLE"):
            raise cursor.fail("a function must be DETERMINISTIC", hint=_REPEATED)
        elif cursor.one_of("DETERMINISTIC", "IMMUTABLE"):
            self._once(self._is_deterministic, token)
            self._is_deterministic = True
        elif cursor.accept("CALLED", "ON", "NULL", "INPUT"):
            self._once(self.takes_null, token)
            self.takes_null = True
        elif cursor.accept("RETURNS", "NULL", "ON", "NULL", "INPUT") or cursor.accept("STRICT"):
            self._once(self.takes_null, token)
            self.takes_null = False
        elif cursor.is_word("OPTIONS"):
            self._once(self.options or None, token)
            self.options = self._grammar.options()
        else:
            return False
        return True

    def _language(self) -> str:
        cursor = self._grammar.cursor
        token = cursor.current
        language = cursor.one_of("PYTHON", "SQL")
        if language is None:
            raise cursor.fail(f"language {token.shown} is not supported", hint=_HOW)
        return language

    def _once(self, before: object, token: Token) -> None:
        if before is not None:
            place = self._grammar.cursor.place_of(token)
            raise StatementError(f"{token.text} appears twice, or contradicts another clause", span=place)
