"""JsonTable: a row for each value that a path names in JSON text.

See docs/sql/semantics.md#rows-from-json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import Raw

from rowtide.errors import Reason
from rowtide.expr.columnar import RowErrors, compile_columns
from rowtide.expr.evaluation import Errors, RowError
from rowtide.expr.functions.rejections import shown
from rowtide.expr.json_path import JsonSteps, show_path
from rowtide.expr.json_raw import (
    JsonTextError,
    elements_of,
    is_array,
    is_object,
    members_of,
    raw_at,
    raw_json,
    rows_at,
    text_of,
)
from rowtide.expr.rowwise import literal_value
from rowtide.expr.tree import FieldRef
from rowtide.operators.contract import OperatorSite, StepOutput
from rowtide.operators.faults import rejected_inserts
from rowtide.operators.row_wise.rowwise import RowWise
from rowtide.plan.json_columns import MOST_ELEMENTS, JsonColumn, JsonColumnKind
from rowtide.plan.nodes.json_table import JsonTable
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import Column
from rowtide.rows.deferred import deferred_take
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, VARCHAR, Field, RowType, Type
from rowtide.rowtime.bound import Bound

_NO_FIELDS = RowType(())
_EACH_ELEMENT = (None,)


@dataclass(slots=True)
class _Elements:
    """The elements of the rows of a tray, in order.

    ``sources`` has the row of each, ``numbers`` its number in that row, from 1, and ``values`` its JSON; None for
    a row that has none and stays. ``errors`` are those of rows that fail.
    """

    sources: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    errors: Errors = field(default_factory=dict)


class JsonTableOperator(RowWise):
    """Passes bounds on, and for each row the rows of its elements.

    The first element, and in it the first column, that fails rejects the whole row: its elements come out all or
    none, so that a row which is resubmitted later repeats nothing.
    """

    def __init__(self, node: JsonTable, _site: OperatorSite) -> None:
        super().__init__(node.relation)
        self._node = node
        self._document = compile_columns(node.document)
        own = tuple(node.row_type)[node.width :]
        self._readers = [
            _reader(each, column.name, column.type) for each, column in zip(node.columns, own, strict=True)
        ]

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0."""
        if tray is None or not len(tray):
            return StepOutput(None, bound)
        found = self._document(tray)
        elements = self._elements(found.column, found.errors)
        columns = self._columns(elements, found.column)
        sources = np.array(elements.sources, dtype=np.int64)
        errors = RowErrors(elements.errors) if elements.errors else None
        if errors is not None:
            fine = np.flatnonzero(~errors.mask(len(tray))[sources])
            sources, columns = sources[fine], [each.take(fine) for each in columns]
        faults = rejected_inserts(self._relation, tray, errors)
        self._account(len(tray), sources, len(faults))
        return StepOutput(self._joined(tray, sources, columns) if len(sources) else None, bound, faults)

    def _account(self, came: int, sources: Int64s, rejected: int) -> None:
        done = len(np.unique(sources))
        self.account.rows_in += came
        self.account.rejected += rejected
        self.account.done += done
        self.account.filtered += came - done - rejected
        self.account.rows_out += len(sources)

    def _joined(self, tray: Tray, sources: Int64s, columns: Sequence[Column]) -> Tray:
        """Return the rows of the tray, each once for each of its elements, with the columns of these."""
        # Often the document is read by nothing else: what nothing reads is not copied for each element.
        given = [deferred_take(each, sources) for each in tray.columns]
        timed = tray.with_columns(_NO_FIELDS, ()).take(sources)
        return timed.with_columns(self._node.row_type, (*given, *columns))

    # ----------------------------------------------------------------------------------------- elements

    def _elements(self, documents: Column, errors: RowErrors | None) -> _Elements:
        found = _Elements()
        if errors is not None:
            found.errors = dict(zip(errors.rows.tolist(), errors, strict=True))
        for at, text in enumerate(documents.to_list()):
            if at in found.errors:
                continue
            try:
                values = [] if text is None else self._values(raw_json(str(text)))
            except JsonTextError as error:
                if not self._node.empty_on_error:
                    message = f"JSON_TABLE({shown(text)}) is not defined: {error}"
                    found.errors[at] = RowError(Reason.FUNCTION, message)
                    continue
                values = []
            if len(values) > MOST_ELEMENTS:
                message = f"JSON_TABLE: {len(values)} elements are more than {MOST_ELEMENTS}"
                found.errors[at] = RowError(Reason.OVERFLOW, message)
            elif values:
                found.sources += [at] * len(values)
                found.numbers += range(1, len(values) + 1)
                found.values += values
            elif self._node.keeps_all:
                found.sources.append(at)
                found.numbers.append(0)
                found.values.append(None)
        return found

    def _values(self, document: bytes) -> list[bytes]:
        if self._node.path == _EACH_ELEMENT and is_array(document):
            return elements_of(document)
        return [value for _, value in rows_at(document, self._node.path)]

    # ------------------------------------------------------------------------------------------ columns

    def _columns(self, elements: _Elements, documents: Column) -> list[Column]:
        """Return the columns of all elements, and add the errors of the rows whose elements fail."""
        members = _Members(elements.values)
        failed: dict[int, tuple[int, int, RowError]] = {}
        columns = []
        for at, reader in enumerate(self._readers):
            column, wrong = reader.read(elements, members)
            columns.append(column)
            for number, error in wrong.items():
                source = elements.sources[number]
                if source not in failed or (number, at) < failed[source][:2]:
                    failed[source] = (number, at, error)
        for source, (number, at, error) in failed.items():
            place = self._place(documents, source, elements.numbers[number] - 1, at)
            name = self._readers[at].name
            message = f'column "{name}" of JSON_TABLE at {show_path(place)}: {error.message}'
            elements.errors[source] = RowError(error.reason, message)
        return columns

    def _place(self, documents: Column, source: int, element: int, column: int) -> JsonSteps:
        (text,) = documents.slice(source, source + 1).to_list()
        place, value = list(rows_at(raw_json(str(text)), self._node.path))[element]
        steps = self._node.columns[column].steps
        if self._node.columns[column].any_case and is_object(value):
            steps = next(((name,) for name in members_of(value) if name.upper() == steps[0]), steps)
        return (*place, *steps)


