"""The state of a step in parts: what a snapshot has of it, and the blobs of its parts.

In a snapshot such a step has two tables: its account, and ``PARTS``, with a row for each part. A row names the blob
of the part, with the size and the checksum of each table in it. So the transaction that stores the snapshot decides
which blobs count, and a reader of one can check that it is the one that was written.

The tables of a part are those that its operator gives as its snapshot, as Arrow IPC streams one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from rowtide.checkpoint.parts.store import PartStore
from rowtide.checkpoint.snapshot import PARTS, cut, streamed
from rowtide.errors import TransientError, UnusablePartError
from rowtide.operators.contract import State, Want
from rowtide.operators.registry import OPERATORS, operator_type, split
from rowtide.plan.nodes import Node
from rowtide_connectors.errors import GoneError, UnavailableError

ACCOUNT = "account"
SEVERAL = -1
"""The number of a part that has the keys of several."""
WAITING = 0
"""In place of the number of parts: a part has rows that wait in a merge, some of one port, whatever their keys."""
_HINT = "Restore the store, or type `rowtide state drop PIPELINE --snapshots`: the next start reads the log instead."

_TABLES = pa.list_(
    pa.struct([("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("checksum", pa.string())])
)
_WANTS = pa.list_(pa.struct([("port", pa.int32()), ("bound", pa.int64())]))
_SCHEMA = pa.schema(
    [
        ("number", pa.int32()),
        ("of", pa.int32()),
        ("name", pa.string()),
        ("where", pa.string()),
        ("kind", pa.string()),
        ("memory", pa.int64()),
        ("held", pa.int64()),
        ("ahead", pa.int64()),
        ("tables", _TABLES),
        ("wants", _WANTS),
    ]
)


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A table of a part: its rows, its bytes in the blob, and their checksum."""

    name: str
    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class PartFacts:
    """What an operator reports of its state: see ``Operator.held``, ``Meeting.ahead`` and ``Explaining.wants``."""

    held: int
    ahead: int = 0
    wants: tuple[Want, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptPart:
    """One part of a step's state: it has the keys of part ``number`` of ``of``, as ``key_parts`` splits them.

    ``name`` is that of its blob in the store at ``where``, ``kind`` the class of the step's node, and ``memory`` the
    bytes of its tables in memory.
    """

    number: int
    of: int
    name: str
    where: str
    kind: str
    memory: int
    tables: tuple[KeptTable, ...]
    facts: PartFacts

    @property
    def bytes(self) -> int:
        """The size of the blob."""
        return sum(each.bytes for each in self.tables)


def put(store: PartStore, name: str, state: State) -> tuple[KeptTable, ...]:
    """Store the state of a part as a blob, and return its tables."""
    tables: list[KeptTable] = []

    def pieces() -> Iterator[bytes]:
        for each, table in state.items():
            size, checksum = 0, blake2b(digest_size=32)
            for piece in streamed(table):
                size += len(piece)
                checksum.update(piece)
                yield piece
            tables.append(KeptTable(each, table.num_rows, size, checksum.hexdigest()))

    store.write(name, cut(pieces()))
    return tuple(tables)


def get(store: PartStore, part: KeptPart) -> State:
    """Read the state of a part.

    Raises:
      UnusablePartError: the blob is not there, or is not the one that was written.
      UnavailableError: the store cannot be reached.
    """
    state: dict[str, pa.Table] = {}
    held = bytearray()
    with closing(store.read(part.name)) as pieces:
        try:
            for each in part.tables:
                while len(held) < each.bytes and (piece := next(pieces, None)) is not None:
                    held += piece
                content = bytes(held[: each.bytes])
                del held[: each.bytes]
                if blake2b(content, digest_size=32).hexdigest() != each.checksum:
                    raise UnusablePartError(f"{_named(part)} is damaged: its checksum differs", hint=_HINT)
                with pa.ipc.open_stream(content) as reader:
                    state[each.name] = reader.read_all()
        except GoneError as error:
            raise UnusablePartError(f"{_named(part)} is missing", hint=_HINT) from error
    return state


def _named(part: KeptPart) -> str:
    if part.of == WAITING:
        what = f"a part of the rows that wait in a {part.kind}"
    else:
        which = "a part with keys of several" if part.number == SEVERAL else f"part {part.number}"
        what = f"{which} of {part.of} of the state of a {part.kind}"
    return f'{what}, "{part.name}" in "{part.where}",'


def part_of(node: Node, parts: Sequence[KeptPart], number: int, of: int, store: PartStore) -> State:
    """Return the state of part ``number`` of ``of``, whatever the number of parts in which it was stored.

    Raises:
      As ``get``.
    """
    if [(each.number, each.of) for each in parts] == [(each, of) for each in range(of)]:
        return get(store, parts[number])
    # One part of those that are stored is in memory at a time.
    found = [split(node, get(store, each), of)[number] for each in parts]
    kind: type = type(node)
    return found[0] if len(found) == 1 else operator_type(kind).merge(found)


def reached(store: PartStore, part: KeptPart) -> State:
    """Return the state of a part to a process that can wait for the store.

    Raises:
      As ``get``, but TransientError if the store cannot be reached.
    """
    try:
        return get(store, part)
    except UnavailableError as error:
        raise TransientError(f'the store of state in parts "{store.where}": {error.message}') from error


def whole(parts: Sequence[KeptPart], store: PartStore) -> State:
    """Return the state of a step as one operator has it.

    Raises:
      As ``get``. TransientError: the store cannot be reached.
    """
    states = [reached(store, each) for each in parts]
    return states[0] if len(states) == 1 else operator_type(_KINDS[parts[0].kind]).merge(states)


def all_of(state: State, store: PartStore) -> State:
    """Return the state of a step with what it has in parts: all of it, or rows that follow those of its tables.

    Raises:
      As ``whole``.
    """
    parts = parts_in(state)
    here = {name: table for name, table in state.items() if name != PARTS}
    if here.keys() == {ACCOUNT}:
        return whole(parts, store)
    held: dict[str, list[pa.Table]] = {}
    for part in parts:
        for name, table in reached(store, part).items():
            held.setdefault(name, []).append(table)
    return {name: pa.concat_tables([table, *held.get(name, ())]) for name, table in here.items()}


_KINDS: Mapping[str, type] = {kind.__name__: kind for kind in OPERATORS}


def to_table(parts: Sequence[KeptPart]) -> pa.Table:
    """Return the table of a step's parts, for a snapshot."""
    rows: list[dict[str, Any]] = []
    for each in parts:
        row = asdict(each)
        facts = row.pop("facts")
        row |= {"held": facts["held"], "ahead": facts["ahead"]}
        row["wants"] = [want._asdict() for want in each.facts.wants]
        rows.append(row)
    return pa.Table.from_pylist(rows, _SCHEMA)


def from_table(table: pa.Table) -> list[KeptPart]:
    """Return the parts in a table of ``to_table``."""
    found = []
    for row in table.to_pylist():
        wants = tuple(Want(each["port"], each["bound"]) for each in row.pop("wants"))
        facts = PartFacts(row.pop("held"), row.pop("ahead"), wants)
        tables = tuple(KeptTable(**each) for each in row.pop("tables"))
        found.append(KeptPart(**row, tables=tables, facts=facts))
    return found


def parts_in(state: State) -> list[KeptPart]:
    """Return the parts of a step's state in a snapshot; none if the snapshot has the state itself."""
    return from_table(state[PARTS]) if PARTS in state else []
