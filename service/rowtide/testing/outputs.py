"""The output rows of each relation of a scenario, and which of them an ``expect`` has taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.tray import Tray
from rowtide.testing.compare import ActualRow


@dataclass(slots=True)
class History:
    """All output rows of one relation; the next ``expect`` takes them from index ``taken`` on."""

    given: list[ActualRow] = field(default_factory=list)
    taken: int = 0


class Outputs:
    """The histories of all relations that a scenario observes."""

    def __init__(self, relations: Iterable[str]) -> None:
        self._histories: dict[str, History] = {}
        self.look_at(relations)

    def look_at(self, relations: Iterable[str]) -> None:
        """Observe these relations, too, from now on."""
        for relation in relations:
            self._histories.setdefault(relation, History())

    def untaken(self, relation: str) -> int:
        """Count the rows of a relation that no ``expect`` has taken."""
        history = self._histories.get(relation)
        return 0 if history is None else len(history.given) - history.taken

    def add(self, relation: str, trays: Iterable[Tray]) -> None:
        """Add output rows of a relation."""
        self.append(
            relation,
            (
                ActualRow(timed.rowtime, timed.row, Opcode(timed.opcode))
                for tray in trays
                for timed in tray.rows()
            ),
        )

    def append(self, relation: str, given: Iterable[ActualRow]) -> None:
        """Add rows that do not come from a flow."""
        self._histories[relation].given += given

    def counts(self) -> dict[str, int]:
        """Return the number of output rows of each relation, for a commit."""
        return {relation: len(history.given) for relation, history in self._histories.items()}

    def cut(self, counts: Mapping[str, int]) -> None:
        """Drop the rows after a commit."""
        for relation, history in self._histories.items():
            del history.given[counts.get(relation, 0) :]

    def take(self, relation: str) -> list[ActualRow]:
        """Return the output rows since the last call."""
        history = self._histories[relation]
        given = history.given[history.taken :]
        history.taken = len(history.given)
        return given

    def contents(self, relation: str, key: Sequence[int]) -> list[Row]:
        """Return the contents after all changes so far: rows by ``key``, or a multiset without a key."""
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