class _Members:
    """The members of elements that are objects, decoded once for all columns."""

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self._values = values
        self._exact: list[dict[str, Raw] | None] | None = None
        self._folded: list[dict[str, Raw] | None] | None = None

    def exact(self) -> list[dict[str, Raw] | None]:
        """Return the members of each element by name; None for one that is not an object."""
        if self._exact is None:
            self._exact = [
                None if each is None or not is_object(each) else members_of(each) for each in self._values
            ]
        return self._exact

    def folded(self) -> list[dict[str, Raw] | None]:
        """Return them by name in upper case."""
        if self._folded is None:
            self._folded = [
                None if each is None else {name.upper(): value for name, value in each.items()}
                for each in self.exact()
            ]
        return self._folded


Wrong = dict[int, RowError]
"""Why elements fail, by their index."""


class _Ordinality:
    """The numbers of the elements."""

    def __init__(self, name: str, of: Type) -> None:
        self.name = name
        self._type = of

    def read(self, elements: _Elements, members: _Members) -> tuple[Column, Wrong]:
        """Return the column; it never fails."""
        return Column.from_values(self._type, [number or None for number in elements.numbers]), {}


class _Found:
    """A column of the values at a path."""

    def __init__(self, column: JsonColumn, name: str, of: Type) -> None:
        assert column.convert is not None
        self.name = name
        self._column = column
        self._type = of
        self._given = BOOLEAN if column.kind is JsonColumnKind.EXISTS else VARCHAR
        self._is_given = isinstance(column.convert, FieldRef)
        self._convert = compile_columns(column.convert)
        self._row_type = RowType((Field("VALUE", self._given),))

    def read(self, elements: _Elements, members: _Members) -> tuple[Column, Wrong]:
        """Return the column, and the elements that fail without a value of ON EMPTY or ON ERROR."""
        found = _at_path(self._column, elements, members)
        if self._column.kind is JsonColumnKind.EXISTS:
            there = zip(elements.values, found, strict=True)
            values = [None if element is None else each is not None for element, each in there]
            return self._with_defaults(*self._converted(Column.from_values(BOOLEAN, values)), ())
        take = _TAKE[self._column.kind]
        texts: list[str | None] = []
        wrong: Wrong = {}
        empty: list[int] = []
        for at, each in enumerate(found):
            text = None
            if each is not None:
                try:
                    text = take(each)
                except JsonTextError as error:
                    wrong[at] = RowError(Reason.TYPE, str(error))
            elif elements.values[at] is not None:
                empty.append(at)
            texts.append(text)
        column, failed = self._converted(Column.from_values(VARCHAR, texts))
        return self._with_defaults(column, wrong | failed, empty)

    def _converted(self, column: Column) -> tuple[Column, Wrong]:
        if self._is_given:
            return Column(self._type, column.values, column.valid), {}
        count = len(column)
        rowtime, counter = np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.int64)
        found = self._convert(Tray.from_columns(self._row_type, [column], rowtime, 0, counter))
        wrong = (
            {} if found.errors is None else dict(zip(found.errors.rows.tolist(), found.errors, strict=True))
        )
        return found.column, wrong

    def _with_defaults(self, column: Column, wrong: Wrong, empty: Sequence[int]) -> tuple[Column, Wrong]:
        on_empty, on_error = self._column.on_empty, self._column.on_error
        given: dict[int, object] = {}
        if on_error is not None:
            given |= dict.fromkeys(wrong, literal_value(on_error))
            wrong = {}
        if on_empty is None:
            wrong |= dict.fromkeys(empty, RowError(Reason.MISSING_FIELD, "the path does not exist"))
        elif on_empty.value is not None:
            given |= dict.fromkeys(empty, literal_value(on_empty))
        if not given:
            return column, wrong
        values = column.to_list()
        for at, value in given.items():
            values[at] = value
        return Column.from_values(self._type, values), wrong


