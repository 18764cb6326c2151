"""A plan as a tree of text, for people, and as plain values, for programs."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.plan.nodes import Node
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class Explained:
    """One node: its kind, the relation whose text contains it, its work, and the fields of its rows.

    ``path``: how its operator works; ``keeps``: its state, and what bounds it.
    """

    node: str
    relation: str
    detail: str
    path: str | None
    keeps: str | None
    fields: tuple[str, ...]
    inputs: tuple[Explained, ...]

    def lines(self) -> list[str]:
        """Return the tree as lines of text, inputs indented below."""
        head = f"{self.node} {self.relation}"
        found = [f"{head}: {self.detail}" if self.detail else head]
        work = [*([self.path] if self.path else []), *([f"keeps {self.keeps}"] if self.keeps else [])]
        if work:
            found.append(f"{'|' if self.inputs else ' '}    [{'; '.join(work)}]")
        for each in self.inputs:
            branch = "|  " if each is not self.inputs[-1] else "   "
            first, *rest = each.lines()
            found += [f"+- {first}", *(branch + line for line in rest)]
        return found


def explain(node: Node) -> Explained:
    """Explain ``node`` and all that it reads."""
    return Explained(
        type(node).__name__,
        node.relation,
        node.detail(),
        node.work(),
        node.keeps(),
        tuple(f"{field.name} {field.type}" for field in node.row_type),
        tuple(explain(each) for each in node.inputs),
    )


def columns_of(row_type: RowType) -> str:
    """Return the declared columns of a relation."""
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' NOT NULL'}" for field in row_type
    )
