"""The nodes of foreign tables and written streams: one for each, for any number of pumps.

Pumps into one target are the union of their rows, in the order in which the
pumps were created (docs/sql/semantics.md#merge-order, #pumps-and-inserts). So
the last of two rows on one key does not depend on how the input was cut into
commits (law 1).
"""

from __future__ import annotations

from rowtide.plan.nodes import Node, merged
from rowtide.plan.plan import Plan


def table_nodes(plan: Plan) -> dict[str, Node]:
    """Return the node of each foreign table or stream that a pump writes to, by its name."""
    pumped: dict[str, list[Node]] = {}
    for pump in plan.pumps:
        pumped.setdefault(pump.target, []).append(pump.node)
    return {
        target: nodes[0] if len(nodes) == 1 else merged(target, nodes) for target, nodes in pumped.items()
    }
