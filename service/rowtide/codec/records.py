"""Records of formats that have types of their own to rows: fields by name or path (docs/sql/streams.md#avro)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from msgspec import UNSET

from rowtide.codec.json.readings import Reading, folded, reading_of, value_at
from rowtide.codec.json.values import ElementError, FromJson
from rowtide.codec.options import Declared
from rowtide.codec.typed_values import from_typed
from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.json_path import JsonSteps, show_path
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType, Type


class RecordRows:
    """Converts records that a library decoded to rows; ``converter`` makes the function that converts a value.

    Raises:
      StatementError: a column cannot be read.
    """

    def __init__(
        self,
        declared: Declared,
        row_type: RowType,
        converter: Callable[[Type, Reading], FromJson] = from_typed,
    ) -> None:
        self._row_type = row_type
        self._readings = [reading_of(declared, field) for field in row_type]
        self._converters = [
            converter(field.type, reading) for field, reading in zip(row_type, self._readings, strict=True)
        ]

    def row(self, record: object, kept: Container[int] = ()) -> Row:
        """Return the row of a record; the columns ``kept`` are NULL.

        Raises:
          RejectedRowError: DECODE, TYPE or MISSING_FIELD.
        """
        if not isinstance(record, dict):
            raise RejectedRowError(Reason.DECODE, "the message is not a record")
        names = {folded(name): name for name in record}
        return tuple(
            None if index in kept else self._field(index, record, names)
            for index in range(len(self._row_type))
        )

    def paths(self, record: Mapping[str, object]) -> list[JsonSteps]:
        """Return where a record has the value of each column."""
        names = {folded(name): name for name in record}
        return [self._path(index, record, names) for index in range(len(self._row_type))]

    def _path(self, index: int, record: Mapping[str, object], names: Mapping[str, str]) -> JsonSteps:
        field, path = self._row_type[index], self._readings[index].path
        if path is not None:
            return path
        main = field.name.lower() if field.name == field.name.upper() else field.name
        return (main if main in record else names.get(folded(field.name), main),)

    def _field(self, index: int, record: Mapping[str, object], names: Mapping[str, str]) -> object:
        field, reading = self._row_type[index], self._readings[index]
        try:
            given = value_at(record, self._path(index, record, names))
            if given is not None and given is not UNSET:
                return self._converters[index](given)
            if field.nullable:
                return None
            raise RejectedRowError(Reason.MISSING_FIELD, "is absent" if given is UNSET else "is null")
        except ElementError as error:
            place = show_path((*self._path(index, record, names), error.at))
            raise RejectedRowError(error.reason, f'field "{field.name}" ({place}): {error.why}') from error
        except RejectedRowError as error:
            colon = "" if error.reason is Reason.MISSING_FIELD else ":"
            raise RejectedRowError(error.reason, f"{reading.shown}{colon} {error.message}") from error
