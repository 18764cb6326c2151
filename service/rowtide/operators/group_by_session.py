"""GROUP BY SESSION: rows of one key of which none is a gap or more behind the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.operators.contract import Place
from rowtide.operators.open_groups import Assigned, GroupsWithEnds, KeyCodes, OpenGroup
from rowtide.plan.nodes import GroupBySession
from rowtide.rows.tray import Tray


class GroupBySessionOperator(GroupsWithEnds):
    """A row a session when the bound has reached its last row + gap."""

    def __init__(self, node: GroupBySession, place: Place) -> None:
        self._gap = node.session.gap_ms
        super().__init__(node, place)

    def _index(self) -> None:
        # A later session of the same key takes the place of the one before it.
        self._latest = {group.key: at for at, group in enumerate(self._groups)}

    def _assign(self, tray: Tray, rows: Sequence[int], keys: Sequence[KeyCodes]) -> Assigned:
        assigned = Assigned()
        for row in rows:
            key, rowtime = keys[row], int(tray.rowtime[row])
            group = self._latest.get(key)
            if group is None or self._groups[group].end <= rowtime:
                group = self._latest[key] = len(self._groups)
                first = (rowtime, int(tray.origin[row]), int(tray.counter[row]))
                self._groups.append(OpenGroup(rowtime, rowtime + self._gap, key, first, 1))
            else:
                old = self._groups[group]
                assigned.changed.append((group, old))
                self._groups[group] = old._replace(end=rowtime + self._gap, rows=old.rows + 1)
            assigned.rows.append(row)
            assigned.groups.append(group)
        return assigned

    def _promised(self, bound: int) -> int:
        return min([bound + self._gap, *(group.end for group in self._groups if group.end > bound)])
