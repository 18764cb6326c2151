"""Files as sources, in a service that dies at random: each row once, in the order of the list."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowtide.checkpoint.file_list import FileList
from rowtide.errors import StatementError, SupersededError
from rowtide.runtime.crashpoints import FILES_POINTS, POINTS, CrashAt, SimulatedCrash, raise_crash
from rowtide.runtime.pipeline import open_pipeline
from rowtide_connectors.errors import GoneError
from rowtide_connectors.listed import FILE_ROWS, FoundFile
from support.files import FILES_SQL, ArrivesAndDies, FilesWorld, as_lines
from support.seeds import seeds

AT_ONCE = FILES_SQL.replace("partitions '2'", "partitions '1'").replace(
    " ORDER BY ts WITHIN INTERVAL '5' SECOND", ""
)
"""The same pipeline; no row waits for others."""
DEATHS = [*FILES_POINTS, *(point for point in POINTS if not point.startswith("poll."))]


@pytest.mark.parametrize("seed", seeds(4, few=1))
def test_any_arrival_any_cut_and_any_death_give_the_rows_of_one_process_that_reads_the_list(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    world = FilesWorld(tmp_path / "a", rng, rng.choice((3, 7, 50)), rng.choice((None, 9)))
    points = ArrivesAndDies(world)
    for _ in range(5):
        for _ in range(rng.randrange(4)):
            world.arrive()
        world.clock.sleep(1)
        world.run_until_done(points)
    world.run()
    rows, errors = world.outcome()
    assert world.deaths and len(world.listed) > 9 and rows and errors
    assert world.at_once(tmp_path / "b").outcome() == (rows, errors)


@pytest.mark.parametrize("point", DEATHS)
def test_dying_at_each_point_repeats_and_loses_nothing(tmp_path: Path, point: str) -> None:
    world = FilesWorld(tmp_path / "a", random.Random(7), snapshot_rows=5)
    for _ in range(3):
        for _ in range(3):
            world.arrive()
        with contextlib.suppress(SimulatedCrash):
            world.run(CrashAt(point, 1, raise_crash))
        world.arrive()
    world.run()
    assert world.at_once(tmp_path / "b").outcome() == world.outcome()


def test_an_error_row_names_file_and_line(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path, random.Random(1))
    first = world.files.put(b'{"n": 1}\n\n{"n": "x"}\n', "jsonl")
    second = world.files.put(b"PAR1 nothing of it", "parquet")
    world.run()
    errors = world.select("select reason, message_offset, raw from rowtide_errors order by message_offset")
    (line, at, raw), (file, end, none) = errors
    assert line.endswith(f'(file "in/{first}", line 3)') and at == 2 and raw == b'{"n": "x"}'
    assert f'(file "in/{second}")' in file and "the file is damaged" in file
    assert (end, none) == (2 * FILE_ROWS - 1, None)
    assert world.select("select next_offset from rowtide_positions order by next_offset")[-1] == (
        2 * FILE_ROWS,
    )


def test_a_file_that_changed_or_vanished_before_it_was_read_ends_the_run_and_is_named(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path, random.Random(1), sql=AT_ONCE)
    name = world.files.put(as_lines([{"n": 1, "word": "a"}]), "jsonl")
    with contextlib.suppress(SimulatedCrash):
        world.run(CrashAt("files.after_list", 1, raise_crash))
    path = tmp_path / "in" / name
    kept = shutil.copy2(path, tmp_path / "kept")
    path.write_bytes(as_lines([{"n": 2, "word": "b"}, {"n": 3, "word": "c"}]))
    with pytest.raises(GoneError, match=f'file "in/{name}" of .* has changed since it was listed') as caught:
        world.run()
    assert "write new rows to a new file" in (caught.value.hint or "")
    path.unlink()
    with pytest.raises(GoneError, match=f'file "in/{name}" of .* does not exist any more'):
        world.run()
    shutil.copy2(kept, path)
    world.run()
    assert [row[0] for row in world.outcome()[0]] == [1]


def test_a_file_that_was_read_may_go(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path, random.Random(1), snapshot_rows=1, sql=AT_ONCE)
    name = world.files.put(as_lines([{"n": 1, "word": "a"}]), "jsonl")
    world.run()
    (tmp_path / "in" / name).unlink()
    world.files.put(as_lines([{"n": 2, "word": "b"}]), "jsonl")
    world.run()
    assert [row[:2] for row in world.outcome()[0]] == [(1, "a"), (2, "b")]


def test_a_folder_that_does_not_exist_refuses_the_start(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path, random.Random(1))
    (tmp_path / "in").rmdir()
    with pytest.raises(StatementError, match='/in" does not exist') as caught:
        world.run()
    assert caught.value.hint == "Create the folder, or correct url and path."


def test_only_the_newest_process_lists_files(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path, random.Random(1))
    world.arrive()
    world.run()
    with open_pipeline(world.plan, "p") as pipeline:
        older = FileList(pipeline.database, "p", "ROWS", epoch=1)
        world.run()
        with pytest.raises(SupersededError, match="was taken by another process: epoch 2, ours is 1"):
            older.add(1, [FoundFile("in/x", 0, 1, 1)])
        assert [each.number for each in older.read(0)] == [0]
        assert not FileList(pipeline.database, "p", "ROWS").takes_files
        pipeline.ledger.drop()
        assert older.read(0) == []


def test_unfinished_names_are_not_read_until_they_are_renamed(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path, random.Random(1))
    path = tmp_path / "in" / "a.jsonl.tmp"
    path.write_bytes(b'{"n": 1')
    (tmp_path / "in" / "_b.jsonl").write_bytes(b'{"n": 7}\n')
    world.run()
    path.write_bytes(b'{"n": 1}\n')
    path.rename(tmp_path / "in" / "a.jsonl")
    world.run()
    assert [name for _, name, *_ in world.listed] == ["in/a.jsonl"]


def test_the_example_of_the_how_to_is_run(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/howto/files.md").read_text()
    found = re.search(r"^```sql\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    text = found[1].replace("/data/archive", str(tmp_path / "archive"))
    text = text.replace("postgresql://rowtide@localhost/shop", f"sqlite:///{tmp_path}/out.db")
    world = FilesWorld(tmp_path, random.Random(1), sql=text.replace("{", "{{").replace("}", "}}"))
    orders = tmp_path / "archive" / "orders" / "day=1"
    orders.mkdir(parents=True)
    day, hour = 1_704_067_200_000, 3_600_000
    rows = [(day, "tea", 2), (day + hour, "tea", 3), (day + 25 * hour, "ham", 1), (day + 50 * hour, "tea", 1)]
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(("ts", "item", "qty"), map(list, columns), strict=True)))
    pq.write_table(table.set_column(0, "ts", table["ts"].cast(pa.timestamp("ms"))), orders / "a.parquet")
    world.run()
    assert world.select("select day, item, qty from totals order by day") == [
        ("2024-01-01", "tea", 5),
        ("2024-01-02", "ham", 1),
    ]
