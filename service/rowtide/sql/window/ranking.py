"""Ranks by value within a period: RANK() OVER (PARTITION BY period, .. ORDER BY x DESC) and its like.

At the end of a period its rows are sorted, as by ORDER BY, and come out in that order with the period's end as
ROWTIME. Their ranks then depend only on earlier rows. A field keeps the old ROWTIME for other expressions of
the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rowtide.expr.aggregates import Family, spelled
from rowtide.expr.functions import resolve
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.frames import CURRENT_ROW, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import Node, SortInPeriod, WindowAggregate
from rowtide.rows.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, Field, RowType
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.relations.relations import can_be_null, project, unique_names

EXACT = Period(PeriodEdge.EXACT)
SO_FAR = Frame(end=CURRENT_ROW)
WHOLE = Frame(end=Edge(EdgeUnit.RANGE, 0))
SHARES = spelled(Family.SHARE)
"""Functions that need all rows of a partition."""


class RankCall(NamedTuple):
    """A ranking function. ``tiles`` is the number of parts of NTILE."""

    function: str
    tiles: int = 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of a ranking: within ``period`` and ``partition``, by ``keys``, with True if a key descends."""

    period: Period
    partition: tuple[Expr, ...]
    keys: tuple[tuple[Expr, bool], ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranked rows, the field of their old ROWTIME, and the field of each rank."""

    node: Node
    rowtime: FieldRef
    ranks: dict[RankCall, FieldRef]


def ranked(relation: str, node: Node, ranking: Ranking, wanted: Sequence[RankCall]) -> Ranked:
    """Return the rows of ``node`` with the ``wanted`` ranks."""
    functions = {each.function for each in wanted}
    old = len(node.row_type)
    keys = [key for key, _ in ranking.keys]
    node, where = _with(relation, node, [RowtimeRef(), *ranking.partition, *keys])
    order = tuple((where[1 + len(ranking.partition) + at], down) for at, (_, down) in enumerate(ranking.keys))
    node = SortInPeriod(relation, node, ranking.period, order)
    node, (end,) = _with(relation, node, [RowtimeRef()], always=True)
    partition = (end, *where[1 : 1 + len(ranking.partition)])
    peers = (*partition, *where[1 + len(ranking.partition) :])

    def numbered(
        below: Node, by: tuple[int, ...], call: WindowCall, name: str, frame: Frame = SO_FAR
    ) -> tuple[Node, FieldRef]:
        names = unique_names([*below.row_type.names, name])
        row_type = RowType((*below.row_type, Field(names[-1], BIGINT, nullable=False)))
        by = tuple(dict.fromkeys(by))
        above = WindowAggregate(relation, below, by, EXACT, frame, (call,), row_type, (0, EXACT))
        return above, FieldRef(len(below.row_type), BIGINT)

    node, number = numbered(node, partition, WindowCall("ROW_NUMBER", None, BIGINT), "$ROW_NUMBER")
    ranks, rank = {RankCall("ROW_NUMBER"): number}, number
    if {"RANK", "DENSE_RANK", "PERCENT_RANK"} & functions:
        # The number of the first of several equal rows is the rank of all of them.
        node, rank = numbered(node, peers, WindowCall("MIN", number, BIGINT), "$RANK")
        ranks[RankCall("RANK")] = rank
    if "DENSE_RANK" in functions:
        is_first = Call("=", (number, rank), resolve("=", (BIGINT, BIGINT)))
        node, (first,) = _with(relation, node, [is_first], always=True)
        counted = WindowCall("COUNT", None, BIGINT, condition=FieldRef(first, BOOLEAN))
        node, ranks[RankCall("DENSE_RANK")] = numbered(node, partition, counted, "$DENSE_RANK")
    shares = [each for each in wanted if each.function in SHARES]
    if shares:
        # All rows of a period have its end as ROWTIME, so they are the rows of the same time.
        node, count = numbered(node, partition, WindowCall("COUNT", None, BIGINT), "$COUNT", WHOLE)
        last = number
        if "CUME_DIST" in functions:
            node, last = numbered(node, peers, WindowCall("MAX", number, BIGINT), "$LAST", WHOLE)
        exprs = [_share(each, number, rank, last, count) for each in shares]
        node, places = _with(relation, node, exprs, always=True)
        ranks |= {
            each: FieldRef(place, expr.type) for each, place, expr in zip(shares, places, exprs, strict=True)
        }
    return Ranked(node, FieldRef(old, TIMESTAMP), ranks)


def _share(share: RankCall, number: Expr, rank: Expr, last: Expr, count: Expr) -> Expr:
    """Return the position of a row in its partition: ``last`` is the number of the last row equal to it."""
    one = _whole(1)
    match share.function:
        case "CUME_DIST":
            return _of("/", _double(last), _double(count))
        case "PERCENT_RANK":
            before = _of("/", _double(_of("-", rank, one)), _double(_of("-", count, one)))
            return Call("CASE", (_of("=", count, one), Literal(0.0, DOUBLE), before), DOUBLE)
        case "NTILE":
            # The first parts have one more row, unless the number of rows is a multiple of the parts.
            size, larger = (_of(each, count, _whole(share.tiles)) for each in ("/", "%"))
            length = _of("+", size, one)
            rows = _of("*", larger, length)
            place = _of("-", number, one)
            first = _of("+", _of("/", place, length), one)
            later = _of("+", _of("+", _of("/", _of("-", place, rows), size), larger), one)
            return Call("CASE", (_of("<=", number, rows), first, later), BIGINT)
    raise ValueError(f"{share.function} is not a distribution function")


def _whole(value: int) -> Literal:
    return Literal(value, BIGINT)


def _double(expr: Expr) -> Expr:
    return Call("CAST", (expr,), DOUBLE)


def _of(name: str, *args: Expr) -> Call:
    return Call(name, args, resolve(name, [arg.type for arg in args]))


def _with(
    relation: str, node: Node, computed: Sequence[Expr], *, always: bool = False
) -> tuple[Node, tuple[int, ...]]:
    """Return ``node`` with fields for computed expressions, and their positions; ``always``: new fields."""
    row_type = node.row_type
    exprs: list[Expr] = [FieldRef(index, field.type) for index, field in enumerate(row_type)]
    fields = list(row_type)
    places = []
    for each in computed:
        if each not in exprs or always:
            fields.append(Field("$RANKED", each.type, can_be_null(each, row_type)))
            exprs.append(each)
        places.append(len(exprs) - 1 if always else exprs.index(each))
    names = unique_names([field.name for field in fields])
    named = tuple(Field(name, each.type, each.nullable) for name, each in zip(names, fields, strict=True))
    return project(relation, node, tuple(exprs), RowType(named)), tuple(places)
