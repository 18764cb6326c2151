"""Campaigns: rounds of faults drawn from a seed, each round on a topic and a database of its own."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.brokers import Cluster
from chaos.faults import FAULTS
from chaos.postgres import Replicated
from chaos.world import Violation, World

ROUND = 40
"""Faults of a round. Each comparison recomputes the whole log, so a longer round takes more time a fault."""


@dataclass
class Tally:
    """What has happened: faults by name, commits at which tables were compared, and processes that ended."""

    faults: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    exits: Counter[int] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Return the numbers in one line."""
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return f"{self.faults.total()} faults ({faults}); {self.commits} commits compared; ended: {dict(self.exits)}"


def drawn(seed: int, names: Sequence[str]) -> Iterator[str]:
    """Yield names of faults without end: each as often as the others, in an order that the seed decides."""
    rng = random.Random(seed)
    while True:
        yield from rng.sample(names, len(names))


def play(
    cluster: Cluster,
    database: Replicated,
    seed: int,
    faults: Sequence[str],
    tally: Tally,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Play one round.

    Raises:
      Violation: what must hold does not; the text has the faults up to it, which repeat the round.
    """
    with tempfile.TemporaryDirectory(prefix="rowtide-chaos-") as folder:
        world = World(cluster, database, Path(folder), seed)
        done: list[str] = []
        try:
            world.must_move_on()
            for name in faults:
                done.append(name)
                FAULTS[name](world)
                world.check()
                world.must_move_on()
                world.check()
                tally.faults[name] += 1
                tell(name)
            world.finish()
        except Violation as error:
            raise Violation(
                f"{error}\nagain: python -m chaos --seed {seed} --faults {' '.join(done)}"
            ) from error
        finally:
            tally.commits += len(world.commits_seen)
            tally.exits += world.exits
            world.close()


def campaign(
    cluster: Cluster,
    database: Replicated,
    seed: int,
    count: int,
    names: Sequence[str],
    tell: Callable[[str], None] = lambda line: None,
) -> Tally:
    """Play ``count`` faults in rounds of ``ROUND``, and return what has happened.

    Raises:
      Violation: as ``play``.
    """
    tally, left = Tally(), iter(itertools.islice(drawn(seed, names), count))
    for number in itertools.count():
        faults = list(itertools.islice(left, ROUND))
        if not faults:
            return tally
        play(cluster, database, seed + number, faults, tally, tell)
        tell(str(tally))
    raise AssertionError
