"""Let faults happen to a pipeline on real brokers and databases, and compare its tables after each."""

from __future__ import annotations

import argparse
import sys
import time

from chaos.brokers import cluster
from chaos.campaign import Tally, campaign, play
from chaos.faults import FAULTS
from chaos.postgres import replicated
from chaos.world import Violation


def main() -> int:
    """Run what the command line names; return 1 if something does not hold."""
    arguments = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    arguments.add_argument("--seed", type=int, default=1, help="decides order and moments of faults")
    arguments.add_argument("--count", type=int, default=len(FAULTS), help="number of faults")
    arguments.add_argument("--only", nargs="+", choices=FAULTS, default=[*FAULTS], help="faults to draw from")
    arguments.add_argument("--faults", nargs="+", choices=FAULTS, help="play these, in this order, instead")
    given = arguments.parse_args()
    began = time.monotonic()

    def tell(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.0f} s  {line}\n")
        sys.stdout.flush()

    with cluster() as brokers, replicated() as database:
        try:
            if given.faults:
                tally = Tally()
                play(brokers, database, given.seed, given.faults, tally, tell)
            else:
                tally = campaign(brokers, database, given.seed, given.count, given.only, tell)
        except Violation as error:
            tell(f"VIOLATION: {error}")
            return 1
    tell(f"everything holds: {tally}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
