"""Digests of the plan that a checkpoint belongs to (docs/sql/semantics.md#checkpoint-and-plan-digest).

One digest for each pump, model, function in Python, foreign stream and foreign table, over everything that
decides which rows come out: the nodes with their expressions, the topic and
format of a stream, the columns and key of a table, the text of a model or function. The address, user and
password of a server do not affect rows and are left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from rowtide.expr.tree import PythonAggregate, PythonFunction, PythonTable
from rowtide.plan.nodes import Model, Node
from rowtide.plan.plan import Plan
from rowtide.rows.types import OMITTED, RowType, Type
from rowtide.runtime.outbox_options import OUTBOX_OPTIONS
from rowtide.runtime.polling.options import changeable_options

DIGEST_VERSION = 1
"""Changes when operators change so that old state no longer fits."""


def plan_digests(plan: Plan) -> dict[str, str]:
    """Return the digests of a plan by name, for example ``pump "P"``."""
    memo: dict[int, str] = {}
    # Node identity is sufficient as a memo's key while ``plan`` holds the nodes.
    digests = {f'pump "{pump.name}"': _digest((pump.target, _node(pump.node, memo))) for pump in plan.pumps}
    for model in sorted(_models(plan), key=lambda each: each.relation):
        own = (model.path, model.options, model.code, _canonical(model.accepts), _canonical(model.gives))
        digests[f'model "{model.relation}"'] = _digest(own)
    for function in _functions(plan):
        digests[f'function "{function.name}"'] = _digest(_canonical(function))
    for stream in plan.foreign_streams:
        changeable = changeable_options(plan, stream)
        deciding = [each for each in stream.options if _decides(each[0]) and each[0] not in changeable]
        options = tuple(sorted(deciding))
        # Streams whose columns have no options have the digests that they had before there were any.
        columns = (tuple(sorted(stream.column_options)),) if stream.column_options else ()
        digests[f'foreign stream "{stream.name}"'] = _digest((_canonical(stream.row_type), options, *columns))
    for stream in plan.written_streams:
        options = tuple(sorted((name, value) for name, value in stream.options if _decides_messages(name)))
        given = (_canonical(stream.row_type), options, tuple(sorted(stream.column_options)))
        digests[f'written stream "{stream.name}"'] = _digest(given)
    for table in plan.foreign_tables:
        # Tables without foreign keys have the digests that they had before there were any.
        keys = (_canonical(table.foreign_keys),) if table.foreign_keys else ()
        digests[f'foreign table "{table.name}"'] = _digest((_canonical(table.row_type), table.key, *keys))
    return digests


def _decides(option: str) -> bool:
    """Return whether an option of a stream decides what its rows are, not how a client reaches something."""
    return "." not in option and not option.startswith("registry_")


def _decides_messages(option: str) -> bool:
    """Return whether an option of a written stream decides what its messages are, not how they are sent."""
    return _decides(option) and option not in ("delivery", *(each.name for each in OUTBOX_OPTIONS))


def dumped(digests: Mapping[str, str], tables: Sequence[str] = ()) -> str:
    """Return digests as one text, for the checkpoint, with the ``tables`` that the pipeline has for itself."""
    return json.dumps(
        {"version": DIGEST_VERSION, "digests": dict(digests), "tables": list(tables)}, sort_keys=True
    )


def tables_in(kept: str) -> frozenset[str]:
    """Return the tables that the pipeline of a checkpoint's digests has for itself; older ones do not say."""
    return frozenset(json.loads(kept).get("tables", ()))


def differences(kept: str, digests: Mapping[str, str]) -> list[str]:
    """Return the differences between the digests of a checkpoint and those of a plan; empty: none."""
    held = json.loads(kept)
    if held["version"] != DIGEST_VERSION:
        return [f"the checkpoint was written by another version ({held['version']}, not {DIGEST_VERSION})"]
    before: dict[str, str] = held["digests"]
    found = [f"{name} is new" for name in digests if name not in before]
    found += [f"{name} is gone" for name in before if name not in digests]
    found += [f"{name} has changed" for name in digests if before.get(name, digests[name]) != digests[name]]
    return sorted(found)


def _models(plan: Plan) -> set[Model]:
    """Return the models that pumps read. Each has its own digest, so that its change is reported by name."""
    return {node for node in _nodes(plan) if isinstance(node, Model)}


def _functions(plan: Plan) -> list[PythonFunction | PythonAggregate | PythonTable]:
    """Return the functions in Python that pumps call. Each has its own digest, as a model has."""
    found: dict[PythonFunction | PythonAggregate | PythonTable, None] = {}
    for node in _nodes(plan):
        pending: list[object] = [getattr(node, field.name) for field in dataclasses.fields(node)]
        while pending:
            each = pending.pop()
            if isinstance(each, PythonFunction | PythonAggregate | PythonTable):
                found[each] = None
            elif isinstance(each, tuple):
                pending += each
            elif dataclasses.is_dataclass(each) and not isinstance(each, Node | RowType | Type | type):
                pending += (getattr(each, field.name) for field in dataclasses.fields(each))
    return sorted(found, key=lambda each: each.name)


def _nodes(plan: Plan) -> Iterator[Node]:
    """Yield the nodes that pumps read, each once."""
    seen: set[int] = set()
    ahead: list[Node] = [pump.node for pump in plan.pumps]
    while ahead:
        node = ahead.pop()
        if id(node) not in seen:
            seen.add(id(node))
            ahead += node.inputs
            yield node


def _node(node: Node, memo: dict[int, str]) -> str:
    """Digest a node over its inputs' digests. A view that is read twice is digested once."""
    if id(node) not in memo:
        inputs = {id(each) for each in node.inputs}
        own = [
            (field.name, _canonical(value))
            for field in dataclasses.fields(node)
            if id(value := getattr(node, field.name)) not in inputs
            and field.name != "sources"
            and field.compare
            # Plans without this field keep the digests that they had before it existed.
            and not (field.name == "shown" and value is None)
        ]
        memo[id(node)] = _digest((type(node).__name__, own, [_node(each, memo) for each in node.inputs]))
    return memo[id(node)]


def _canonical(value: object) -> object:
    """Return a value of the plan as nested lists, whose repr is the same in every process."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            _canonical(part)
            for each in dataclasses.fields(value)
            if each.compare
            and not ((part := getattr(value, each.name)) is None and each.metadata.keys() & OMITTED.keys())
        ]
        return [type(value).__name__, *fields]
    if isinstance(value, tuple | list):
        return [_canonical(each) for each in value]
    return repr(value)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
