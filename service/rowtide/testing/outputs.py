"""What has come out of each relation of a scenario, and how much of it is committed and taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.tray import Tray
from rowtide.testing.compare import ActualRow


@dataclass(slots=True)
class History:
    """Everything that came out of one relation; an ``expect`` takes from ``taken`` on."""

    given: list[ActualRow] = field(default_factory=list)
    taken: int = 0


class Outputs:
    """The histories of all relations that a scenario looks at."""

    def __init__(self, relations: Iterable[str]) -> None:
        self._histories: dict[str, History] = {}
        self.look_at(relations)

    def look_at(self, relations: Iterable[str]) -> None:
        """Look at these relations too from now on."""
        for relation in relations:
            self._histories.setdefault(relation, History())

    def untaken(self, relation: str) -> int:
        """Count the rows of a relation that no ``expect`` has taken."""
        history = self._histories.get(relation)
        return 0 if history is None else len(history.given) - history.taken

    def add(self, relation: str, trays: Iterable[Tray]) -> None:
        """Add what came out of a relation."""
        self.append(
            relation,
            (
                ActualRow(timed.rowtime, timed.row, Opcode(timed.opcode))
                for tray in trays
                for timed in tray.rows()
            ),
        )

    def append(self, relation: str, given: Iterable[ActualRow]) -> None:
        """Add rows that no flow gave."""
        self._histories[relation].given += given

    def counts(self) -> dict[str, int]:
        """Return how many rows each relation has given: what a commit keeps."""
        return {relation: len(history.given) for relation, history in self._histories.items()}

    def cut(self, counts: Mapping[str, int]) -> None:
        """Go back to what a commit kept."""
        for relation, history in self._histories.items():
            del history.given[counts.get(relation, 0) :]

    def take(self, relation: str) -> list[ActualRow]:
        """Return what came out since the last call."""
        history = self._histories[relation]
        given = history.given[history.taken :]
        history.taken = len(history.given)
        return given

    def contents(self, relation: str, key: Sequence[int]) -> list[Row]:
        """Return what all changes so far leave: rows by ``key``, or as a multiset without one."""
        if key:
            held: dict[Row, Row] = {}
            for given in self._histories[relation].given:
                place = tuple(given.row[index] for index in key)
                if given.opcode is Opcode.DELETE:
                    held.pop(place, None)
                else:
                    held[place] = given.row
            return list(held.values())
        counted: Counter[Row] = Counter()
        for given in self._histories[relation].given:
            counted[given.row] += given.opcode
        return list(counted.elements())
