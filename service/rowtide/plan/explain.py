"""A plan as a tree of text, for people, and as plain values, for programs."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.expr.tree import Literal
from rowtide.plan.frames import CURRENT_ROW, Edge, EdgeUnit
from rowtide.plan.kept import kept_by
from rowtide.plan.limits import FOR_EVER_MS
from rowtide.plan.models import Model
from rowtide.plan.nodes import (
    AsOfJoin,
    AsOfJoinOn,
    BoundPolicy,
    Filter,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    GroupNode,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    SortInPeriod,
    Source,
    TableSource,
    UniqueTable,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
)
from rowtide.plan.paths import work_of
from rowtide.plan.show import show, show_aggregate, show_interval, show_window_call
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import NumberedChanges, TopChanges
from rowtide.rows.types import INTEGER, RowType
from rowtide.rowtime.period import Hop, Period, PeriodEdge, Session

_BOUNDS = {
    BoundPolicy.PASS: "explicit bounds speak of it",
    BoundPolicy.DROP: "bounds on the old rowtime end here",
    BoundPolicy.MAP: "bounds move with it",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """One node: what it is, in whose text it stands, what it does, and what its rows have.

    ``path``: how its operator works; ``keeps``: its state, and what bounds it.
    """

    node: str
    relation: str
    detail: str
    path: str | None
    keeps: str | None
    fields: tuple[str, ...]
    inputs: tuple[Explained, ...]

    def lines(self) -> list[str]:
        """Give the tree as lines of text, inputs indented below."""
        head = f"{self.node} {self.relation}"
        found = [f"{head}: {self.detail}" if self.detail else head]
        work = [*([self.path] if self.path else []), *([f"keeps {self.keeps}"] if self.keeps else [])]
        if work:
            found.append(f"{'|' if self.inputs else ' '}    [{'; '.join(work)}]")
        for each in self.inputs:
            branch = "|  " if each is not self.inputs[-1] else "   "
            first, *rest = each.lines()
            found += [f"+- {first}", *(branch + line for line in rest)]
        return found


def explain(node: Node) -> Explained:
    """Explain ``node`` and all that it reads."""
    return Explained(
        type(node).__name__,
        node.relation,
        _detail(node),
        work_of(node),
        kept_by(node),
        tuple(f"{field.name} {field.type}" for field in node.row_type),
        tuple(explain(each) for each in node.inputs),
    )


def columns_of(row_type: RowType) -> str:
    """Give the columns of a relation as they are declared."""
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' NOT NULL'}" for field in row_type
    )


def _detail(node: Node) -> str:
    match node:
        case Source(foreign=foreign):
            return "messages in log order, by partition" if foreign else "rows as they come, by partition"
        case TableSource(rows=rows, loaded_once=loaded_once):
            count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
            return f"{count}, no others follow" if loaded_once else f"{count}, then changes"
        case Filter(input=below, condition=condition):
            return show(condition, below.row_type)
        case Project(input=below, expressions=expressions, row_type=row_type):
            texts = [show(each, below.row_type) for each in expressions]
            pairs = zip(texts, row_type.names, strict=True)
            return ", ".join(text if text == name else f"{text} AS {name}" for text, name in pairs)
        case Promote(input=below, rowtime=rowtime, bounds=bounds, max_ahead_ms=max_ahead):
            text = f"{show(rowtime, below.row_type)} AS ROWTIME; {_BOUNDS[bounds]}"
            return text if max_ahead is None else f"{text}; at most {show_interval(max_ahead)} ahead"
        case Sort(within_ms=0):
            return "a row behind the highest rowtime is late"
        case Sort(within_ms=within):
            return f"by ROWTIME WITHIN {show_interval(within)}"
        case Merge(sources=sources):
            return f"{len(sources)} inputs by rowtime" if len(sources) > 1 else "partitions by rowtime"
        case GroupByPeriod(period=period):
            return _group(node, _period(period))
        case GroupByHop(hop=hop):
            return _group(node, _window("HOP", hop.slide_ms, hop.size_ms, hop.offset_ms))
        case GroupBySession(session=session):
            return _group(node, _window("SESSION", session.gap_ms))
        case GroupChanges():
            return _changes(node)
        case WindowAggregate():
            return _over(node)
        case WindowsAbreast():
            return "; ".join(map(_over, node.each()))
        case SortInPeriod(period=period, keys=keys, row_type=row_type):
            terms = [row_type[index].name + (" DESC" if descending else "") for index, descending in keys]
            limit = "" if node.limit is None else f", the first {node.limit}"
            limit += f", without {node.offset} before them" if node.offset else ""
            return f"by {', '.join([_period(period), *terms])}{limit}"
        case Model(path=path, options=options, accepts=accepts, gives=gives):
            texts = [f"{name} '{value}'" for name, value in options]
            ports = (", ".join(port.name for port in each) for each in (accepts, gives))
            key = ", ".join(accepts[0].row_type[index].name for index in accepts[0].key)
            by_key = f", one for each {key}" if key else ""
            return f"{path}({', '.join(texts)}), {' to '.join(ports)}{by_key}"
        case KeyedTable(key=key, row_type=row_type):
            names = ", ".join(row_type[index].name for index in key)
            unique = node.unique if isinstance(node, UniqueTable) else ()
            also = [", ".join(row_type[index].name for index in columns) for columns in unique]
            first = f"primary key ({names})" if key else "no primary key"
            return ", ".join([first, *(f"unique ({each})" for each in also)])
        case AsOfJoin(table=table, stream=stream, kind=kind):
            on = " AND ".join(
                f"{stream.row_type[left].name} = {table.row_type[right].name}"
                for left, right in zip(node.stream_key, node.table_key, strict=True)
            )
            further = f"; and {show(node.condition, node.row_type)}" if isinstance(node, AsOfJoinOn) else ""
            return f"{kind.value}, table as of the stream's ROWTIME, on {on}{further}"
        case TableJoin():
            return _table_join(node)
        case TopChanges():
            return _top(node)
        case WindowJoin(left=left_side, right=right_side):
            on = " AND ".join(
                f"{left_side.row_type[one].name} = {right_side.row_type[other].name}"
                for one, other in zip(node.left_key, node.right_key, strict=True)
            )
            window = f"right from {node.low_ms} to {node.high_ms} ms after left"
            if node.high_ms >= FOR_EVER_MS <= -node.low_ms:
                window = "however far apart"
            further = ""
            if node.condition is not None:
                further = f"; and {show(node.condition, node.row_type)}"
            return f"{node.kind.value}, {window}, on {on or 'every pair'}{further}"


def _top(node: TopChanges) -> str:
    row_type = node.row_type
    terms = [row_type[index].name + (" DESC" if descending else "") for index, descending in node.keys]
    first = "all" if node.limit is None else f"the first {node.limit}"
    behind = f" behind {node.offset}" if node.offset else ""
    each = (
        f" for each {', '.join(row_type[index].name for index in node.partition)}" if node.partition else ""
    )
    numbers = ", with their numbers" if isinstance(node, NumberedChanges) else ""
    return f"{first}{behind} by {', '.join(terms) or 'arrival'}{each}{numbers}"


def _table_join(node: TableJoin) -> str:
    """Tell what two tables are joined on, as the projections below compute it."""
    split = 1 + node.keys + node.left
    left, right = (
        next(
            each
            for each in node.input.inputs
            if isinstance(each, Project) and each.expressions[0] == Literal(side, INTEGER)
        )
        for side in (0, 1)
    )
    keys = zip(left.expressions[1 : 1 + node.keys], right.expressions[1 : 1 + node.keys], strict=True)
    pairs = [f"{show(one, left.input.row_type)} = {show(other, right.input.row_type)}" for one, other in keys]
    further = ""
    if node.condition is not None:
        fields = node.input.row_type.fields
        further = f"; and {show(node.condition, RowType((*fields[1 + node.keys : split], *fields[split:])))}"
    return f"{node.kind.value}, on {' AND '.join(pairs) or 'every pair'}{further}"


def _group(node: GroupNode, window: str | None) -> str:
    row_type = node.input.row_type
    terms = [*([] if window is None else [window]), *(row_type[key].name for key in node.keys)]
    calls = [show_aggregate(call, row_type) for call in node.aggregates]
    return f"{', '.join(calls) or 'no aggregate'} by {', '.join(terms) or 'nothing'}"


def _changes(node: GroupChanges) -> str:
    """Tell what is grouped, when its changes come, and how long a group is kept."""
    match node.window:
        case Period() as period:
            window: str | None = _period(period)
        case Hop() as hop:
            window = _window("HOP", hop.slide_ms, hop.size_ms, hop.offset_ms)
        case Session(gap_ms=gap):
            window = _window("SESSION", gap)
        case None:
            window = None
    rows = "change" if node.of_changes else "row"
    when = f"every {rows}" if node.every_ms is None else f"every {show_interval(node.every_ms)}"
    kept = "" if node.retention_ms is None else f"; kept {show_interval(node.retention_ms)}"
    return f"{_group(node, window)}; changes after {when}{kept}"


def _window(name: str, *lengths: int) -> str:
    """Give a group window; an offset of zero is not shown."""
    shown = [show_interval(each) for each in lengths if each]
    return f"{name}({', '.join(['ROWTIME', *shown])})"


def _over(node: WindowAggregate) -> str:
    row_type = node.input.row_type
    calls = ", ".join(show_window_call(call, row_type) for call in node.calls)
    parts = [f"ORDER BY {_period(node.order)}"]
    if node.partition:
        parts.insert(0, f"PARTITION BY {', '.join(row_type[key].name for key in node.partition)}")
    units = {node.frame.start.unit, node.frame.end.unit}
    by_time = EdgeUnit.RANGE in units or (EdgeUnit.UNBOUNDED in units and node.frame.end == CURRENT_ROW)
    unit = "RANGE" if by_time else "ROWS"
    parts.append(f"{unit} BETWEEN {_edge(node.frame.start)} AND {_edge(node.frame.end)}")
    return f"{calls} OVER ({' '.join(parts)})"


def _edge(edge: Edge) -> str:
    if edge.unit is EdgeUnit.UNBOUNDED:
        return "UNBOUNDED PRECEDING"
    if edge.unit is EdgeUnit.ROWS and edge.offset == 0:
        return "CURRENT ROW"
    length = str(abs(edge.offset)) if edge.unit is EdgeUnit.ROWS else show_interval(abs(edge.offset))
    return f"{length} {'FOLLOWING' if edge.offset > 0 else 'PRECEDING'}"


def _period(period: Period) -> str:
    if period.edge is PeriodEdge.EXACT:
        return "ROWTIME"
    if period.unit is not None:
        return f"{period.edge.value}(ROWTIME TO {period.unit.value})"
    if period.offset_ms:
        return _window("TUMBLE", period.step_ms or 0, period.offset_ms)
    return f"STEP(ROWTIME BY {show_interval(period.step_ms or 0)})"
