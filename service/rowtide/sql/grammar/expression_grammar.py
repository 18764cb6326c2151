"""The grammar of expressions: tokens -> syntax.

Precedence from loose to tight: OR, AND, NOT, predicates and comparisons
(which do not chain), ``& | # << >> @> <@``, ``||`` with + and -, then * / %, then
signs and ``~``, then ``::``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import SourceSpan
from rowtide.rowtime.period import CalendarUnit
from rowtide.sql.grammar.clauses import arrays, json_values, periods
from rowtide.sql.grammar.clauses.aggregate_forms import aggregate_written_out, value_order
from rowtide.sql.grammar.clauses.window_grammar import over
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.syntax import (
    LENGTH_UNITS,
    Between,
    Binary,
    BooleanLiteral,
    Case,
    Cast,
    ColumnRef,
    DerivedTable,
    Exists,
    Expression,
    Extract,
    FunctionCall,
    InList,
    InQuery,
    IsDistinct,
    IsTest,
    Like,
    Name,
    NullLiteral,
    NumberLiteral,
    OrderItem,
    Quantified,
    QuerySyntax,
    Rounded,
    ScalarQuery,
    Select,
    SelectItem,
    Stepped,
    StringLiteral,
    Unary,
)
from rowtide.sql.grammar.syntax_walk import connected
from rowtide.sql.grammar.type_grammar import TypeGrammar

_COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_MATCHES = ("~", "~*", "!~", "!~*")
_OTHERS = ("&", "|", "#", "<<", ">>", "@>", "<@")
_PATTERNS = ("LIKE", "ILIKE", "SIMILAR TO")
_EXTRACTED = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "ISODOW", "ISOYEAR", "DECADE", "CENTURY"),
    *("HOUR", "MINUTE", "SECOND", "MILLISECOND", "EPOCH"),
)
_NILADIC = (
    *("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "LOCALTIME"),
    "CURRENT_ROW_TIMESTAMP",
)


class ExpressionGrammar(TypeGrammar):
    """Reads expressions from a cursor."""

    def query(self) -> QuerySyntax:
        """Read a query. The grammar of queries implements this."""
        raise self.cursor.unsupported("a query inside of an expression is")

    # ---------------------------------------------------------- precedence

    def expression(self) -> Expression:
        """Read one expression."""
        self.cursor.enter()
        first = self.cursor.current
        left = self._conjunction()
        while self.cursor.accept("OR"):
            left = Binary("OR", left, self._conjunction(), self.cursor.span(first))
        self.cursor.leave()
        return left

    def _conjunction(self) -> Expression:
        first = self.cursor.current
        left = self._negation()
        while self.cursor.accept("AND"):
            left = Binary("AND", left, self._negation(), self.cursor.span(first))
        return left

    def _negation(self) -> Expression:
        first = self.cursor.current
        if not self.cursor.accept("NOT"):
            return self._predicate()
        self.cursor.enter()
        operand = self._negation()
        self.cursor.leave()
        return Unary("NOT", operand, self.cursor.span(first))

    def _predicate(self) -> Expression:
        first = self.cursor.current
        left = self.operand()
        if self.cursor.is_symbol(*_COMPARISONS):
            operator = self.cursor.advance().text
            if self._is_quantified():
                return self._quantified(operator, left, first)
            right = self.operand()
            left = Binary("<>" if operator == "!=" else operator, left, right, self.cursor.span(first))
            if self.cursor.is_symbol(*_COMPARISONS):
                raise self.cursor.fail(
                    "comparisons do not chain", hint="Combine two comparisons with AND or OR."
                )
        while True:
            after = self._suffix(left, first)
            if after is None:
                return left
            left = after

    def _is_quantified(self) -> bool:
        cursor = self.cursor
        return any(cursor.is_word(word) for word in ("ANY", "SOME", "ALL")) and cursor.ahead(1).text == "("

    def _quantified(self, operator: str, left: Expression, first: Token) -> Expression:
        """Read ANY or ALL of a query or an array: of a query ``= ANY`` is IN, ``<> ALL`` is NOT IN."""
        cursor = self.cursor
        every = cursor.one_of("ANY", "SOME", "ALL") == "ALL"
        cursor.expect_symbol("(")
        operator = "<>" if operator == "!=" else operator
        if not cursor.is_query:
            return arrays.compared_with_elements(self, operator, left, first, every=every)
        query = self.query()
        cursor.expect_symbol(")")
        place = cursor.span(first)
        if (operator, every) in (("=", False), ("<>", True)):
            return InQuery(left, query, every, place)
        return Quantified(operator, left, query, every, place)

    def _suffix(self, left: Expression, first: Token) -> Expression | None:
        """Read IS, BETWEEN, IN, LIKE, ~ or OVERLAPS after ``left``; return None if none of them follows."""
        cursor = self.cursor
        if periods.is_predicate(cursor):
            return periods.predicate(self, (left,), first)
        if cursor.is_symbol(*_MATCHES):
            return self._match(left, first)
        if cursor.accept("IS"):
            negated = cursor.accept("NOT")
            if cursor.accept("DISTINCT", "FROM"):
                return IsDistinct(left, self.operand(), negated, cursor.span(first))
            test = cursor.one_of("NULL", "TRUE", "FALSE", "UNKNOWN")
            if test is None:
                raise cursor.unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
            return IsTest(left, test, negated, cursor.span(first))
        if cursor.is_word("NOT") and not any(
            cursor.is_word(word, ahead=1) for word in ("BETWEEN", "IN", "LIKE", "ILIKE", "SIMILAR")
        ):
            raise cursor.unexpected("a comparison")
        negated = cursor.accept("NOT")
        if cursor.accept("BETWEEN"):
            return self._between(left, negated, first)
        if cursor.accept("IN"):
            return self._in(left, negated, first)
        for words in _PATTERNS:
            if cursor.accept(*words.split()):
                pattern = self.operand()
                escape = self.operand() if cursor.accept("ESCAPE") else None
                return Like(left, pattern, escape, negated, cursor.span(first), words)
        return None

    def _match(self, left: Expression, first: Token) -> Expression:
        """Read ``~ expression`` and its variants as REGEXP_LIKE: ``*`` ignores case, ``!`` negates."""
        operator = self.cursor.advance().text
        pattern = self.operand()
        place = self.cursor.span(first)
        flags = (StringLiteral("i", place),) if operator.endswith("*") else ()
        found = FunctionCall("REGEXP_LIKE", (left, pattern, *flags), place)
        return Unary("NOT", found, place) if operator.startswith("!") else found

    def _between(self, left: Expression, negated: bool, first: Token) -> Expression:
        cursor = self.cursor
        symmetric = cursor.one_of("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
        low = self.operand()
        cursor.expect("AND")
        high = self.operand()
        place = cursor.span(first)
        if not symmetric:
            return Between(left, low, high, negated, place)
        either = Binary(
            "OR", Between(left, low, high, False, place), Between(left, high, low, False, place), place
        )
        return Unary("NOT", either, place) if negated else either

    def _in(self, left: Expression, negated: bool, first: Token) -> Expression:
        cursor = self.cursor
        cursor.expect_symbol("(")
        if cursor.is_query:
            query = self.query()
            cursor.expect_symbol(")")
            return InQuery(left, query, negated, cursor.span(first))
        items = cursor.comma_list(self.expression)
        cursor.expect_symbol(")")
        return InList(left, items, negated, cursor.span(first))

    def operand(self) -> Expression:
        """Read one operand of a comparison."""
        first = self.cursor.current
        left = self._addition()
        while self.cursor.is_symbol(*_OTHERS):
            operator = self.cursor.advance().text
            left = Binary(operator, left, self._addition(), self.cursor.span(first))
        return left

    def _addition(self) -> Expression:
        first = self.cursor.current
        left = self._product()
        while self.cursor.is_symbol("+", "-", "||"):
            operator = self.cursor.advance().text
            left = Binary(operator, left, self._product(), self.cursor.span(first))
        return left

    def _product(self) -> Expression:
        first = self.cursor.current
        left = self._power()
        while self.cursor.is_symbol("*", "/", "%"):
            operator = self.cursor.advance().text
            left = Binary(operator, left, self._power(), self.cursor.span(first))
        return left

    def _power(self) -> Expression:
        first = self.cursor.current
        left = self._signed()
        while self.cursor.accept_symbol("^"):
            left = FunctionCall("POWER", (left, self._signed()), self.cursor.span(first))
        return left

    def _signed(self) -> Expression:
        first = self.cursor.current
        if not self.cursor.is_symbol("+", "-", "~"):
            return self._converted()
        operator = self.cursor.advance().text
        self.cursor.enter()
        operand = self._signed()
        self.cursor.leave()
        return Unary(operator, operand, self.cursor.span(first))

    def _converted(self) -> Expression:
        """Read a value and the conversions after it, as in ``x::INTEGER`` or ``x AT TIME ZONE 'Asia/Tokyo'``."""
        cursor = self.cursor
        first = cursor.current
        found = self._reached()
        while (zoned := cursor.accept("AT", "TIME", "ZONE")) or cursor.accept_symbol("::"):
            if zoned:
                found = FunctionCall("FROM_UTC_TIMESTAMP", (found, self._reached()), cursor.span(first))
                continue
            if isinstance(found, StringLiteral) and self.is_wordless_interval():
                cursor.expect("INTERVAL")
                found = self.interval_in_words(found.text, first)
                continue
            target, fields = self.cast_target()
            found = Cast(found, target, cursor.span(first), False, fields)
        return found

    # ------------------------------------------------------------ primaries

    def _reached(self) -> Expression:
        """Read a value and its JSON accesses: ``x -> 'user' ->> 'name'``."""
        cursor = self.cursor
        first = cursor.current
        left = arrays.with_subscripts(self, self._primary(), first)
        while cursor.is_symbol("->", "->>"):
            operator = cursor.advance().text
            negative = cursor.accept_symbol("-")
            step = self._primary()
            if negative:
                step = Unary("-", step, step.place)
            left = FunctionCall(operator, (left, step), cursor.span(first))
        return left

    def _primary(self) -> Expression:
        cursor = self.cursor
        token = cursor.current
        if token.kind is TokenKind.NUMBER:
            return NumberLiteral(cursor.advance().text, cursor.place_of(token))
        if token.kind is TokenKind.STRING:
            return StringLiteral(cursor.advance().text, cursor.place_of(token))
        if cursor.accept_symbol("("):
            if cursor.is_query:
                query = self.query()
                cursor.expect_symbol(")")
                return ScalarQuery(query, cursor.span(token))
            inner = self.expression()
            if cursor.is_symbol(","):
                return self._row_in(token, inner)
            cursor.expect_symbol(")")
            return self._measured(inner, token)
        if periods.is_period(cursor):
            return periods.period(self)
        if arrays.is_array(cursor):
            return arrays.array(self)
        if token.kind is TokenKind.WORD:
            special = self._word(token)
            if special is not None:
                return special
        if not cursor.is_name():
            raise cursor.unexpected("an expression")
        if cursor.ahead(1).kind is TokenKind.SYMBOL and cursor.ahead(1).text == "(":
            return self._call(token)
        return self.column()

    def _measured(self, inner: Expression, first: Token) -> Expression:
        """Read the unit after a difference of times, as in ``(x - y) MINUTE TO SECOND``, if any."""
        cursor = self.cursor
        if not isinstance(inner, Binary) or inner.operator != "-":
            return inner
        unit = cursor.one_of(*LENGTH_UNITS)
        if unit is None:
            return inner
        if cursor.accept("TO"):
            # The value is the same, but it is not a number of one unit.
            unit = cursor.one_of(*LENGTH_UNITS)
            if unit is None:
                raise cursor.unexpected("HOUR, MINUTE or SECOND")
            unit = "TO"
        return Unary(unit, inner, cursor.span(first))

    def _row_in(self, token: Token, first: Expression) -> Expression:
        """Read ``(x, y) [NOT] IN ((1, 2), ..)`` or ``(x, y) OVERLAPS ..`` after the first value."""
        cursor = self.cursor
        values = [first]
        while cursor.accept_symbol(","):
            values.append(self.expression())
        cursor.expect_symbol(")")
        if periods.follows_a_row(cursor):
            return periods.predicate(self, values, token)
        negated = cursor.is_word("NOT", "IN") and cursor.accept("NOT")
        if not cursor.accept("IN"):
            raise cursor.unsupported("a row of values in another place than before IN is", token=token)
        cursor.expect_symbol("(")
        if cursor.is_query:
            query = self.query()
            cursor.expect_symbol(")")
            return self._row_in_query(values, query, negated=negated, span=cursor.span(token))
        found: Expression | None = None
        for other in cursor.comma_list(lambda: (cursor.current, cursor.wrapped(self.expression))):
            start, row = other
            if len(row) != len(values):
                raise cursor.fail(f"this row has {len(row)} values, not {len(values)}", token=start)
            place = cursor.place_of(start)
            pairs = zip(values, row, strict=True)
            same = connected(Binary("=", left, right, place) for left, right in pairs)
            if same is not None:
                found = same if found is None else Binary("OR", found, same, place)
        cursor.expect_symbol(")")
        if found is None:
            raise cursor.unexpected("a row of values")
        return Unary("NOT", found, cursor.span(token)) if negated else found

    def _row_in_query(
        self, values: Sequence[Expression], query: QuerySyntax, *, negated: bool, span: SourceSpan
    ) -> Expression:
        """Return ``(x, y) IN (query)`` as EXISTS of rows that are equal."""
        names = tuple(Name(f"$C{at}", span) for at in range(len(values)))
        rows = Name("$ROWS", span)
        pairs = zip(names, values, strict=True)
        same = connected(Binary("=", ColumnRef((rows, name), span), value, span) for name, value in pairs)
        source = DerivedTable(query, rows, place=span, columns=names)
        items = (SelectItem(NumberLiteral("1", span), None, span),)
        found = Exists(Select(items, source, False, same, (), None, (), span), span, of_row=True)
        return Unary("NOT", found, span) if negated else found

    def _word(self, token: Token) -> Expression | None:
        """Read an expression that begins with a keyword; return None if the word is a name."""
        cursor = self.cursor
        following = cursor.ahead(1)
        match token.text:
            case "NULL":
                cursor.advance()
                return NullLiteral(cursor.place_of(token))
            case "TRUE" | "FALSE" | "UNKNOWN":
                cursor.advance()
                return BooleanLiteral(
                    None if token.text == "UNKNOWN" else token.text == "TRUE", cursor.place_of(token)
                )
            case "X" if following.kind is TokenKind.STRING and following.start == token.end:
                return self.binary()
            case "CASE":
                return self._case()
            case "CAST":
                return self._cast()
            case "TRY_CAST" if following.text == "(":
                return self._cast(tried=True)
            case "INTERVAL":
                return self.interval()
            case "EXISTS":
                cursor.advance()
                cursor.expect_symbol("(")
                query = self.query()
                cursor.expect_symbol(")")
                return Exists(query, cursor.span(token))
            case "DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMPTZ" if self.is_datetime():
                return self.datetime()
            case "LEFT" | "RIGHT" if following.kind is TokenKind.SYMBOL and following.text == "(":
                cursor.advance()
                cursor.advance()
                return self._plain_call(token, Name(token.text, cursor.place_of(token)))
            case "CURSOR" | "TABLE" if following.text == "(":
                raise cursor.unsupported(f"{token.text}(...) is")
        if token.text in _NILADIC and following.text != "(":
            cursor.advance()
            return FunctionCall(token.text, (), cursor.place_of(token))
        return None

    def column(self) -> ColumnRef:
        """Read the name of a column, with a dot for each qualifier."""
        cursor = self.cursor
        first = cursor.current
        parts = [cursor.name("the name of a column")]
        while cursor.accept_symbol("."):
            parts.append(cursor.name("the name of a column"))
        return ColumnRef(tuple(parts), cursor.span(first))

    def _case(self) -> Case:
        cursor = self.cursor
        first = cursor.expect("CASE")
        operand = None if cursor.is_word("WHEN") else self.expression()
        branches = []
        while cursor.accept("WHEN"):
            condition = self.expression()
            cursor.expect("THEN")
            branches.append((condition, self.expression()))
        if not branches:
            raise cursor.unexpected('"WHEN"')
        otherwise = self.expression() if cursor.accept("ELSE") else None
        cursor.expect("END")
        return Case(operand, tuple(branches), otherwise, cursor.span(first))

    def _cast(self, *, tried: bool = False) -> Cast:
        cursor = self.cursor
        first = cursor.expect("TRY_CAST" if tried else "CAST")
        cursor.expect_symbol("(")
        operand = self.expression()
        cursor.expect("AS")
        target, fields = self.cast_target()
        cursor.expect_symbol(")")
        return Cast(operand, target, cursor.span(first), tried, fields)

    def order_item(self) -> OrderItem:
        """Read one term of an ORDER BY, without WITHIN."""
        cursor = self.cursor
        first = cursor.current
        expression = self.expression()
        descending = cursor.one_of("ASC", "DESC") == "DESC"
        nulls_first = None
        if cursor.accept("NULLS"):
            word = cursor.one_of("FIRST", "LAST")
            if word is None:
                raise cursor.unexpected("FIRST or LAST")
            nulls_first = word == "FIRST"
        return OrderItem(expression, descending, None, cursor.span(first), nulls_first)

    # ------------------------------------------------------------ functions

    def _call(self, token: Token) -> Expression:
        cursor = self.cursor
        name = cursor.name("the name of a function")
        cursor.expect_symbol("(")
        match name.text if token.kind is TokenKind.WORD else "":
            case "FLOOR" | "CEIL" | "CEILING":
                return self._floor(token, "FLOOR" if name.text == "FLOOR" else "CEIL")
            case "STEP":
                operand = self.expression()
                cursor.expect("BY")
                length = self.expression()
                cursor.expect_symbol(")")
                return Stepped(operand, length, cursor.span(token))
            case "EXTRACT":
                unit = cursor.one_of(*_EXTRACTED)
                if unit is None:
                    raise cursor.unexpected("a unit such as YEAR or HOUR")
                cursor.expect("FROM")
                operand = self.expression()
                cursor.expect_symbol(")")
                return Extract(unit, operand, cursor.span(token))
            case "TRIM":
                return self._trim(token)
            case "POSITION":
                needle = self.operand()
                cursor.expect("IN")
                args: tuple[Expression, ...] = (needle, self.expression())
                cursor.expect_symbol(")")
                return FunctionCall("POSITION", args, cursor.span(token))
            case "SUBSTRING":
                return self._listed(token, "SUBSTRING", ("FROM", "FOR"))
            case "OVERLAY":
                return self._listed(token, "OVERLAY", ("PLACING", "FROM", "FOR"))
            case "JSON_VALUE":
                return json_values.json_value(self, token)
            case "JSON_OBJECT" | "JSON_ARRAY":
                return json_values.made_json(self, token, name.text)
        return self._plain_call(token, name)

    def _plain_call(self, token: Token, name: Name) -> FunctionCall:
        """Read the arguments of ``name`` and the clauses after an aggregate."""
        cursor = self.cursor
        star = cursor.accept_symbol("*")
        distinct = not star and cursor.accept("DISTINCT")
        if not star and not distinct:
            cursor.accept("ALL")
        if cursor.is_word("SELECT") or cursor.is_word("CURSOR"):
            raise cursor.unsupported("a query as an argument is")
        order: tuple[OrderItem, ...] = ()
        if name.text in json_values.AGGREGATES and token.kind is TokenKind.WORD:
            of_json, order = json_values.aggregated_json(self, token, name.text)
            args: tuple[Expression, ...] = (of_json,)
        else:
            args = () if star or cursor.is_symbol(")") else cursor.comma_list(self.expression)
        descending = False
        if cursor.is_word("ORDER"):
            args, descending, order = value_order(self, name.text, args)
        inside = cursor.accept("IGNORE", "NULLS")
        cursor.expect_symbol(")")
        if cursor.accept("WITHIN", "GROUP"):
            cursor.expect_symbol("(")
            args, descending, order = value_order(self, name.text, args)
            cursor.expect_symbol(")")
        condition = None
        if cursor.is_word("FILTER") and cursor.ahead(1).text == "(":
            cursor.advance()
            cursor.expect_symbol("(")
            cursor.expect("WHERE")
            condition = self.expression()
            cursor.expect_symbol(")")
        ignore_nulls = cursor.accept("IGNORE", "NULLS") or inside
        if not ignore_nulls:
            cursor.accept("RESPECT", "NULLS")
        window = over(self) if cursor.accept("OVER") else None
        place = cursor.span(token)
        call = FunctionCall(
            name.text, args, place, star, distinct, condition, window, ignore_nulls, descending, order=order
        )
        return aggregate_written_out(call) if token.kind is TokenKind.WORD else call

    def _floor(self, token: Token, function: str) -> Expression:
        cursor = self.cursor
        operand = self.expression()
        if not cursor.accept("TO"):
            args = [operand]
            while cursor.accept_symbol(","):
                args.append(self.expression())
            cursor.expect_symbol(")")
            if cursor.is_word("TO"):
                raise cursor.fail(
                    "the unit must be inside the parentheses",
                    hint=f"Write {function}(ROWTIME TO {cursor.ahead(1).text}).",
                )
            return FunctionCall(function, tuple(args), cursor.span(token))
        word = cursor.one_of(*(unit.value for unit in CalendarUnit))
        if word is None:
            raise cursor.unexpected("MILLISECOND, SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER or YEAR")
        cursor.expect_symbol(")")
        return Rounded(function, operand, CalendarUnit(word), cursor.span(token))

    def _trim(self, token: Token) -> FunctionCall:
        cursor = self.cursor
        side = cursor.one_of("BOTH", "LEADING", "TRAILING")
        characters: Expression = StringLiteral(" ", cursor.place_of(token))
        if side is not None and cursor.accept("FROM"):
            text = self.expression()
        else:
            text = self.expression()
            if cursor.accept("FROM"):
                characters, text = text, self.expression()
            elif side is not None:
                raise cursor.unexpected('"FROM"')
        cursor.expect_symbol(")")
        name = {"LEADING": "TRIM_LEADING", "TRAILING": "TRIM_TRAILING"}.get(side or "", "TRIM")
        return FunctionCall(name, (text, characters), cursor.span(token))

    def _listed(self, token: Token, name: str, words: tuple[str, ...]) -> FunctionCall:
        """Read ``f(x WORD y WORD z)``, in which later words are optional, or arguments with commas."""
        cursor = self.cursor
        args = [self.operand()]
        if cursor.is_symbol(","):
            while cursor.accept_symbol(","):
                args.append(self.operand())
        else:
            if name == "SUBSTRING" and cursor.accept("SIMILAR"):
                args.append(self.operand())
                cursor.expect("ESCAPE")
                args.append(self.operand())
                words = ()
            for word in words:
                if cursor.accept(word):
                    args.append(self.operand())
                elif word != "FOR":
                    raise cursor.unexpected(f'"{word}"')
        cursor.expect_symbol(")")
        return FunctionCall(name, tuple(args), cursor.span(token))
