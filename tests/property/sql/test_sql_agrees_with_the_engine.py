"""The procedural engine as the reference: compiled SQL over tables tells the changes that its tables tell.

Both get the same changes, one a millisecond. The engine may tell a change in more steps (an outer
join goes through NULL), so what is compared is what each change comes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import (
    AdditiveAggregator,
    Count,
    Fifo,
    First,
    Hashed,
    JoinTwo,
    Label,
    LookupJoin,
    Max,
    Min,
    Rowop,
    RowType,
    SimpleAggregator,
    Sum,
    Table,
    TableType,
    Unit,
)
from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import SqlSession

LEFT = RowType(id="int64", k="string", v="int64")
RIGHT = RowType(rid="int64", rk="string", w="int64")
STREAM = RowType(n="int64", k="string")
DEFINED = """
CREATE TABLE l (id BIGINT PRIMARY KEY, k VARCHAR(4), v BIGINT);
CREATE TABLE r (rid BIGINT PRIMARY KEY, rk VARCHAR(4), w BIGINT);
CREATE STREAM s (n BIGINT, k VARCHAR(4));
"""
Change = tuple[str, Opcode, Row]
Told = list[dict[tuple[object, ...], int]]
"""What each change comes to: how many copies of which rows come (or go)."""

changes = st.lists(
    st.tuples(
        st.sampled_from("LRS"),
        st.sampled_from([Opcode.INSERT, Opcode.INSERT, Opcode.DELETE]),
        st.integers(0, 3),
        st.sampled_from("ab"),
        st.integers(-2, 2) | st.none(),
    ),
    max_size=24,
)
Drawn = Sequence[tuple[str, Opcode, int, str, int | None]]


def made(drawn: Drawn, relations: str) -> list[Change]:
    """Return the changes of some relations; rows of a stream are only inserted."""
    found: list[Change] = []
    for number, (relation, opcode, key, group, value) in enumerate(drawn):
        if relation in relations:
            stream = relation == "S"
            row = (number, group) if stream else (key, group, value)
            found.append((relation, Opcode.INSERT if stream else opcode, row))
    return found


def by_sql(query: str, fed: Sequence[Change]) -> Told:
    """Return what a view tells of each change."""
    session = SqlSession()
    session.feed(DEFINED + query)
    flow = Flow({"V": dict(session.plan.relations)["V"]}, {})
    for rowtime, (relation, opcode, row) in enumerate(fed):
        if flow.reads(relation):
            timed = TimedRow(rowtime, flow.origin(relation, 0), rowtime, opcode, row)
            flow.insert(relation, 0, Tray.from_rows(flow.row_type(relation), [timed]))
    for relation in "LRS":
        if flow.reads(relation):
            flow.bound(relation, 0, Bound(len(fed) + 1))
    emitted = flow.drain()
    assert emitted.faults == []
    answer: list[Counter[tuple[object, ...]]] = [Counter() for _ in fed]
    for tray in emitted.outputs["V"]:
        for each in tray.rows():
            answer[each.rowtime][each.row] += each.opcode
    return [_net(each) for each in answer]


class Engine:
    """The tables, and what reaches a label at each change."""

    def __init__(self) -> None:
        self.unit = Unit("u")
        totals = SimpleAggregator(
            "totals", LEFT, k=First("k"), n=Count(), total=Sum("v"), least=Min("v"), most=Max("v")
        )
        by_key = Hashed("k", all=Fifo().aggregate(totals))
        self.left = Table(self.unit, "l", TableType(LEFT, by_id=Hashed("id"), by_key=by_key))
        self.right = Table(
            self.unit, "r", TableType(RIGHT, by_id=Hashed("rid"), by_key=Hashed("rk", all=Fifo()))
        )
        running = AdditiveAggregator("running", STREAM, k=First("k"), rows=Count(), total=Sum("n"))
        self.rows = Table(
            self.unit, "s", TableType(STREAM, by_key=Hashed("k", all=Fifo().aggregate(running)))
        )
        self.stream = self.unit.label("stream", STREAM)

    def tell(self, label: Label, fed: Sequence[Change]) -> Told:
        """Return what reaches ``label`` at each change."""
        now: Counter[tuple[object, ...]] = Counter()

        def note(rowop: Rowop) -> None:
            now[tuple(rowop.row)] += rowop.opcode

        label.then(note)
        answer = []
        for relation, opcode, row in fed:
            target = {"L": self.left.input, "R": self.right.input, "S": self.stream}[relation]
            target.send(opcode, target.row_type.row(*row))
            if relation == "S":
                self.rows.insert(STREAM.row(*row))
            answer.append(_net(now))
            now.clear()
        return answer


def _net(answer: Counter[tuple[object, ...]]) -> dict[tuple[object, ...], int]:
    return {row: copies for row, copies in answer.items() if copies}


@given(changes)
def test_a_keyed_table_tells_the_same(drawn: Drawn) -> None:
    fed = made(drawn, "L")
    engine = Engine()
    assert by_sql("CREATE VIEW v AS SELECT id, k, v FROM l;", fed) == engine.tell(engine.left.out, fed)


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@given(drawn=changes)
def test_two_tables_joined_tell_the_same(kind: str, drawn: Drawn) -> None:
    fed = made(drawn, "LR")
    engine = Engine()
    join = JoinTwo(
        "j",
        engine.left,
        engine.right,
        left_index="by_key",
        right_index="by_key",
        kind={"FULL": "outer"}.get(kind, kind.lower()),
        unique_key="none",
    )
    query = f"CREATE VIEW v AS SELECT l.id, l.k, l.v, r.rid, r.rk, r.w FROM l {kind} JOIN r ON l.k = r.rk;"
    assert by_sql(query, fed) == engine.tell(join.out, fed)


@given(changes)
def test_a_stream_meets_a_table_the_same_way(drawn: Drawn) -> None:
    fed = made(drawn, "LS")
    engine = Engine()
    join = LookupJoin(
        "j", engine.stream, engine.left, by={"k": "k"}, index="by_key", right_fields=["id", "v"]
    )
    query = "CREATE VIEW v AS SELECT STREAM s.n, s.k, l.id, l.v FROM s LEFT JOIN l ON s.k = l.k;"
    assert by_sql(query, fed) == engine.tell(join.out, fed)


@given(changes)
def test_groups_of_a_table_tell_the_same(drawn: Drawn) -> None:
    fed = made(drawn, "L")
    engine = Engine()
    query = """CREATE VIEW v AS
      SELECT k, COUNT(*) AS n, SUM(v) AS total, MIN(v) AS least, MAX(v) AS most FROM l GROUP BY k;"""
    assert by_sql(query, fed) == engine.tell(engine.left.results("totals"), fed)


@given(changes)
def test_groups_that_go_on_changing_tell_the_same(drawn: Drawn) -> None:
    fed = made(drawn, "S")
    engine = Engine()
    query = """CREATE VIEW v OPTIONS (RETENTION 'UNBOUNDED') AS
      SELECT STREAM k, COUNT(*) AS c, SUM(n) AS total FROM s GROUP BY k EMIT CHANGES;"""
    assert by_sql(query, fed) == engine.tell(engine.rows.results("running"), fed)
