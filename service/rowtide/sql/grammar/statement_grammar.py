"""The grammar of statements, and ``parse``: text -> statements."""

from __future__ import annotations

import dataclasses

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.grammar.clauses.changes import row_change
from rowtide.sql.grammar.clauses.created_as import created_as, is_created_as
from rowtide.sql.grammar.clauses.function_grammar import create_aggregate, create_function, no_aggregate_kind
from rowtide.sql.grammar.clauses.pumps import altered_pumps
from rowtide.sql.grammar.clauses.shows import of_prompt
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import LineIndex, Token, TokenKind, tokenize
from rowtide.sql.grammar.foreign_keys import foreign_key, references
from rowtide.sql.grammar.query_grammar import QueryGrammar
from rowtide.sql.grammar.statement_texts import statements_of
from rowtide.sql.grammar.statements import (
    CREATED_KINDS,
    AddColumn,
    Alter,
    AlterPump,
    CheckDefinition,
    ColumnDefinition,
    CreateAs,
    Created,
    CreateIfMissing,
    CreateIndex,
    CreateModel,
    CreatePump,
    CreateRelation,
    CreateSchema,
    CreateServer,
    CreateView,
    CreateWrapper,
    Drop,
    DropColumn,
    Explain,
    ForeignKeyDefinition,
    IndexDefinition,
    InsertValues,
    ObjectKind,
    OptionChange,
    OptionItem,
    QueryStatement,
    Rename,
    SetSchema,
    Statement,
)
from rowtide.sql.grammar.syntax import Expression, FunctionCall, Name, QualifiedName, QuerySyntax

