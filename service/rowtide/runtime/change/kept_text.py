"""The text of the file that runs, which the checkpoint keeps so that a changed file can be compared with it.

The text is kept without secrets. To run its plan, their values are those of the changed file or of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import TypeVar

from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.plan import ForeignStream, ForeignTable, Plan, Server
from rowtide.runtime.configured import FORMAT_OPTIONS
from rowtide.sql.grammar.dialect import TokenKind, tokenize
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import OptionItem
from rowtide_connectors.api import Option
from rowtide_connectors.errors import OptionError
from rowtide_connectors.options import HIDDEN, redacted
from rowtide_connectors.registry import find_connector

_Holder = TypeVar("_Holder", Server, ForeignStream, ForeignTable)


def kept_text(text: str, plan: Plan) -> str:
    """Return a pipeline's text without the secrets in its options; ``plan`` is its plan."""
    declared = [*FORMAT_OPTIONS, *(each for server in plan.servers for each in _options(server.wrapper))]
    # Options of one name are secret if one of them is.
    declared.sort(key=lambda option: not option.secret)
    places = {(each.line, each.column) for each in _places(parse(text))}
    tokens, index = tokenize(text)
    parts, end = [], 0
    for name, value in pairwise(tokens):
        place = index.place(name.start, name.end)
        if value.kind is not TokenKind.STRING or (place.line, place.column) not in places:
            continue
        option = name.text if name.kind is TokenKind.QUOTED else name.text.lower()
        shown = redacted(declared, {option: value.text})[option]
        if shown != value.text:
            parts += [text[end : value.start], "'", shown.replace("'", "''"), "'"]
            end = value.end
    return "".join((*parts, text[end:]))


def with_secrets_of(kept: Plan, newer: Plan) -> Plan:
    """Return the plan of a kept text with the secrets that objects of the same name have in ``newer``."""
    return replace(
        kept,
        servers=_filled(kept.servers, newer.servers),
        foreign_streams=_filled(kept.foreign_streams, newer.foreign_streams),
        written_streams=_filled(kept.written_streams, newer.written_streams),
        foreign_tables=_filled(kept.foreign_tables, newer.foreign_tables),
    )


def refuse_hidden(plan: Plan) -> None:
    """Refuse the plan of a kept text in which a secret is still hidden.

    Raises:
      StatementError: naming the object and its option.
    """
    holders: list[Server | ForeignStream | ForeignTable] = [*plan.servers, *plan.foreign_streams]
    for each in (*holders, *plan.written_streams, *plan.foreign_tables):
        for name, value in each.options:
            if HIDDEN in value:
                raise StatementError(
                    f'option "{name}" of "{each.name}" is secret: the text in the checkpoint does not have its value',
                    hint="Set it in the configuration, or pass the file that ran last with --was.",
                )


def _filled(kept: tuple[_Holder, ...], newer: tuple[_Holder, ...]) -> tuple[_Holder, ...]:
    given: Mapping[str, Mapping[str, str]] = {each.name: dict(each.options) for each in newer}
    return tuple(
        replace(
            each,
            options=tuple(
                (name, given.get(each.name, {}).get(name, value) if HIDDEN in value else value)
                for name, value in each.options
            ),
        )
        for each in kept
    )


def _options(wrapper: str) -> Iterator[Option]:
    """Yield all options that a connector declares; none if it cannot be loaded."""
    try:
        connector = find_connector(wrapper)
    except OptionError:
        return
    yield from connector.options
    for part in (connector.source, connector.polled, connector.sink, connector.message_sink):
        if part is not None:
            yield from part.options


def _places(syntax: object) -> Iterator[SourceSpan]:
    """Yield the places of the options in the syntax of statements."""
    if isinstance(syntax, OptionItem):
        yield syntax.place
    elif isinstance(syntax, list | tuple):
        for each in syntax:
            yield from _places(each)
    elif is_dataclass(syntax):
        for field in fields(syntax):
            yield from _places(getattr(syntax, field.name))
