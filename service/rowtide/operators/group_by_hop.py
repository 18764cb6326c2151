"""GROUP BY HOP: windows of one length that begin every slide; a row is in several of them, or in none."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.operators.contract import Place
from rowtide.operators.open_groups import Assigned, GroupsWithEnds, KeyCodes, OpenGroup
from rowtide.plan.nodes import GroupByHop
from rowtide.rows.tray import Tray


class GroupByHopOperator(GroupsWithEnds):
    """A row a window and key when the window has ended.

    A row is held until the last of its windows has; a row between two windows is done at once.
    """

    def __init__(self, node: GroupByHop, place: Place) -> None:
        self._hop = node.hop
        super().__init__(node, place)

    def _index(self) -> None:
        self._by_window = {(group.start, group.key): at for at, group in enumerate(self._groups)}

    def _assign(self, tray: Tray, rows: Sequence[int], keys: Sequence[KeyCodes]) -> Assigned:
        assigned = Assigned()
        for row in rows:
            rowtime = int(tray.rowtime[row])
            starts = self._hop.starts(rowtime)
            for begin in starts:
                group = self._by_window.get((begin, keys[row]))
                if group is None:
                    first = (rowtime, int(tray.origin[row]), int(tray.counter[row]))
                    group = self._by_window[begin, keys[row]] = len(self._groups)
                    self._groups.append(OpenGroup(begin, begin + self._hop.size_ms, keys[row], first, 0))
                if begin == starts[-1]:
                    old = self._groups[group]
                    assigned.changed.append((group, old))
                    self._groups[group] = old._replace(rows=old.rows + 1)
                assigned.rows.append(row)
                assigned.groups.append(group)
            assigned.without += not starts
        return assigned

    def _promised(self, bound: int) -> int:
        return self._hop.next_end(bound)
