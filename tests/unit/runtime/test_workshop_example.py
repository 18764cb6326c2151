"""The workshop example as a service: orders in a broker, loops, and the seam between history and today."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

from rowtide.runtime.crashpoints import CrashAt, CrashPoints, NoCrash, SimulatedCrash, raise_crash
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from support.pipeline import PipelineFiles, process_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "workshop" / "workshop.sql"
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
CONFIG = '[service]\nlisten = "127.0.0.1:0"\n'
PACE = Pace(0, 7, 20, None)


class Files(PipelineFiles):
    """The example over the broker in memory and SQLite."""

    def __init__(self, folder: Path) -> None:
        text = EXAMPLE.read_text().replace("DATA WRAPPER KAFKA", "DATA WRAPPER MEMORY")
        text = text.replace("bootstrap_servers 'localhost:9092'", "broker '{file}'")
        text = text.replace("sqlite:///workshop.db", "sqlite:///{file}")
        super().__init__(folder, text, CONFIG, name="workshop")
        # A pipeline's file finds the model beside it.
        (folder / "workshop.py").write_text(EXAMPLE.with_suffix(".py").read_text())
        self.clock = VirtualClock()
        self.broker.ensure_topic("orders", 1)

    def order(self, rng: random.Random, count: int, at: int) -> int:
        """Order something every hour or so from ``at`` (ms) on; give when it was the last time."""
        for _ in range(count):
            at += rng.randrange(2 * HOUR_MS)
            item = rng.choice(("bike", "wheel", "wheel", "frame", "spoke"))
            self.broker.produce("orders", [b'{"item":"%s","pieces":1}' % item.encode()], timestamps=[at])
        return at

    def be_live(self, crash_points: CrashPoints | None = None) -> bool:
        """Run for some turns; tell whether it died."""
        plan = plan_pipeline(self.sql.read_text(), file=str(self.sql))
        looks = iter(range(60))
        with open_pipeline(plan, "workshop") as pipeline:
            context = process_of(
                pipeline,
                PACE,
                clock=self.clock,
                stopping=lambda: next(looks, None) is None,
                poll_messages=17,
                crash_points=crash_points or NoCrash(),
            )
            try:
                Service(context).run()
            except SimulatedCrash:
                return True
        return False

    def resets(self) -> list[tuple[object, ...]]:
        return self.rows("rowtide_decisions where kind = 'RESET'")


def levels_of(files: Files) -> list[tuple[object, ...]]:
    return sorted(files.rows("levels"), key=str)


def test_what_the_loops_bring_is_in_the_tables_whatever_dies_and_a_replay_gives_the_same(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    rng = random.Random(4)
    ended = files.order(rng, 60, at=files.clock.now_ms() - 2 * WEEK_MS)
    for point in ("flow.after_drain", "commit.after_tables", "commit.after_commit"):
        assert files.be_live(CrashAt(point, 2, raise_crash))
    assert not files.be_live()
    # It was decided once, the caller that died on the way.
    (jump,) = files.resets()
    seam = files.clock.now_ms()
    files.order(rng, 30, at=seam)
    assert files.be_live(CrashAt("commit.after_positions", 1, raise_crash))
    assert not files.be_live()
    assert files.resets() == [jump]

    movements = files.rows("movements")
    assert {row[2] for row in movements} == {"orders", "made", "parts", "delivered", "counted"}
    # Of every item the levels add up, in the order in which they were written.
    for item, level in levels_of(files):
        own = [row for row in movements if row[1] == item and row[2] != "made"]
        assert own[-1][4] == level
        for before, after in pairwise(own):
            assert after[4] == before[4] + after[3]  # type: ignore[operator]  # whole numbers
    notes = [row for row in files.rows("notes") if row[2] == "not ordered before history ended"]
    assert len(notes) == len({item for _, item, _ in notes}) > 0, "once an item"
    assert ended < seam

    assert "Equal: 90 messages" in files.call("replay", "--compare")
    files.call("state drop", "--snapshots", "--yes")
    assert "Equal: 90 messages" in files.call("replay", "--compare")
    assert not files.be_live()
    assert files.rows("movements") == movements


def test_a_changed_pipeline_keeps_the_jump_of_a_model_that_it_keeps_and_decides_anew_for_others(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    files.order(random.Random(4), 40, at=files.clock.now_ms() - 2 * WEEK_MS)
    files.be_live()
    (jump,) = files.resets()
    was = tmp_path / "was.sql"
    was.write_text(files.text)
    more = "CREATE FOREIGN TABLE seen (item VARCHAR(20)) SERVER db;\n"
    files.sql.write_text(
        files.text + more + "CREATE PUMP p AS INSERT INTO seen SELECT STREAM item FROM orders;\n"
    )
    files.call("apply", "--was", str(was), "--yes")
    assert files.resets() == []
    files.be_live()
    assert files.resets() == [], "the model that is kept has its jump in its state"
    was.write_text(files.sql.read_text())
    files.sql.write_text(files.sql.read_text().replace("least '40'", "least '50'"))
    files.call("apply", "--was", str(was), "--yes", "--lose")
    files.be_live()
    (anew,) = files.resets()
    assert anew != jump
