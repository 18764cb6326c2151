"""Typed expressions as SQL text, for EXPLAIN."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.frames import Edge, EdgeUnit, WindowCall
from rowtide.rows.types import Kind, RowType, Type
from rowtide.rowtime.period import Cumulate, CumulateByMonths, Hop, HopByMonths, Period, PeriodEdge, Session

_PRECEDENCE = {
    "OR": 1,
    "AND": 2,
    "NOT": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "LIKE", "ILIKE", "SIMILAR TO"), 4),
    **dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"), 4),
    **dict.fromkeys(("&", "|", "#", "<<", ">>", "@>", "<@"), 5),
    **dict.fromkeys(("+", "-", "||"), 6),
    **dict.fromkeys(("*", "/", "%"), 7),
}
_ATOM = 8
_UNITS_MS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1_000))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def show(expr: Expr, row_type: RowType) -> str:
    """Return an expression over rows of ``row_type`` as text."""
    return _show(expr, row_type)[0]


def show_aggregate(call: AggregateCall, row_type: RowType) -> str:
    """Return an aggregate over rows of ``row_type`` as text."""
    inner = "*" if call.argument is None else show(call.argument, row_type)
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{inner})"
    if call.function.startswith("PERCENTILE_"):
        text = f"{call.function}({float(call.fraction or 0)}) WITHIN GROUP (ORDER BY {inner})"
    if call.function == "APPROX_PERCENTILE":
        text = f"{call.function}({inner}, {float(call.fraction or 0)})"
    if call.number is not None:
        text = f"{text[:-1]}, {call.number})"
    if call.ignore_nulls:
        text += " IGNORE NULLS"
    if call.condition is not None:
        text += f" FILTER (WHERE {show(call.condition, row_type)})"
    return text


def show_window_call(call: WindowCall, row_type: RowType) -> str:
    """Return an aggregate or window function over rows of ``row_type`` as text, without its window."""
    args = ["*" if call.argument is None else show(call.argument, row_type)]
    if call.number != 1 or call.function == "TOPK":
        args.append(str(call.number))
    if call.default is not None:
        args.append(f"DEFAULT {show(call.default, row_type)}")
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{', '.join(args)})"
    if call.function.startswith("PERCENTILE_"):
        text = f"{call.function}({float(call.fraction or 0)}) WITHIN GROUP (ORDER BY {args[0]})"
    if call.function == "APPROX_PERCENTILE":
        text = f"{call.function}({args[0]}, {float(call.fraction or 0)})"
    if call.condition is not None:
        text += f" FILTER (WHERE {show(call.condition, row_type)})"
    return f"{text} IGNORE NULLS" if call.ignore_nulls else text


def show_edge(edge: Edge) -> str:
    """Return an edge of a frame as SQL text."""
    if edge.unit is EdgeUnit.UNBOUNDED:
        return "UNBOUNDED PRECEDING"
    if edge.unit is EdgeUnit.ROWS and edge.offset == 0:
        return "CURRENT ROW"
    length = str(abs(edge.offset)) if edge.unit is EdgeUnit.ROWS else show_interval(abs(edge.offset))
    return f"{length} {'FOLLOWING' if edge.offset > 0 else 'PRECEDING'}"


def show_interval(milliseconds: int) -> str:
    """Return a length of time as an INTERVAL, in the largest unit that fits."""
    for unit, length in _UNITS_MS:
        if milliseconds and milliseconds % length == 0:
            return f"INTERVAL '{milliseconds // length}' {unit}"
    seconds, rest = divmod(abs(milliseconds), 1_000)
    sign = "-" if milliseconds < 0 else ""
    return f"INTERVAL '{sign}{seconds}{f'.{rest:03}' if rest else ''}' SECOND"


def show_period(period: Period) -> str:
    """Return a period of ROWTIME as SQL text."""
    if period.edge is PeriodEdge.EXACT:
        return "ROWTIME"
    if period.unit is not None:
        return f"{period.edge.value}(ROWTIME TO {period.unit.value})"
    if period.edge is PeriodEdge.CEIL:
        return f"the end of {show_period(replace(period, edge=PeriodEdge.FLOOR))}"
    if period.offset_ms:
        return _window("TUMBLE", period.step_ms or 0, period.offset_ms)
    return f"STEP(ROWTIME BY {show_interval(period.step_ms or 0)})"


def show_group_window(window: Hop | HopByMonths | Cumulate | CumulateByMonths | Session) -> str:
    """Return a window of groups as SQL text."""
    match window:
        case Cumulate():
            return _window("CUMULATE", window.step_ms, window.size_ms, window.offset_ms)
        case CumulateByMonths(step_ms=step):
            first = show_interval(step) if step is not None else show_months(window.step_months)
            return f"CUMULATE(ROWTIME, {first}, {show_months(window.months)})"
        case Session():
            return _window("SESSION", window.gap_ms)
        case HopByMonths():
            return f"HOP(ROWTIME, {show_months(window.slide)}, {show_months(window.size)})"
        case Hop():
            return _window("HOP", window.slide_ms, window.size_ms, window.offset_ms)


def show_months(months: int) -> str:
    """Return a number of months as an INTERVAL."""
    return f"INTERVAL '{months // 12}' YEAR" if months % 12 == 0 else f"INTERVAL '{months}' MONTH"


def _window(name: str, *lengths: int) -> str:
    """Return a group window; an offset of zero is not shown."""
    shown = [show_interval(each) for each in lengths if each]
    return f"{name}({', '.join(['ROWTIME', *shown])})"


def _show(expr: Expr, row_type: RowType) -> tuple[str, int]:
    """Return the text, and its binding strength."""
    match expr:
        case RowtimeRef():
            return "ROWTIME", _ATOM
        case FieldRef(index=index):
            return row_type[index].name, _ATOM
        case Literal(value=value, type=of):
            return _literal(value, of), _ATOM
        case Call():
            return _call(expr, row_type)


def _call(call: Call, row_type: RowType) -> tuple[str, int]:
    texts = [show(arg, row_type) for arg in call.args]
    match call.function, texts:
        case (("CAST" | "TRY_CAST"), (operand,)):
            return f"CAST({operand} AS {call.type})", _ATOM
        case ("FLOOR_TO" | "CEIL_TO") as name, _:
            # An operand that ends with an interval would read the TO as its own.
            operand = _tight(call.args[0], row_type, _ATOM)
            return f"{name[:-3]}({operand} TO {_text_of(call.args[1])})", _ATOM
        case "STEP", (operand, length):
            return f"STEP({operand} BY {length})", _ATOM
        case "EXTRACT", (_, operand):
            return f"EXTRACT({_text_of(call.args[0])} FROM {operand})", _ATOM
        case "CASE", _:
            branches = "".join(
                f" WHEN {condition} THEN {value}"
                for condition, value in zip(texts[:-1:2], texts[1:-1:2], strict=True)
            )
            return f"CASE{branches} ELSE {texts[-1]} END", _ATOM
        case "NOT", _:
            return f"NOT {_tight(call.args[0], row_type, 4)}", 3
        case "NEGATE", _:
            return f"-{_tight(call.args[0], row_type, _ATOM)}", 7
        case name, (_,) if name.startswith("IS "):
            return f"{_tight(call.args[0], row_type, 5)} {name}", 4
    level = _PRECEDENCE.get(call.function)
    if level is None or len(texts) < 2:
        return f"{call.function}({', '.join(texts)})", _ATOM
    first = _tight(call.args[0], row_type, level if level != 4 else 5)
    rest = [_tight(arg, row_type, level if level < 3 else level + 1) for arg in call.args[1:]]
    return f" {call.function} ".join([first, *rest]), level


def _tight(expr: Expr, row_type: RowType, least: int) -> str:
    """Return the text, in parentheses if it binds less tightly than ``least``."""
    text, level = _show(expr, row_type)
    return text if level >= least else f"({text})"


def _text_of(expr: Expr) -> str:
    return str(expr.value) if isinstance(expr, Literal) else "?"


def _literal(value: object, of: Type) -> str:
    if value is None:
        return f"CAST(NULL AS {of})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int):
        match of.kind:
            case Kind.INTERVAL_DAY:
                return show_interval(value)
            case Kind.INTERVAL_MONTH:
                return f"INTERVAL '{value}' MONTH"
            case Kind.TIMESTAMP | Kind.INSTANT:
                moment = _EPOCH + timedelta(milliseconds=value)
                offset = "" if of.kind is Kind.TIMESTAMP else "+00:00"
                return f"{of} '{moment:%Y-%m-%d %H:%M:%S}.{value % 1_000:03}{offset}'"
            case Kind.DATE:
                return f"DATE '{_EPOCH + timedelta(days=value):%Y-%m-%d}'"
            case Kind.TIME:
                return f"TIME '{_EPOCH + timedelta(milliseconds=value):%H:%M:%S}.{value % 1_000:03}'"
    return str(value)
