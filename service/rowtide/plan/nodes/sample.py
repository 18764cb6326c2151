"""TABLESAMPLE HASH: the rows of some of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from rowtide.plan.nodes.node import WhyFiltered
from rowtide.plan.nodes.over_one import names_of
from rowtide.plan.nodes.row_wise import Dropping

HASHES = 1 << 64
"""So many different hashes there are."""


@dataclass(frozen=True, slots=True)
class HashSample(Dropping):
    """Keep the rows whose ``keys`` have a hash in the lowest ``percent`` of all hashes (docs/sql/select.md).

    It depends only on the values of fields. So a DELETE is kept exactly where the INSERT of its row was,
    and the sample of a changelog is the changelog of the sample.
    """

    keys: tuple[int, ...]
    percent: Decimal
    seed: int

    @property
    def limit(self) -> int:
        """The least hash that is not kept."""
        return int(Fraction(self.percent) / 100 * HASHES)

    def detail(self) -> str:
        """Return the share, the keys and the seed."""
        return f"{self.percent} percent of ({names_of(self.row_type, self.keys)}), seed {self.seed}"

    def why_filtered(self) -> WhyFiltered:
        """Return that their keys are not in the sample."""
        keys = names_of(self.row_type, self.keys)
        return WhyFiltered(
            f"are not in the sample of {self.percent} percent of ({keys})",
            f"Rows of other values of ({keys}) are written.",
            "Raise the percentage of TABLESAMPLE HASH, which keeps the keys that it has; or change REPEATABLE (seed).",
        )
