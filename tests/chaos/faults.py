"""Faults: each is a function of the world. Afterwards its first process must commit again, started if need be."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping

from chaos.wire import Held
from chaos.world import PROGRESS_S, Violation, World

Fault = Callable[[World], None]

LONG_S = 12
"""Longer than the time-outs of sessions and requests that are set for the tests."""


def killed(world: World) -> None:
    """SIGKILL while readings come."""
    world.flow(world.rng.uniform(0, 0.5))
    time.sleep(world.rng.uniform(0, 0.2))
    world.first.kill()


def killed_while_it_starts(world: World) -> None:
    """SIGKILL at any moment of a start, recovery included."""
    world.first.kill()
    world.flow(0)
    world.first.start()
    time.sleep(world.rng.uniform(0.3, 3))
    world.first.kill()


def killed_before_commit(world: World) -> None:
    """SIGKILL after COMMIT was sent; the database does not get it."""
    _in_commit(world, Held.BEFORE)
    world.first.kill()
    world.first.wire.cut()


def killed_after_commit(world: World) -> None:
    """SIGKILL before the reply to COMMIT has come."""
    _in_commit(world, Held.AFTER)
    world.first.kill()
    world.first.wire.cut()


def commit_is_lost(world: World) -> None:
    """The connection breaks before the database has got COMMIT."""
    _in_commit(world, Held.BEFORE)
    world.first.wire.cut()


def reply_is_lost(world: World) -> None:
    """The connection breaks before the reply to COMMIT: the process cannot know whether it has committed."""
    _in_commit(world, Held.AFTER)
    world.first.wire.cut()


def connections_are_lost(world: World) -> None:
    """Connections break at any byte, again and again."""
    for _ in range(world.rng.randrange(2, 6)):
        world.flow(0)
        time.sleep(world.rng.uniform(0, 0.3))
        world.first.wire.cut()


def network_is_parted(world: World) -> None:
    """Nothing passes between process and database for a while; both live."""
    world.flow(0)
    world.first.wire.is_parted = True
    world.flow(world.rng.uniform(0.5, 4))
    world.first.wire.is_parted = False


def taken_over_while_parted(world: World) -> None:
    """Another process takes over while the first one does not reach the database. Then it reaches it again."""
    world.flow(0)
    world.first.wire.is_parted = True
    _taken_over(world)
    world.second.wire.is_parted = False
    _must_be_superseded(world)


def suspended(world: World) -> None:
    """SIGSTOP for a while."""
    world.flow(world.rng.uniform(0, 0.3))
    world.first.send(signal.SIGSTOP)
    world.flow(world.rng.uniform(0.5, 4))
    world.first.send(signal.SIGCONT)


def taken_over_while_suspended(world: World) -> None:
    """Another process takes over while the first one is suspended. Then it continues."""
    world.flow(world.rng.uniform(0, 0.3))
    world.first.send(signal.SIGSTOP)
    _taken_over(world)
    world.second.send(signal.SIGCONT)
    _must_be_superseded(world)


def taken_over_within_commit(world: World) -> None:
    """Another process takes over while the COMMIT of the first one is on its way. Then it arrives, or not."""
    _in_commit(world, Held.BEFORE)
    held = world.first.wire
    world.swap()
    world.first.start()
    time.sleep(world.rng.uniform(0.5, 3))
    # The other process waits for the lock, until the commit or the connection ends.
    if world.rng.random() < 0.5:
        held.hold(Held.NOTHING)
    else:
        held.cut()
    _must_be_superseded(world)


def database_restarts(world: World) -> None:
    """A fast or an immediate shutdown of PostgreSQL, and a start."""
    world.flow(0)
    world.database.primary.stop(world.rng.choice((signal.SIGINT, signal.SIGQUIT)))
    time.sleep(world.rng.uniform(0, 2))
    world.database.primary.start()


def database_is_suspended(world: World) -> None:
    """PostgreSQL does nothing for a while."""
    world.flow(0)
    world.database.primary.suspend()
    time.sleep(world.rng.choice((1, 3, LONG_S)))
    world.database.primary.resume()


def brokers_are_suspended(world: World) -> None:
    """The brokers do nothing for a while."""
    world.flow(0)
    world.cluster.suspend()
    time.sleep(world.rng.choice((1, 3, LONG_S)))
    world.cluster.resume()


def leader_is_killed(world: World) -> None:
    """The leader of a partition dies. Another replica leads, and commits continue while it is down."""
    world.flow(0)
    world.cluster.kill(world.cluster.leader(world.topic, world.rng.randrange(4)))
    world.must_move_on()
    world.check()
    world.cluster.restart(world.topic)


def standby_is_promoted(world: World) -> None:
    """PostgreSQL dies, and its standby, for which each commit has waited, is the primary."""
    world.database.add_standby(waits=True)
    world.must_move_on()
    world.flow(world.rng.uniform(0, 0.5))
    world.database.fail_over()
    world.lead_to_primary()


def standby_that_lags_is_promoted(world: World) -> None:
    """PostgreSQL dies, and its standby has not got its last commits: they are lost, and computed again."""
    world.database.add_standby(waits=False)
    standby = world.database.standby
    assert standby is not None
    standby.suspend("walreceiver")
    world.must_move_on()
    world.must_move_on()
    world.check()
    world.database.fail_over()
    world.forget_positions()
    world.lead_to_primary()


def _in_commit(world: World, what: Held) -> None:
    """Wait until a commit of the first process is held."""
    wire = world.first.wire
    wire.hold(what)
    try:
        deadline = time.monotonic() + PROGRESS_S
        while not wire.held.wait(0.2):
            world.restart_if_ended()
            world.flow(0)
            if time.monotonic() > deadline:
                raise Violation(f"no commit for {PROGRESS_S} s: {world.first.log()}")
    except BaseException:
        wire.hold(Held.NOTHING)
        raise


def _taken_over(world: World) -> None:
    """Let the other process take over, and commit."""
    world.swap()
    world.first.start()
    world.must_move_on()
    world.check()


def _must_be_superseded(world: World) -> None:
    """Let readings come until the former process has ended, as it must at its next commit."""
    deadline = time.monotonic() + PROGRESS_S
    while (code := world.second.ended(0.2)) is None and time.monotonic() < deadline:
        world.restart_if_ended()
        world.flow(0)
    if code != 3:
        raise Violation(f"the former process has exit code {code}: {world.second.log()}")
    world.second.running = None


FAULTS: Mapping[str, Fault] = {
    each.__name__.replace("_", "-"): each
    for each in (
        killed,
        killed_while_it_starts,
        killed_before_commit,
        killed_after_commit,
        commit_is_lost,
        reply_is_lost,
        connections_are_lost,
        network_is_parted,
        taken_over_while_parted,
        suspended,
        taken_over_while_suspended,
        taken_over_within_commit,
        database_restarts,
        database_is_suspended,
        brokers_are_suspended,
        leader_is_killed,
        standby_is_promoted,
        standby_that_lags_is_promoted,
    )
}
