"""Connects streams and engine tables to their feeds: pumps and INSERT statements replace bare sources.

A stream that pumps feed is the merge of their rows, in the order in which the pumps were created. If
something outside also inserts into a stream or table, that is its last producer
(docs/sql/semantics.md#merge-order, #pumps-and-inserts). Rows that a table begins with come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rowtide.plan.nodes import Node, Source, TableSource, merged, rewrite
from rowtide.rows.rowop import Row


@dataclass(frozen=True, slots=True)
class Feed:
    """The input of one stream or engine table.

    ``pumps`` are the nodes of pumps, not connected yet; ``rows`` those of INSERT statements;
    ``outside``: something outside the plan, for example a scenario's step, inserts, too. ``changing``:
    producers of this stream have come or gone, so it is a merge even with one producer, which keeps
    the stream's bound.
    """

    pumps: tuple[Node, ...] = ()
    rows: tuple[Row, ...] = ()
    outside: bool = False
    changing: bool = False


class FeedConnector:
    """Replaces sources by their feeds. Feeds must not form a cycle."""

    def __init__(self, feeds: Mapping[str, Feed]) -> None:
        self._feeds = feeds
        self._connected: dict[str, Node] = {}

    def connect(self, node: Node) -> Node:
        """Return ``node`` with every source replaced by what feeds it."""
        return rewrite(node, self._fed)

    def _fed(self, node: Node) -> Node:
        if not isinstance(node, Source | TableSource) or node.relation not in self._feeds:
            return node
        if node.relation not in self._connected:
            self._connected[node.relation] = self._entrance(node, self._feeds[node.relation])
        return self._connected[node.relation]

    def _entrance(self, node: Source | TableSource, feed: Feed) -> Node:
        pumped = [self.connect(pump) for pump in feed.pumps]
        if isinstance(node, TableSource):
            if not pumped:
                return replace(node, rows=feed.rows, loaded_once=not feed.outside)
            if feed.outside:
                pumped.append(replace(node, rows=feed.rows))
            elif feed.rows:
                # First, so that they exist before any row or bound of a pump.
                pumped.insert(0, replace(node, rows=feed.rows, loaded_once=True))
        elif not pumped:
            return node
        elif feed.outside:
            pumped.append(node)
        is_merge = len(pumped) > 1 or (feed.changing and isinstance(node, Source))
        return merged(node.relation, pumped) if is_merge else pumped[0]
