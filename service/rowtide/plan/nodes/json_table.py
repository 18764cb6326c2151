"""JSON_TABLE: a row for each value that a path names in JSON text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.expr.columnar import without_kernel
from rowtide.expr.json_path import JsonRowSteps, show_path
from rowtide.expr.tree import Expr
from rowtide.plan.json_columns import JsonColumn, JsonColumnKind
from rowtide.plan.nodes.node import Agreed, WhyFiltered
from rowtide.plan.nodes.row_wise import IN_COLUMNS, RowWiseNode, done_but_for
from rowtide.plan.show import show
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class JsonTable(RowWiseNode):
    """A row for each value that ``path`` names in the JSON text ``document`` (docs/sql/json-table.md).

    Out: the fields of the row, then ``columns``; rowtime and tie-break of the row, so its elements stand together,
    in their order. ``keeps_all``: a row without elements comes out with NULL in all columns. A value depends only
    on the row, so the DELETE of a row deletes exactly the rows that its INSERT gave.
    ``empty_on_error``: text that is not JSON has no elements.
    """

    document: Expr
    path: JsonRowSteps
    columns: tuple[JsonColumn, ...]
    keeps_all: bool
    empty_on_error: bool
    row_type: RowType

    @property
    def multiplies(self) -> bool:
        """Yes: a row for each element."""
        return True

    @property
    def width(self) -> int:
        """The number of fields of the row."""
        return len(self.input.row_type)

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the key of the input and the number of the element, if it is a column."""
        known = self.input.key_fields()
        kinds = [each.kind for each in self.columns]
        if known is None or JsonColumnKind.ORDINALITY not in kinds:
            return None
        return (*known, self.width + kinds.index(JsonColumnKind.ORDINALITY))

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the input's field does."""
        return field < self.width and self.input.holds_rowtime(field)

    def unchanged(self, fields: Sequence[int]) -> tuple[int, ...] | None:
        """Return the fields, if none is a column of JSON_TABLE."""
        return tuple(fields) if all(field < self.width for field in fields) else None

    def computed(self) -> tuple[Expr, ...]:
        """Return the document."""
        return (self.document,)

    def work(self) -> str | None:
        """Return that it works on columns, but reads the JSON of each row by itself."""
        by_row = (*without_kernel(self.document), "JSON_TABLE")
        return done_but_for(IN_COLUMNS, by_row)

    def detail(self) -> str:
        """Return the document, the path and the columns."""
        text = f"{show(self.document, self.input.row_type)} at {show_path(self.path)}: "
        text += ", ".join(self._shown())
        return f"{text}; rows without elements stay" if self.keeps_all else text

    def _shown(self) -> Iterator[str]:
        for at, each in enumerate(self.columns):
            name = self.row_type[self.width + at].name
            if each.kind is JsonColumnKind.ORDINALITY:
                yield f"{name} for ordinality"
            else:
                test = "exists " if each.kind is JsonColumnKind.EXISTS else ""
                yield f"{name} {test}{show_path(each.steps)}"

    def own_text(self) -> object:
        """Return the whole computation without its input."""
        return (self.relation, self.document, self.path, self.columns, self.row_type)

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields: the rows of one row stay together, in their order."""
        return agreed

    def why_filtered(self) -> WhyFiltered:
        """Return that they have no elements."""
        return WhyFiltered(
            f"have no element at {show_path(self.path)} in the JSON",
            "Rows with elements are written, one for each element.",
            "LEFT JOIN JSON_TABLE (..) AS t ON TRUE keeps rows without elements.",
        )