def _scalar(found: bytes) -> str | None:
    """Return a number, text or truth value as text.

    Raises:
      JsonTextError: it is an object or array, or has a NUL character.
    """
    if found[0] in _NESTED:
        what = "an object" if is_object(found) else "an array"
        raise JsonTextError(f"the value is {what}; FORMAT JSON returns it as text")
    return text_of(found)


_NESTED = b"{["
_TAKE: dict[JsonColumnKind, Callable[[bytes], str | None]] = {
    JsonColumnKind.VALUE: _scalar,
    JsonColumnKind.TEXT: text_of,
    JsonColumnKind.JSON: bytes.decode,
}
"""The functions that take the value of a column from the JSON at its path, before its conversion."""


def _at_path(column: JsonColumn, elements: _Elements, members: _Members) -> Iterator[bytes | None]:
    """Yield the JSON at the path of a column in each element; None where the path does not exist."""
    if not column.steps:
        yield from elements.values
        return
    first, *others = column.steps
    rest = tuple(others)
    if isinstance(first, str):
        for held in members.folded() if column.any_case else members.exact():
            below = None if held is None else held.get(first)
            if below is None:
                yield None
            else:
                yield raw_at(bytes(below), rest) if rest else bytes(below)
    else:
        for each in elements.values:
            yield None if each is None else raw_at(each, column.steps)


def _reader(column: JsonColumn, name: str, of: Type) -> _Ordinality | _Found:
    if column.kind is JsonColumnKind.ORDINALITY:
        return _Ordinality(name, of)
    return _Found(column, name, of)
