"""Nodes that read one row at a time: filters, projections and promotions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from rowtide.expr.columnar import without_kernel
from rowtide.expr.tree import Expr, FieldRef, RowtimeRef, uses_rowtime
from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.nodes.node import BY_PARTITION, Agreed, StepScope
from rowtide.plan.nodes.over_one import OverOne, SameFields
from rowtide.plan.nodes.sources import Source
from rowtide.plan.show import show, show_interval
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType

IN_COLUMNS = "in columns"


class RowWiseNode(OverOne):
    """Common base of nodes that process one row at a time."""

    __slots__ = ()

    @property
    def is_row_wise(self) -> bool:
        """Always."""
        return True

    @property
    def keeps_rowtime(self) -> bool:
        """Yes, but for a promotion."""
        return True

    def is_changelog(self) -> bool:
        """Return whether the input is a changelog."""
        return self.input.is_changelog()

    def shows_opcodes(self) -> bool:
        """Return whether those of the input are."""
        return self.input.shows_opcodes()

    def only_inserts(self) -> bool:
        """Return whether the input only inserts."""
        return self.input.only_inserts()

    def follows_contents(self) -> bool:
        """Return whether it reads no ROWTIME and sets none."""
        return self.keeps_rowtime and not any(map(uses_rowtime, self.computed()))

    def is_limited(self) -> bool:
        """Return whether the input is limited."""
        return self.input.is_limited()

    def keeps(self) -> str | None:
        """Return None: rows pass."""
        return None

    def work(self) -> str | None:
        """Return that it works on columns, and the functions of its expressions that do not."""
        by_row = tuple(dict.fromkeys(name for each in self.computed() for name in without_kernel(each)))
        return done_but_for(IN_COLUMNS, by_row)

    def scope(self) -> StepScope:
        """Return that it runs for each partition of its input."""
        return BY_PARTITION

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield nothing: rows are followed by their place."""
        return iter(())


