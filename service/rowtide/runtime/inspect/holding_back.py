"""All partitions that hold rows of a pipeline back, with the reason of ``explain --why-not`` and the path to the rows.

The main loop looks while somebody watches, and seldom enough that it costs next to nothing.
"""

from __future__ import annotations

from rowtide.flow.why_not import Enquiry, Keeper, Waiting
from rowtide.runtime.inspect.facts import Facts
from rowtide.runtime.inspect.why_not import SilenceCause, kept_back
from rowtide.runtime.progress.graph import PlanGraph
from rowtide.runtime.progress.held_back import HoldingPartition


def held_back(enquiry: Enquiry, graph: PlanGraph, facts: Facts) -> tuple[HoldingPartition, ...]:
    """Return what holds rows back, those with the most rows first. What flows holds nothing back."""
    waiting: dict[tuple[str, int], list[tuple[Keeper, Waiting]]] = {}
    for each in enquiry.waiting():
        for keeper in each.keepers:
            waiting.setdefault((keeper.relation, keeper.partition), []).append((keeper, each))
    firsts = [
        min((keeper for keeper, _ in held), key=lambda each: (each.needs is None, each.needs or 0))
        for held in waiting.values()
    ]
    causes, found = kept_back(firsts, enquiry.sources(), facts), []
    for first, cause, held in zip(firsts, causes, waiting.values(), strict=True):
        if cause.cause == SilenceCause.FLOWING.value:
            continue
        # One step may wait for a partition by several clocks.
        steps = {keeper.path[-1]: each for keeper, each in held}
        path = [at for at in first.path if at in graph.relation_of or at == first.path[0]]
        relations = [graph.relation_of.get(at, first.relation) for at in path]
        found.append(
            HoldingPartition(
                cause.cause,
                cause.relation,
                cause.topic,
                cause.partition,
                cause.has,
                cause.needs,
                cause.why,
                cause.released,
                cause.change,
                sum(each.rows for each in steps.values()),
                tuple(dict.fromkeys(each.relation for each in steps.values())),
                first.path,
                graph.along(relations),
            )
        )
    return tuple(sorted(found, key=lambda each: -each.rows))
