"""Tables that topics fill: upserts and Debezium's envelopes, in a service that dies at random."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.option_check import check_options
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.growing import DiesAnywhere
from support.pipeline import process_of

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');\n"
SQL = (
    SERVER
    + """
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20), notes VARCHAR(200))
  SERVER k OPTIONS (topic 'users', partitions '2', format 'JSON');
CREATE TABLE cities (country VARCHAR(2), city VARCHAR(20), people BIGINT NOT NULL, notes VARCHAR(99),
  PRIMARY KEY (country, city)) SERVER k OPTIONS (topic 'cities', partitions '2', format 'DEBEZIUM_JSON');
CREATE TABLE words (word VARCHAR(9) PRIMARY KEY, n INTEGER)
  SERVER k OPTIONS (topic 'words', partitions '2', format 'JSON', key_format 'TEXT');
CREATE FOREIGN TABLE users_now (id INTEGER PRIMARY KEY, name VARCHAR(20), notes VARCHAR(200)) SERVER d;
CREATE FOREIGN TABLE cities_now (country VARCHAR(2), city VARCHAR(20), people BIGINT, notes VARCHAR(99),
  PRIMARY KEY (country, city)) SERVER d;
CREATE FOREIGN TABLE words_now (word VARCHAR(9) PRIMARY KEY, n INTEGER) SERVER d;
CREATE FOREIGN TABLE countries (country VARCHAR(2) PRIMARY KEY, people BIGINT) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO users_now SELECT * FROM users;
CREATE PUMP p2 STARTED AS INSERT INTO cities_now SELECT * FROM cities;
CREATE PUMP p3 STARTED AS INSERT INTO words_now SELECT * FROM words;
CREATE PUMP p4 STARTED AS INSERT INTO countries SELECT country, SUM(people) FROM cities GROUP BY country;
"""
)
TOPICS = ("users", "cities", "words")
UNAVAILABLE = "__debezium_unavailable_value"


class World:
    """Topics, the tables that they are about as they are now, and a pipeline."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        folder.mkdir(exist_ok=True)
        self.file = folder / "tables.db"
        self.plan = plan_pipeline(SQL.format(file=self.file))
        self.broker = memory_broker(str(self.file))
        self.rng = rng
        self.at = 1_767_225_600_000
        self.users: dict[int, tuple[object, ...]] = {}
        self.cities: dict[tuple[str, str], tuple[object, ...]] = {}
        self.words: dict[str, int] = {}
        for topic in TOPICS:
            self.broker.ensure_topic(topic, 2)

    def send(
        self, topic: str, key: object, value: object, *, of: object, raw_key: bytes | None = None
    ) -> None:
        """Write a change of the row ``of``, whose messages are all in one partition."""
        self.at += self.rng.choice((0, 1, 500))
        # Producers whose clocks differ: the order is that of the offsets.
        stamp = self.at - self.rng.choice((0, 0, 1, 700))
        key_bytes = json.dumps(key).encode() if raw_key is None else raw_key
        self.broker.produce(
            topic,
            [None if value is None else json.dumps(value).encode()],
            timestamps=[stamp],
            partition=sum(repr(of).encode()) % 2,
            keys=[key_bytes],
        )

    def change(self) -> None:
        rng = self.rng
        id_ = rng.randrange(6)
        if rng.random() < 0.3:
            self.users.pop(id_, None)
            self.send(
                "users", rng.choice((id_, {"id": id_}, {"schema": {}, "payload": {"id": id_}})), None, of=id_
            )
        else:
            self.users[id_] = (f"n{rng.randrange(9)}", None)
            self.send("users", {"id": id_}, {"id": id_, "name": self.users[id_][0]}, of=id_)
        word = rng.choice(("null", "7", '"x"', "a b"))
        if rng.random() < 0.3:
            self.words.pop(word, None)
            self.send("words", None, None, of=word, raw_key=word.encode())
        else:
            self.words[word] = rng.randrange(99)
            image = {"word": word, "n": self.words[word]}
            self.send("words", None, image, of=word, raw_key=word.encode())
        self._change_city((rng.choice("AB"), rng.choice("xyz")))

    def _change_city(self, key: tuple[str, str]) -> None:
        rng = self.rng
        names = {"country": key[0], "city": key[1]}
        old = self.cities.get(key)
        change: dict[str, object]
        if old is not None and rng.random() < 0.3:
            del self.cities[key]
            before = rng.choice(
                (None, {**names, "people": None}, {**names, "people": old[0], "notes": old[1]})
            )
            change = {"op": "d", "before": before, "after": None}
        else:
            people = rng.randrange(1000)
            notes = None if old is None else rng.choice((old[1], f"note {people}"))
            self.cities[key] = (people, notes)
            kept = old is not None and notes == old[1] and rng.random() < 0.7
            image = {**names, "people": people, "notes": UNAVAILABLE if kept else notes}
            change = {"op": "c" if old is None else "u", "before": None, "after": image}
        wrapped = rng.random() < 0.5
        self.send(
            "cities", names, {"schema": {"type": "struct"}, "payload": change} if wrapped else change, of=key
        )
        if change["op"] == "d" and rng.random() < 0.7:
            self.send("cities", names, None, of=key)

    def promise(self) -> None:
        """Let each partition say that time went on, so that nothing waits for its bound."""
        self.at += 1000
        for partition in (0, 1):
            for topic in TOPICS:
                self.broker.produce(
                    topic,
                    [None],
                    timestamps=[self.at],
                    partition=partition,
                    headers=[[("rowtide.bound", str(self.at).encode())]],
                )

    def run(self, crash_points: CrashPoints) -> None:
        with open_pipeline(self.plan, "p") as pipeline:
            context = process_of(
                pipeline, Pace(0, 10, None, None), crash_points=crash_points, poll_messages=7
            )
            Service(context).run(until_end=True)

    def rows(self, text: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        try:
            return sorted(connection.execute(text).fetchall())
        finally:
            connection.close()


@pytest.mark.parametrize(
    ("seed", "rounds"), [(0, 3), *(pytest.param(each, 8, marks=pytest.mark.long) for each in range(3))]
)
def test_tables_are_what_their_topics_say(tmp_path: Path, seed: int, rounds: int) -> None:
    world = World(tmp_path, random.Random(seed))
    died = 0
    for _ in range(rounds):
        for _ in range(20):
            world.change()
        while True:
            try:
                world.run(DiesAnywhere(world.rng))
                break
            except SimulatedCrash:
                died += 1
    world.promise()
    while True:
        try:
            world.run(DiesAnywhere(world.rng))
            break
        except SimulatedCrash:
            died += 1
    assert died
    assert world.rows("select kind, reason, relation from rowtide_errors") == []
    assert world.rows("select * from users_now") == sorted((k, *v) for k, v in world.users.items())
    cities = sorted((*key, *row) for key, row in world.cities.items())
    assert world.rows("select country, city, people, coalesce(notes, '') from cities_now") == [
        (*row[:3], row[3] or "") for row in cities
    ]
    assert world.rows("select * from words_now") == sorted(world.words.items())
    totals = {country: 0 for country, _ in world.cities}
    for (country, _), (people, _) in world.cities.items():
        totals[country] += people  # type: ignore[operator]
    assert world.rows("select * from countries") == sorted(totals.items())


def test_after_compaction_a_new_pipeline_has_the_same_tables(tmp_path: Path) -> None:
    first, later = World(tmp_path, random.Random(3)), World(tmp_path / "later", random.Random(3))
    for _ in range(60):
        first.change()
    first.promise()
    messages = 0
    for topic in ("users", "words"):
        for partition in (0, 1):
            first.broker.compact(topic, partition=partition)
            log = first.broker.topic(topic)[partition]
            messages += len(log.values)
            later.broker.produce(
                topic,
                log.values,
                timestamps=log.timestamps,
                partition=partition,
                keys=log.keys,
                headers=log.headers,
            )
    assert messages < 60, "most messages are removed"
    later.run(NoCrash())
    assert later.rows("select kind, reason from rowtide_errors") == []
    assert later.rows("select * from users_now") == sorted((k, *v) for k, v in first.users.items())
    assert later.rows("select * from words_now") == sorted(first.words.items())


def test_a_join_with_a_table_whose_topic_may_be_silent_is_warned_of() -> None:
    text = f"""{SERVER.format(file="silent")}
    CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(9)) SERVER k OPTIONS (topic 'u');
    CREATE FOREIGN STREAM clicks (who INTEGER) SERVER k OPTIONS (topic 'c');
    CREATE VIEW v AS SELECT STREAM c.who, u.name FROM clicks AS c JOIN users AS u ON c.who = u.id;"""
    (notice,) = plan_pipeline(text).notices
    assert notice.message.startswith('rows wait for table "USERS": while it is silent, no rows are written.')
    quiet = text.replace("(topic 'u')", "(topic 'u', idle_timeout '30 SECOND')")
    assert plan_pipeline(quiet).notices == ()


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("CREATE TABLE t (a INTEGER) SERVER k OPTIONS (topic 't');", "has a PRIMARY KEY"),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER UNIQUE) SERVER k;", "cannot have UNIQUE"),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY DEFAULT 1) SERVER k;", "cannot have DEFAULT"),
        (
            "CREATE TABLE t (a INTEGER PRIMARY KEY) SERVER k; INSERT INTO t VALUES (1);",
            "filled by its server",
        ),
        (
            "CREATE TABLE t (a INTEGER PRIMARY KEY) SERVER k; CREATE STREAM s (a INTEGER);"
            "CREATE PUMP p AS INSERT INTO t SELECT STREAM a FROM s;",
            "filled by its server",
        ),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY) SERVER k; DROP SERVER k;", 'server "K" is used by "T"'),
        ("CREATE FOREIGN STREAM t (a INTEGER) SERVER d;", 'connector "rdbms" cannot be read from'),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY) SERVER k OPTIONS (format 'CSV');", "not changes of a table"),
        (
            "CREATE FOREIGN STREAM t (a INTEGER) SERVER k OPTIONS (format 'DEBEZIUM_JSON');",
            "changes of a table",
        ),
        (
            "CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) SERVER k OPTIONS (key_format 'TEXT');",
            "TEXT is for one column",
        ),
        (
            "CREATE TABLE t (a INTEGER PRIMARY KEY) SERVER k OPTIONS (key_format 'AVRO');",
            'option "key_format" of table "T": "AVRO" is not supported',
        ),
        (
            "CREATE TABLE t (a INTEGER PRIMARY KEY) SERVER k OPTIONS (unavailable_value 'x');",
            "format JSON does not take it",
        ),
    ],
)
def test_what_a_topic_cannot_fill_is_refused(statement: str, wanted: str) -> None:
    server = SERVER.format(file="refused")
    text = f"{server}CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');\n{statement}"
    with pytest.raises(StatementError) as caught:
        check_options(plan_pipeline(text), text, file="p.sql")
    assert wanted in caught.value.message