class Dropping(SameFields, RowWiseNode):
    """A node that passes some rows on unchanged and drops the others, which count as filtered."""

    __slots__ = ()

    @property
    def keeps_rows(self) -> bool:
        """Always."""
        return True

    def key_fields(self) -> tuple[int, ...] | None:
        """Return those of the input."""
        return self.input.key_fields()

    def keys_merged_by(self, expressions: Sequence[Expr]) -> tuple[int, ...] | None:
        """Return those of the input."""
        return self.input.keys_merged_by(expressions)

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the input's field does."""
        return self.input.holds_rowtime(field)

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields."""
        return agreed


@dataclass(frozen=True, slots=True)
class Filter(Dropping):
    """Keep the rows for which ``condition`` is TRUE; the others are filtered."""

    condition: Expr

    def computed(self) -> tuple[Expr, ...]:
        """Return the condition."""
        return (self.condition,)

    def detail(self) -> str:
        """Return the condition."""
        return show(self.condition, self.input.row_type)

    def own_text(self) -> object:
        """Return relation and condition."""
        return (self.relation, self.condition)


@dataclass(frozen=True, slots=True)
class FilterInserts(Filter):
    """A Filter of the changes that enter a table: a DELETE passes, as it may have only the key of its row."""


@dataclass(frozen=True, slots=True)
class Project(RowWiseNode):
    """Compute ``expressions`` for each row; a row for which one fails is rejected."""

    expressions: tuple[Expr, ...]
    row_type: RowType

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the positions at which the expressions repeat the input's key."""
        known = self.input.key_fields()
        if known is None:
            return None
        merged = self.input.keys_merged_by(self.expressions)
        if merged is not None:
            return merged
        held = [
            next((at for at, each in enumerate(self.expressions) if _is_field(each, index)), None)
            for index in known
        ]
        found = tuple(at for at in held if at is not None)
        return found if len(found) == len(known) else None

    def unchanged(self, fields: Sequence[int]) -> tuple[int, ...] | None:
        """Return the fields that the expressions repeat."""
        given = [self.expressions[index] for index in fields]
        found = tuple(each.index for each in given if isinstance(each, FieldRef))
        return found if len(found) == len(given) else None

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the field's expression is ROWTIME, or a field that holds it."""
        match self.expressions[field]:
            case RowtimeRef():
                return True
            case FieldRef(index=index):
                return self.input.holds_rowtime(index)
            case _:
                return False

    def computed(self) -> tuple[Expr, ...]:
        """Return the expressions."""
        return self.expressions

    def detail(self) -> str:
        """Return the select list."""
        texts = [show(each, self.input.row_type) for each in self.expressions]
        pairs = zip(texts, self.row_type.names, strict=True)
        return ", ".join(text if text == name else f"{text} AS {name}" for text, name in pairs)

    def own_text(self) -> object:
        """Return relation, expressions and row type."""
        return (self.relation, self.expressions, self.row_type)

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the positions at which the expressions repeat the fields."""
        if agreed is None:
            return None
        where = {each.index: at for at, each in enumerate(self.expressions) if isinstance(each, FieldRef)}
        return frozenset(where[index] for index in agreed) if agreed <= where.keys() else None


@dataclass(frozen=True, slots=True)
class ProjectKeys(Project):
    """A Project below a join that keeps its rows: the expressions in ``keys`` are NULL if they fail.

    The row is rejected, and also comes out of the join without a match. (A separate node, so that the
    digests of other projections do not change.)
    """

    keys: tuple[int, ...]


class BoundPolicy(Enum):
    """The effect of a promotion on the bounds of its input (docs/sql/rowtime.md)."""

    PASS = "pass"
    """They are explicit bounds of a foreign stream, already in promoted time."""
    DROP = "drop"
    """They are bounds of the old rowtime and mean nothing for the new one."""
    MAP = "map"
    """The new rowtime is a monotonic expression of the old one: apply it to the bound."""
    LEAST = "least"
    """The new rowtime is an expression of the old one that falls here and there: take its least later value."""


_BOUNDS = {
    BoundPolicy.PASS: "explicit bounds speak of it",
    BoundPolicy.DROP: "bounds on the old rowtime end here",
    BoundPolicy.MAP: "bounds move with it",
    BoundPolicy.LEAST: "bounds move with it, and wait where it falls",
}


@dataclass(frozen=True, slots=True)
class Promote(SameFields, RowWiseNode):
    """Set the rowtime of each row to the value of ``rowtime`` (a TIMESTAMP).

    NULL is rejected (MISSING_FIELD). If ``max_ahead_ms`` is given, a row further ahead of its old rowtime
    than that is rejected (FUTURE).
    """

    rowtime: Expr
    bounds: BoundPolicy
    max_ahead_ms: int | None = None

    @property
    def keeps_rowtime(self) -> bool:
        """Never."""
        return False

    def only_inserts(self) -> bool:
        """Return whether a stream is promoted, or what the input does."""
        return isinstance(self.input, Source) or self.input.only_inserts()

    def is_limited(self) -> bool:
        """Return False: it makes a stream."""
        return False

    def is_ordered(self) -> bool:
        """Return whether an ordered input is mapped to a monotonic expression of its rowtime."""
        return self.bounds is BoundPolicy.MAP and self.input.is_ordered()

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the field is the promoted one: fields that hold the older ROWTIME are others."""
        return self.rowtime == FieldRef(field, self.row_type[field].type)

    def computed(self) -> tuple[Expr, ...]:
        """Return the rowtime."""
        return (self.rowtime,)

    def detail(self) -> str:
        """Return the new rowtime and its effect on bounds."""
        text = f"{show(self.rowtime, self.input.row_type)} AS ROWTIME; {_BOUNDS[self.bounds]}"
        if self.max_ahead_ms is None:
            return text
        return f"{text}; at most {show_interval(self.max_ahead_ms)} ahead"

    def own_text(self) -> object:
        """Return relation and rowtime."""
        return (self.relation, self.rowtime)

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields."""
        return agreed


def done_but_for(work: str, by_row: Sequence[str]) -> str:
    """Return the form of the work, and the parts that run row by row."""
    return f"{work}, but {', '.join(by_row)} row by row" if by_row else work


def _is_field(expr: Expr, index: int) -> bool:
    return isinstance(expr, FieldRef) and expr.index == index
