"""QUOTE_LITERAL and QUOTE_IDENT: text as a literal or an identifier of PostgreSQL's SQL, row by row."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rowtide.expr.functions.function import ScalarFunction
from rowtide.expr.functions.shapes import always, declared
from rowtide.rows.types import VARCHAR

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_KEYWORDS = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
    char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
    grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
    json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
    lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize
    not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision
    primary real references returning right row select session_user setof similar smallint some substring symmetric
    system_user table tablesample then time timestamp to trailing treat trim true union unique user using values varchar
    variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces
    xmlparse xmlpi xmlroot xmlserialize xmltable
"""
"""Key words of PostgreSQL 18 that are not free as names of columns, tables, types and functions (its Appendix C)."""
_RESERVED = frozenset(_KEYWORDS.split())


def _quote_literal(text: str) -> str:
    """Return a literal; one with a backslash has the prefix E, so that no setting changes its meaning."""
    prefix, escaped = ("E", text.replace("\\", "\\\\")) if "\\" in text else ("", text)
    return f"{prefix}'{escaped.replace(chr(39), 2 * chr(39))}'"


def _quote_ident(text: str) -> str:
    """Return an identifier, in quotes only if it needs them."""
    if _PLAIN.fullmatch(text) and text not in _RESERVED:
        return text
    return '"' + text.replace('"', '""') + '"'


QUOTED: Sequence[ScalarFunction] = (
    declared("QUOTE_LITERAL", "t", always(VARCHAR), _quote_literal),
    declared("QUOTE_IDENT", "t", always(VARCHAR), _quote_ident),
)