_CREATED = "SCHEMA, SERVER, STREAM, TABLE, VIEW, PUMP, MODEL or FUNCTION"
_LATER = ("UNIQUE INDEX", "USER", "ROLE", "TYPE", "PROCEDURE")
_ADDED_CONSTRAINTS = (("CONSTRAINT",), ("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("UNIQUE",))
_NOT_OURS = ("GRANT", "REVOKE", "COMMIT", "ROLLBACK")


_WITH_OPTIONS = (
    ObjectKind.WRAPPER,
    ObjectKind.SERVER,
    ObjectKind.FOREIGN_STREAM,
    ObjectKind.FOREIGN_TABLE,
)
_WITH_COLUMNS = (
    ObjectKind.STREAM,
    ObjectKind.FOREIGN_STREAM,
    ObjectKind.TABLE,
    ObjectKind.FOREIGN_TABLE,
)


def parse(text: str) -> list[Statement]:
    """Read all statements of ``text``, which semicolons separate.

    Raises:
      StatementError: the first invalid statement, with its place.
    """
    tokens, places = tokenize(text)
    statements = []
    for part in statements_of(tokens):
        end = part[-1].end
        try:
            statements.append(_Grammar(Cursor(part, places, end)).statement())
        except RecursionError as error:
            raise _too_deep(places, part[0]) from error
    return statements


def parse_name(text: str) -> QualifiedName:
    """Read ``text`` as the name of a relation: folded unless quoted, with a schema before a dot.

    Raises:
      StatementError: it is not the name of a relation.
    """
    tokens, places = tokenize(text)
    cursor = Cursor(tokens, places, len(text))
    name = cursor.qualified_name("the name of a relation")
    if not cursor.at_end:
        raise cursor.unexpected("the end of the name")
    return name


def _too_deep(places: LineIndex, first: Token) -> StatementError:
    return StatementError("the statement is nested too deeply", span=places.place(first.start, first.end))


class _Grammar(QueryGrammar):
    """Reads one statement."""

    def statement(self) -> Statement:
        """Read the statement and check that nothing follows it."""
        statement = self._statement()
        if not self.cursor.at_end:
            raise self.cursor.unexpected(
                "the end of the statement",
                hint="End a statement with a semicolon."
                if self.cursor.is_word("CREATE") or self.cursor.is_word("SELECT")
                else None,
            )
        return statement

    def _statement(self) -> Statement:
        cursor = self.cursor
        first = cursor.current
        if cursor.is_query or cursor.is_symbol("("):
            query = self.query()
            return QueryStatement(query, cursor.place_of(first))
        if (shown := of_prompt(cursor)) is not None:
            return shown
        if (change := row_change(self)) is not None:
            return change
        if cursor.accept("EXPLAIN"):
            if cursor.accept("PLAN"):
                cursor.expect("FOR")
            return Explain(self.query(), cursor.place_of(first))
        match cursor.one_of("CREATE", "SET", "ALTER", "DROP", "INSERT"):
            case "CREATE":
                if not cursor.take_out("IF", "NOT", "EXISTS", within=6):
                    return self._create(first)
                if cursor.is_word("OR", "REPLACE"):
                    raise cursor.fail("OR REPLACE and IF NOT EXISTS exclude each other")
                return CreateIfMissing(self._create(first), cursor.place_of(first))
            case "SET":
                return self._set(first)
            case "ALTER":
                return self._alter(first)
            case "DROP":
                return self._drop(first)
            case "INSERT":
                target, columns = self._into()
                if cursor.is_symbol("(") or (cursor.is_query and not cursor.is_word("VALUES")):
                    raise cursor.fail(
                        "INSERT of a query must be in a pump",
                        token=first,
                        hint="Write CREATE PUMP name AS INSERT INTO .. SELECT STREAM ...",
                    )
                cursor.expect("VALUES")
                rows = cursor.comma_list(lambda: cursor.wrapped(self.inserted))
                if cursor.is_word("ON", "CONFLICT"):
                    raise cursor.unsupported("ON CONFLICT is")
                return InsertValues(target, columns, rows, cursor.place_of(first))
        for word in _NOT_OURS:
            if cursor.is_word(word):
                raise cursor.unsupported(f"{word} is")
        raise cursor.unexpected("CREATE, SET, ALTER, DROP, INSERT or SELECT")

    def inserted(self) -> Expression:
        """Read one value of a row that is inserted, or DEFAULT."""
        cursor = self.cursor
        token = cursor.current
        following = cursor.ahead(1)
        ends = following.text in (",", ")", "WHERE", "WHEN") or following.kind is TokenKind.END
        if cursor.is_word("DEFAULT") and ends:
            cursor.advance()
            return FunctionCall("DEFAULT", (), cursor.place_of(token))
        return self.expression()

    # --------------------------------------------------------------- CREATE

    def _create(self, first: Token) -> Created:
        cursor = self.cursor
        replace = cursor.accept("OR", "REPLACE")
        if cursor.accept("SCHEMA"):
            name = cursor.qualified_name("the name of the schema")
            self._description()
            return CreateSchema(name, replace, cursor.place_of(first))
        if cursor.accept("SERVER"):
            return self._server(first, replace)
        if cursor.accept("VIEW"):
            return self._view(first, replace)
        if cursor.accept("PUMP"):
            return self._pump(first, replace)
        if cursor.accept("FOREIGN", "DATA", "WRAPPER"):
            return self._wrapper(first, replace)
        if (cursor.is_word("INDEX") or cursor.is_word("UNIQUE", "INDEX")) and not replace:
            return self._create_index(first)
        if cursor.accept("MODEL"):
            return self._model(first, replace)
        if cursor.accept("FUNCTION"):
            return create_function(self, first, replace=replace)
        if cursor.is_word("AGGREGATE"):
            return create_aggregate(self, first, replace=replace)
        for words in _LATER:
            if cursor.is_word(*words.split()):
                raise cursor.unsupported(f"CREATE {words} is")
        foreign = cursor.accept("FOREIGN")
        if cursor.accept("STREAM"):
            kind = ObjectKind.FOREIGN_STREAM if foreign else ObjectKind.STREAM
        elif cursor.accept("TABLE"):
            kind = ObjectKind.FOREIGN_TABLE if foreign else ObjectKind.TABLE
        else:
            raise cursor.unexpected("STREAM or TABLE" if foreign else _CREATED)
        return self._relation(first, kind, replace)

    def _wrapper(self, first: Token, replace: bool) -> CreateWrapper:
        cursor = self.cursor
        name = cursor.qualified_name("the name of the wrapper")
        library = None
        if cursor.accept("LIBRARY"):
            library = cursor.string("the name of the connector in single quotes")
        if cursor.is_word("LANGUAGE"):
            raise cursor.fail("LANGUAGE is not supported: connectors are Python packages")
        options = self.options()
        self._description()
        return CreateWrapper(name, replace, library, options, cursor.place_of(first))

    def _create_index(self, first: Token) -> CreateIndex:
        cursor = self.cursor
        unique = cursor.accept("UNIQUE")
        cursor.expect("INDEX")
        token = cursor.current
        name = None if cursor.is_word("ON") else cursor.name("the name of the index")
        cursor.expect("ON")
        table = cursor.qualified_name("the name of a table")
        columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
        index = IndexDefinition(name, columns, cursor.place_of(token), unique)
        return CreateIndex(table, index, cursor.place_of(first))

    def _server(self, first: Token, replace: bool) -> CreateServer:
        cursor = self.cursor
        name = cursor.qualified_name("the name of the server")
        if cursor.is_word("TYPE"):
            raise cursor.unsupported("TYPE of a server is")
        cursor.expect("FOREIGN", "DATA", "WRAPPER")
        wrapper = cursor.name("the name of the wrapper")
        options = self.options()
        self._description()
        return CreateServer(name, replace, wrapper, options, cursor.place_of(first))

    def _relation(self, first: Token, kind: ObjectKind, replace: bool) -> CreateRelation | CreateAs:
        cursor = self.cursor
        name = cursor.qualified_name(f"the name of the {kind.value}")
        if is_created_as(cursor):
            return created_as(self, kind, name, cursor.place_of(first), replace=replace)
        columns: list[ColumnDefinition] = []
        key: list[Name] = []
        indexes: list[IndexDefinition] = []
        checks: list[CheckDefinition] = []
        foreign_keys: list[ForeignKeyDefinition] = []

        def element() -> None:
            if self._is_index():
                indexes.append(self._index())
                return
            constraint = None
            if cursor.accept("CONSTRAINT"):
                constraint = cursor.name("the name of the constraint")
            if cursor.is_word("FOREIGN", "KEY"):
                foreign_keys.append(foreign_key(cursor, kind))
                return
            if cursor.is_word("PRIMARY"):
                token = cursor.expect("PRIMARY", "KEY")
                if key:
                    raise cursor.fail("a second PRIMARY KEY", token=token)
                key.extend(cursor.wrapped(lambda: cursor.name("the name of a column")))
                if cursor.is_word("NOT", "ENFORCED"):
                    raise cursor.unsupported("NOT ENFORCED is")
                return
            if cursor.is_word("CHECK"):
                checks.append(self._check(constraint))
                return
            if cursor.is_word("UNIQUE"):
                token = cursor.expect("UNIQUE")
                named = cursor.wrapped(lambda: cursor.name("the name of a column"))
                indexes.append(IndexDefinition(constraint, named, cursor.span(token), unique=True))
                return
            columns.append(self._column(kind, key, checks, indexes, foreign_keys))

        cursor.expect_symbol("(")
        cursor.comma_list(element)
        cursor.expect_symbol(")")
        server = None
        of_server = kind in (ObjectKind.FOREIGN_STREAM, ObjectKind.FOREIGN_TABLE)
        if of_server or (kind is ObjectKind.TABLE and cursor.is_word("SERVER")):
            cursor.expect("SERVER")
            server = cursor.qualified_name("the name of the server")
        options = self.options()
        self._description()
        place = cursor.place_of(first)
        return CreateRelation(
            kind,
            name,
            replace,
            tuple(columns),
            tuple(key),
            server,
            options,
            place,
            tuple(indexes),
            tuple(checks),
            tuple(foreign_keys),
        )

    def _check(self, name: Name | None) -> CheckDefinition:
        cursor = self.cursor
        first = cursor.expect("CHECK")
        cursor.expect_symbol("(")
        condition = self.expression()
        cursor.expect_symbol(")")
        return CheckDefinition(name, condition, cursor.span(first))

    def _is_index(self) -> bool:
        """Return INDEX [name] (column, ..) from a column called INDEX."""
        cursor = self.cursor
        if not cursor.is_word("INDEX"):
            return False
        named = cursor.is_name(1)
        opened = cursor.ahead(2 if named else 1)
        inner = cursor.ahead(3 if named else 2)
        return opened.text == "(" and opened.kind is TokenKind.SYMBOL and inner.kind is not TokenKind.NUMBER

    def _index(self) -> IndexDefinition:
        cursor = self.cursor
        first = cursor.expect("INDEX")
        name = cursor.name("the name of the index") if cursor.is_name() else None
        columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
        return IndexDefinition(name, columns, cursor.span(first))

    def _column(
        self,
        kind: ObjectKind,
        key: list[Name],
        checks: list[CheckDefinition],
        indexes: list[IndexDefinition],
        foreign_keys: list[ForeignKeyDefinition],
    ) -> ColumnDefinition:
        cursor = self.cursor
        name = cursor.name("the name of a column")
        column_type = self.type()
        nullable = True
        default: Expression | None = None
        constraint: Name | None = None
        options: tuple[OptionItem, ...] = ()
        while True:
            token = cursor.current
            if not options and cursor.is_word("OPTIONS"):
                options = self.options()
                continue
            if cursor.accept("CONSTRAINT"):
                constraint = cursor.name("the name of the constraint")
                continue
            if cursor.accept("NOT", "NULL"):
                nullable = False
            elif cursor.accept("PRIMARY", "KEY"):
                if key:
                    raise cursor.fail("a second PRIMARY KEY", token=token)
                key.append(name)
            elif default is None and cursor.accept("DEFAULT"):
                # No predicate: NOT NULL may come after it.
                default = self.operand()
            elif cursor.is_word("CHECK"):
                checks.append(self._check(constraint))
            elif cursor.accept("UNIQUE"):
                indexes.append(IndexDefinition(constraint, (name,), cursor.place_of(token), unique=True))
            elif cursor.is_word("REFERENCES"):
                foreign_keys.append(references(cursor, kind, (name,)))
            elif not cursor.accept("NULL"):
                return ColumnDefinition(name, column_type, nullable, default, options)

    def _view(self, first: Token, replace: bool) -> CreateView:
        cursor = self.cursor
        name = cursor.qualified_name("the name of the view")
        columns: tuple[Name, ...] = ()
        if cursor.is_symbol("("):
            columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
        options = self.options_and_description()
        cursor.expect("AS")
        query = self.query()
        options = self.options_behind(options)
        return CreateView(name, replace, columns, query, options, cursor.place_of(first))

    def _pump(self, first: Token, replace: bool) -> CreatePump:
        cursor = self.cursor
        name = cursor.qualified_name("the name of the pump")
        started = cursor.one_of("STARTED", "STOPPED") != "STOPPED"
        options = self.options_and_description()
        cursor.expect("AS")
        cursor.expect("INSERT")
        target, columns = self._into()
        query: QuerySyntax = self.query()
        options = self.options_behind(options)
        return CreatePump(name, replace, started, target, columns, query, options, cursor.place_of(first))

    def _model(self, first: Token, replace: bool) -> CreateModel:
        cursor = self.cursor
        name = cursor.qualified_name("the name of the model")
        cursor.expect("AS")
        token = cursor.current
        path = cursor.string("the model's class as 'package.module:Class'")
        options = self.options_and_description()
        return CreateModel(name, replace, path, options, cursor.place_of(token), cursor.place_of(first))

    def _into(self) -> tuple[QualifiedName, tuple[Name, ...]]:
        """Read INTO target [(columns)]."""
        cursor = self.cursor
        # Rows never wait for others to come with them, so each INSERT is expedited.
        cursor.accept("EXPEDITED")
        cursor.expect("INTO")
        target = cursor.qualified_name("the name of a stream or table")
        columns: tuple[Name, ...] = ()
        if cursor.is_symbol("(") and not (cursor.is_word("SELECT", ahead=1)):
            columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
        return target, columns

    def options_and_description(self) -> tuple[OptionItem, ...]:
        """Read OPTIONS (..) and DESCRIPTION '..' if they follow, in any order."""
        options = self.options()
        self._description()
        return options or self.options()

    def options_behind(self, before: tuple[OptionItem, ...]) -> tuple[OptionItem, ...]:
        """Read OPTIONS after a query; they are not allowed if OPTIONS are ``before`` it."""
        token = self.cursor.current
        behind = self.options_and_description()
        if before and behind:
            raise self.cursor.fail("OPTIONS are written both before AS and after the query", token=token)
        return before or behind

    def options(self) -> tuple[OptionItem, ...]:
        """Read OPTIONS (name 'value', ...) if it follows."""
        cursor = self.cursor
        if not cursor.is_word("OPTIONS"):
            return ()
        cursor.advance()
        options = cursor.wrapped(self._option)
        for place, option in enumerate(options):
            if any(option.name == before.name for before in options[:place]):
                raise StatementError(f'option "{option.name}" appears twice', span=option.place)
        return options

    def _option(self, *, takes_value: bool = True) -> OptionItem:
        """Read ``name 'value'``."""
        cursor = self.cursor
        token = cursor.current
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise cursor.unexpected("the name of an option")
        name = token.text if token.kind is TokenKind.QUOTED else token.text.lower()
        cursor.advance()
        value = cursor.string("the value of the option in single quotes") if takes_value else ""
        return OptionItem(name, value, cursor.span(token))

    def _description(self) -> None:
        """Read DESCRIPTION '..' if it follows. It is for readers and not stored."""
        if self.cursor.accept("DESCRIPTION"):
            self.cursor.string("the description in single quotes")

    # ------------------------------------------------------------ the others

    def _set(self, first: Token) -> SetSchema:
        cursor = self.cursor
        if not cursor.accept("SCHEMA"):
            raise cursor.unexpected('"SCHEMA"')
        token = cursor.current
        if token.kind is not TokenKind.STRING:
            return SetSchema(cursor.qualified_name("the name of the schema"), cursor.place_of(first))
        cursor.advance()
        inner, _ = tokenize(token.text)
        if len(inner) != 1 or inner[0].kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise cursor.fail(f"'{token.text}' is not the name of a schema", token=token)
        place = cursor.place_of(token)
        return SetSchema(QualifiedName((Name(inner[0].text, place),), place), cursor.place_of(first))

    def _alter(self, first: Token) -> Statement:
        cursor = self.cursor
        kind = self._kind("can be altered")
        place = cursor.place_of(first)
        if kind is ObjectKind.VIEW and self._is_new_view():
            return dataclasses.replace(self._view(first, replace=True), alters=True)
        if kind is ObjectKind.PUMP:
            name = altered_pumps(cursor, place)
            if isinstance(name, AlterPump):
                return name
        else:
            name = cursor.qualified_name(f"the name of the {kind.value}")
        if cursor.is_word("DESCRIPTION"):
            self._description()
            return Alter(kind, name, (), place)
        if kind in _WITH_OPTIONS and cursor.accept("OPTIONS"):
            return Alter(kind, name, cursor.wrapped(self._option_change), place)
        if kind in _WITH_COLUMNS and cursor.accept("ADD"):
            cursor.accept("COLUMN")
            return self._added_column(kind, name, place)
        if kind in _WITH_COLUMNS and cursor.accept("DROP"):
            cursor.accept("COLUMN")
            return DropColumn(kind, name, cursor.name("the name of a column"), place)
        if kind in (*_WITH_COLUMNS, ObjectKind.VIEW, ObjectKind.PUMP) and cursor.accept("RENAME"):
            column = None
            if not cursor.is_word("TO"):
                if kind not in _WITH_COLUMNS:
                    raise cursor.unexpected('"TO"')
                cursor.accept("COLUMN")
                column = cursor.name("the name of a column")
            cursor.expect("TO")
            return Rename(kind, name, column, cursor.name("the new name"), place)
        for word in ("ADD", "DROP", "RENAME", "SET", "ALTER", "AS"):
            if cursor.is_word(word):
                hint = f"CREATE OR REPLACE {kind.value.upper()} defines it again."
                raise cursor.unsupported(f"ALTER {kind.value.upper()} .. {word} is", hint=hint)
        wanted = "START, STOP" if kind is ObjectKind.PUMP else "OPTIONS" if kind in _WITH_OPTIONS else ""
        raise cursor.unexpected(f"{wanted}{' or ' if wanted else ''}DESCRIPTION")

    def _is_new_view(self) -> bool:
        """Return whether columns, options or a query follow a view's name."""
        cursor, ahead = self.cursor, 0
        while cursor.is_name(ahead) and cursor.ahead(ahead + 1).text == ".":
            ahead += 2
        behind = ahead + 1
        return cursor.ahead(behind).text == "(" or any(
            cursor.is_word(word, ahead=behind) for word in ("AS", "OPTIONS")
        )

    def _added_column(self, kind: ObjectKind, name: QualifiedName, span: SourceSpan) -> AddColumn:
        cursor = self.cursor
        key: list[Name] = []
        checks: list[CheckDefinition] = []
        first = cursor.current
        unique: list[IndexDefinition] = []
        if any(cursor.is_word(*words) for words in _ADDED_CONSTRAINTS):
            hint = f"CREATE OR REPLACE {kind.value.upper()} defines it again."
            raise cursor.unsupported(f"ALTER .. ADD {first.text} is", hint=hint)
        foreign_keys: list[ForeignKeyDefinition] = []
        column = self._column(kind, key, checks, unique, foreign_keys)
        if key or checks or unique or foreign_keys:
            raise cursor.unsupported("a key, CHECK or UNIQUE with an added column is", token=first)
        return AddColumn(kind, name, column, span)

    def _option_change(self) -> tuple[OptionChange, OptionItem]:
        """Read ``[ADD | SET] name 'value'`` or ``DROP name``."""
        cursor = self.cursor
        change = OptionChange.ADD
        following = cursor.ahead(1)
        if cursor.current.kind is TokenKind.WORD and following.kind in (TokenKind.WORD, TokenKind.QUOTED):
            word = cursor.one_of(*(each.value for each in OptionChange))
            if word is None:
                raise cursor.unexpected("ADD, SET or DROP")
            change = OptionChange(word)
        return change, self._option(takes_value=change is not OptionChange.DROP)

    def _kind(self, what: str) -> ObjectKind:
        """Read SCHEMA, FOREIGN STREAM, ..; ``what`` is the action on the object, for messages."""
        cursor = self.cursor
        for kind in sorted(CREATED_KINDS, key=lambda each: -len(each.value)):
            if cursor.accept(*kind.value.upper().split()):
                return kind
        for words in _LATER:
            if cursor.is_word(*words.split()):
                raise cursor.unsupported(f"{words} is")
        if cursor.is_word("AGGREGATE"):
            raise no_aggregate_kind(cursor)
        raise cursor.fail(
            f"expected {_CREATED}, found {cursor.current.shown}",
            hint=f"These, FOREIGN STREAM, FOREIGN TABLE and FOREIGN DATA WRAPPER {what}.",
        )

    def _drop(self, first: Token) -> Drop:
        cursor = self.cursor
        kind = self._kind("can be dropped")
        if_exists = cursor.accept("IF", "EXISTS")
        name = cursor.qualified_name(f"the name of the {kind.value}")
        cascade = cursor.one_of("RESTRICT", "CASCADE") == "CASCADE"
        return Drop(kind, name, if_exists, cursor.place_of(first), cascade)
