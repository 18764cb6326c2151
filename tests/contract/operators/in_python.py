"""Aggregates in Python for cases: sums with and without ``retract``, and texts in their order."""

from __future__ import annotations

from rowtide.expr.tree import PythonAggregate
from rowtide.rows.types import INTEGER, VARCHAR, Type


def _declared(name: str, taken: Type, *, retracts: bool = False) -> PythonAggregate:
    path = f"property.sql.declared_aggregates:{name}"
    return PythonAggregate(
        name.upper(), path, (taken,), VARCHAR, takes_null=False, retracts=retracts, code=""
    )


IN_PYTHON = {
    each.name: each
    for each in (
        _declared("Total", INTEGER),
        _declared("Moving", INTEGER, retracts=True),
        _declared("Texts", VARCHAR),
    )
}
"""By the name in a call."""
