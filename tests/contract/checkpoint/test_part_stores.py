"""What every store of state in parts does: in files, and in the tables of SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.in_database import DatabaseParts, PartsOfServer
from rowtide.checkpoint.parts.store import PartStore, folder_of_commit, unnamed
from rowtide_connectors.errors import GoneError
from rowtide_connectors.registry import find_sink

PIECES = [b"abc", bytes(range(256)) * 5_000, b"\x00"]
CONTENT = b"".join(PIECES)


@pytest.fixture(
    params=[
        "files",
        "address",
        "sqlite",
        "sqlite-of-tasks",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PartStore]:
    match request.param:
        case "files":
            yield FileParts(str(tmp_path / "not there" / "parts"))
            return
        case "address":
            yield FileParts((tmp_path / "parts").as_uri())
            return
        case "postgres" | "mariadb":
            url = request.getfixturevalue(f"{request.param}_url")
        case _:
            url = f"sqlite:///{tmp_path / 'parts.db'}"
    database = find_sink("rdbms").open({"url": url})
    DatabaseLedger(database, "prices").claim("digest", "a")
    yield (
        PartsOfServer("RDBMS", {"url": url})
        if request.param == "sqlite-of-tasks"
        else DatabaseParts(database)
    )
    database.close()


def test_a_blob_comes_back_as_it_was_written(store: PartStore) -> None:
    store.write("a/1/1/x", PIECES)
    store.write("a/1/1/y", [b"other"])
    store.write("a/1/1/none", [])
    assert b"".join(store.read("a/1/1/x")) == CONTENT
    assert b"".join(store.read("a/1/1/y")) == b"other"


def test_one_that_is_not_there_is_gone(store: PartStore) -> None:
    store.write("a/1/1/x", PIECES)
    for name in ("a/1/2/x", "a/1/1/xx", "b"):
        with pytest.raises(GoneError):
            list(store.read(name))


def test_names_are_those_of_a_folder_in_order(store: PartStore) -> None:
    assert store.names("a") == []
    for name in ("a/2/1/x", "a/10/1/x", "a_/1/1/x", "ab/1/1/x", "a/2/1/y"):
        store.write(name, [name.encode()])
    assert store.names("a") == ["a/10/1/x", "a/2/1/x", "a/2/1/y"]
    assert store.names("a/2") == ["a/2/1/x", "a/2/1/y"]


def test_dropping_one_leaves_the_others_and_can_be_repeated(store: PartStore) -> None:
    for name in ("a/1/1/x", "a/1/1/y", "a/1/2/x"):
        store.write(name, PIECES)
    for _ in range(2):
        store.drop(["a/1/1/x", "a/1/2/x", "a/7/7/never"])
        assert store.names("a") == ["a/1/1/y"]
    assert b"".join(store.read("a/1/1/y")) == CONTENT
    # A folder that has become empty can be written to again.
    store.write("a/1/2/z", [b"z"])
    assert store.names("a") == ["a/1/1/y", "a/1/2/z"]


def test_a_task_gets_a_store_pickled(store: PartStore) -> None:
    if isinstance(store, DatabaseParts):
        pytest.skip("tasks open the database themselves: PartsOfServer")
    store.write("a/1/1/x", PIECES)
    loaded: PartStore = pickle.loads(pickle.dumps(store))
    assert b"".join(loaded.read("a/1/1/x")) == CONTENT
    assert loaded.where == store.where


def test_what_no_snapshot_names_is_collected_but_nothing_of_a_later_epoch(store: PartStore) -> None:
    def name(epoch: int, commit: int, blob: str, folder: str = "prices") -> str:
        return f"{folder_of_commit(folder, epoch, commit)}/{blob}"

    named = [name(1, 3, "old"), name(2, 4, "unchanged")]
    garbage = [name(1, 3, "failed"), name(1, 9, "of a zombie"), name(2, 5, "tried twice")]
    others = [name(3, 6, "being written"), name(10, 7, "too"), name(1, 1, "x", "prices2")]
    others += ["prices/note", "prices/notes/1"]
    for each in (*named, *garbage, *others):
        store.write(each, [each.encode()])
    found = unnamed("prices", 2, named, store.names("prices"))
    assert sorted(found) == sorted(garbage)
    store.drop(found)
    assert {*store.names("prices"), *store.names("prices2")} == {*named, *others}
