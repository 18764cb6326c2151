"""A service that is asked why no rows come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from rowtide.plan.plan import Plan
from rowtide.runtime.inspect.why_not import Cause, SilenceExplanation
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World

HEAD = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///nowhere.db');
"""
CLICKS = (
    "CREATE FOREIGN STREAM clicks (k VARCHAR(8), n INTEGER, at TIMESTAMP)"
    " SERVER k OPTIONS (topic 'clicks'{});"
)
VIEWS = (
    "CREATE FOREIGN STREAM views (k VARCHAR(8), n INTEGER, at TIMESTAMP) SERVER k OPTIONS (topic 'views');"
)
PER_MINUTE = (
    CLICKS
    + """
CREATE FOREIGN TABLE out (period TIMESTAMP, n BIGINT, PRIMARY KEY (period)) SERVER d;
CREATE VIEW per_minute AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, COUNT(*) AS n
  FROM clicks GROUP BY FLOOR(ROWTIME TO MINUTE);
CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM period, n FROM per_minute;
"""
)


def per_row(query: str, streams: str = CLICKS.format("")) -> str:
    return f"""{streams}
CREATE FOREIGN TABLE out (k VARCHAR(8), n BIGINT) SERVER d;
CREATE VIEW answers AS {query};
CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM k, n FROM answers;
"""


Messages = Sequence[tuple[int, int]] | Sequence[tuple[int, int, str]]
"""Partition and timestamp in seconds, and where it matters the value."""


@dataclass
class Enquiry:
    """A service that reads its topics to the end and is then asked."""

    sql: str
    topics: dict[str, InMemoryTopic]
    changes: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plan: Plan = plan_pipeline(HEAD + self.sql)
        first = next(iter(self.topics.values()))
        self.world = World(first, plan=self.plan)

    def ask(
        self,
        relation: str,
        after_s: float = 3.0,
        then: Callable[[], None] = lambda: None,
        each_turn: Callable[[], None] = lambda: None,
    ) -> SilenceExplanation:
        """Start, let ``after_s`` of virtual time pass, do ``then``, and ask."""
        clock = self.world.clock
        end = clock.seconds + after_s
        asked: list[Future[SilenceExplanation]] = []
        with ThreadPoolExecutor(1) as asking:

            def stopping() -> bool:
                each_turn()
                if clock.seconds >= end and not asked:
                    then()
                    asked.append(asking.submit(service.requests.why_not, relation))
                return bool(asked) and asked[0].done()

            context = self.world.context(
                sources=self.topics, stopping=stopping, pace=Pace(100, 1000, None, None), **self.changes
            )
            service = Service(context)
            service.run()
            return asked[0].result()


def topic_of(name: str, partitions: int, messages: Messages) -> InMemoryTopic:
    topic = InMemoryTopic(name, partitions)
    add(topic, messages)
    return topic


def add(topic: InMemoryTopic, messages: Messages) -> None:
    for partition, second, *value in messages:
        (text,) = value or (f'{{"k":"a","n":{second},"at":{second * 1000}}}',)
        topic.add(partition, second * 1000, text.encode())


def enquiry(sql: str, clicks: Messages, partitions: int = 1, views: Messages | None = None) -> Enquiry:
    topics = {"CLICKS": topic_of("clicks", partitions, clicks)}
    if views is not None:
        topics["VIEWS"] = topic_of("views", partitions, views)
    return Enquiry(sql, topics)


def causes(answer: SilenceExplanation) -> list[tuple[str, str, int | None]]:
    return [(each.cause, each.relation, each.partition) for each in answer.causes]


def only(answer: SilenceExplanation) -> Cause:
    (cause,) = answer.causes
    return cause
