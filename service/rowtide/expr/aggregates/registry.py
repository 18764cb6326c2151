"""All aggregates and window functions by name; each is declared once, in the module of its idea."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Family
from rowtide.expr.aggregates.count import COUNTS
from rowtide.expr.aggregates.extreme import EXTREMES
from rowtide.expr.aggregates.logic import BITS, TRUTHS
from rowtide.expr.aggregates.mode import MODES
from rowtide.expr.aggregates.percentile import PERCENTILES
from rowtide.expr.aggregates.pick import PICKS
from rowtide.expr.aggregates.python import in_python
from rowtide.expr.aggregates.rank import RANKS
from rowtide.expr.aggregates.regression import REGRESSIONS
from rowtide.expr.aggregates.sketch import SKETCHES
from rowtide.expr.aggregates.sum import SUMS
from rowtide.expr.aggregates.text import COLLECTIONS, LISTS
from rowtide.expr.aggregates.variance import VARIANCES

AGGREGATES: Mapping[str, Aggregate] = {
    each.name: each
    for each in (
        *COUNTS,
        *SUMS,
        *EXTREMES,
        *VARIANCES,
        *PICKS,
        *MODES,
        *PERCENTILES,
        *SKETCHES,
        *TRUTHS,
        *BITS,
        *REGRESSIONS,
        *LISTS,
        *COLLECTIONS,
        *RANKS,
    )
}
"""Every aggregate by the name that it has in a plan, in the order of the documentation."""
SPELLED: Mapping[str, Aggregate] = {name: each for each in AGGREGATES.values() for name in each.names}
"""Every aggregate by each name that SQL has for it."""
OF_GROUPS = frozenset(name for name, each in SPELLED.items() if each.in_groups)
"""Names of all that works in groups; most of them work over windows, too."""
ONLY_OVER = frozenset(name for name, each in SPELLED.items() if not each.in_groups)
"""Names of what needs a window."""


def aggregate_of(call: Calling) -> Aggregate:
    """Return the declaration of the aggregate of a call: one in Python, or the built-in one that it names."""
    return AGGREGATES[call.function] if call.of is None else in_python(call.of)


def spelled(family: Family) -> frozenset[str]:
    """Return the names of a family."""
    return frozenset(name for name, each in SPELLED.items() if each.family is family)
