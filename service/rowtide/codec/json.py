"""JSON messages to columns (docs/sql/semantics.md#error-rows, #servers-formats-and-pseudo-columns).

Fields match column names without regard to the case of ASCII letters. Where a
message spells one name in several ways, the column's main spelling counts (the
name in lower case; of a quoted name with small letters, the name itself), else
the last of the others. Unknown fields are ignored; of a field given twice the
last counts. An absent field or ``null`` is NULL, and MISSING_FIELD where the
column is NOT NULL. What is no JSON object is DECODE.

Almost every message is decoded by msgspec into a struct of the main spellings
and its fields gathered into columns. A message that this cannot do (a field
absent, another type, bad JSON) is processed alone, with a precise reason; the
two ways agree, and which one a message goes depends on nothing but itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from rowtide.codec.contract import Decoded, DecodeFault
from rowtide.codec.json_columns import Builder, builder, wire_type
from rowtide.codec.json_values import FromJson, converter
from rowtide.errors import Reason, RejectedRowError, StatementError, rejection_of
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType

_ESCAPE = rb"\u"
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
"""Names that JSON can write in capitals, in small letters and with \\u escapes, and in no other way."""


class JsonDecoder:
    """Decodes the JSON messages of one foreign stream; see ``codec.contract``.

    Raises:
      StatementError: a column's type cannot come from JSON.
    """

    def __init__(self, relation: str, row_type: RowType) -> None:
        self._row_type = row_type
        converters: list[FromJson] = []
        for field in row_type:
            convert = converter(field.type)
            if convert is None:
                raise StatementError(
                    f'column "{field.name}" of foreign stream "{relation}": '
                    f"a message in JSON cannot carry the type {field.type}",
                    hint="Read it as text or as a number and convert it in a view.",
                )
            converters.append(convert)
        self._converters = converters
        self._builders: list[Builder] = [builder(field.type) for field in row_type]
        self._spellings = [_main_spelling(field.name) for field in row_type]
        self._folded = {_fold(field.name): index for index, field in enumerate(row_type)}
        self._quoted = [
            f'"{field.name.lower()}"'.encode() if _PLAIN_NAME.fullmatch(field.name) else None
            for field in row_type
        ]
        self._attributes = [f"f{index}" for index in range(len(row_type))]
        struct = msgspec.defstruct(
            "Message",
            [
                (attribute, wire_type(field.type) | None | UnsetType, UNSET)
                for attribute, field in zip(self._attributes, row_type, strict=True)
            ],
            rename=dict(zip(self._attributes, self._spellings, strict=True)),
            gc=False,
        )
        self._decode_struct = msgspec.json.Decoder(struct).decode
        self._decode_any = msgspec.json.Decoder(float_hook=Decimal).decode

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        messages, failed = self._structs(values)
        alone = np.zeros(len(messages), dtype=np.bool_)
        alone[failed] = True
        try:
            # Numbers beyond all range are doubtful ones, and nothing to warn of.
            with np.errstate(all="ignore"):
                columns = self._columns(values, messages, alone)
        except Exception:  # noqa: BLE001 - whatever a value does to a column, it does to one message only
            alone[:] = True
            columns = tuple(Column.nulls(field.type, 0) for field in self._row_type)
        if not alone.any():
            return Decoded(columns, np.arange(len(values), dtype=np.int64), ())
        rows, found, faults = self._one_by_one(values, np.flatnonzero(alone))
        together = np.flatnonzero(~alone)
        if not rows:
            return Decoded(columns, together, faults)
        accepted = np.concatenate([together, np.array(found, dtype=np.int64)])
        order = np.argsort(accepted, kind="stable")
        merged = tuple(
            Column.concat([column, Column.from_values(column.type, (row[index] for row in rows))]).take(order)
            for index, column in enumerate(columns)
        )
        return Decoded(merged, accepted[order], faults)

    def _structs(self, values: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
        """Decode each message into a struct; None where that did not go, and where that was."""
        messages: list[Any] = []
        failed: list[int] = []
        # The iterator goes on behind the message that raised, and what extend() has taken stays.
        decoded: Iterator[Any] = map(self._decode_struct, values)  # type: ignore[arg-type]
        while True:
            try:
                messages.extend(decoded)
                return messages, failed
            except Exception:  # noqa: BLE001 - processed alone, which says why
                failed.append(len(messages))
                messages.append(None)

    def _columns(
        self, values: Sequence[bytes | None], messages: list[Any], alone: Mask
    ) -> tuple[Column, ...]:
        """Return the columns of the messages that went well; mark further ones in ``alone``."""
        together = np.arange(len(messages), dtype=np.int64)
        if alone.any():
            together = np.flatnonzero(~alone)
            messages = [message for message in messages if message is not None]
        leave = np.zeros(len(messages), dtype=np.bool_)
        columns = []
        for index, (field, build) in enumerate(zip(self._row_type, self._builders, strict=True)):
            attribute = self._attributes[index]
            fields = [getattr(message, attribute) for message in messages]
            types = set(map(type, fields))
            valid = None
            if UnsetType in types:
                unset = [number for number, value in enumerate(fields) if value is UNSET]
                for number in unset:
                    fields[number] = None
                    leave[number] |= self._may_be_spelled_otherwise(index, values[together[number]])
            if UnsetType in types or type(None) in types:
                valid = np.fromiter((value is not None for value in fields), np.bool_, len(fields))
                if not field.nullable:
                    leave |= ~valid
            column, doubtful = build(fields, valid)
            if doubtful is not None:
                leave |= doubtful
            columns.append(column)
        if leave.any():
            alone[together[leave]] = True
            keep: Indices = np.flatnonzero(~leave)
            columns = [column.take(keep) for column in columns]
        return tuple(_without_needless_mask(column) for column in columns)

    def _may_be_spelled_otherwise(self, index: int, value: bytes | None) -> bool:
        """Return whether a message may name the field at ``index`` in another than its main spelling."""
        quoted = self._quoted[index]
        return value is None or quoted is None or quoted in value.lower() or _ESCAPE in value

    def _one_by_one(
        self, values: Sequence[bytes | None], indices: Indices
    ) -> tuple[list[Row], list[int], tuple[DecodeFault, ...]]:
        """Process single messages; return the rows, where they stood, and the faults of the others."""
        rows: list[Row] = []
        found: list[int] = []
        faults: list[DecodeFault] = []
        for index in indices.tolist():
            try:
                rows.append(self._row(values[index]))
                found.append(index)
            except Exception as error:  # noqa: BLE001 - no message may stop a pipeline
                rejection = rejection_of(error, Reason.DECODE)
                faults.append(DecodeFault(index, rejection.reason, rejection.message))
        return rows, found, tuple(faults)

    def _row(self, value: bytes | None) -> Row:
        """Decode one message by the rules of ``json_values``.

        Raises:
          RejectedRowError: DECODE, TYPE, MISSING_FIELD or TOMBSTONE.
        """
        if value is None:
            raise RejectedRowError(Reason.TOMBSTONE, "the message has no value")
        try:
            message = self._decode_any(value)
        except RecursionError:
            raise RejectedRowError(Reason.DECODE, "JSON is nested too deeply") from None
        except UnicodeDecodeError as error:
            raise RejectedRowError(Reason.DECODE, f"text is not UTF-8: {error.reason}") from error
        except msgspec.ValidationError as error:
            raise RejectedRowError(Reason.TYPE, f"a number is out of range: {error}") from error
        except ArithmeticError as error:
            raise RejectedRowError(Reason.TYPE, "a number is out of range") from error
        except msgspec.DecodeError as error:
            raise RejectedRowError(Reason.DECODE, str(error)) from error
        if not isinstance(message, dict):
            raise RejectedRowError(Reason.DECODE, "the message is not a JSON object")
        others = {self._folded.get(_fold(name)): field for name, field in message.items()}
        row: list[object] = []
        for index, field in enumerate(self._row_type):
            given = message.get(self._spellings[index], UNSET)
            if given is UNSET:
                given = others.get(index, UNSET)
            if given is UNSET or given is None:
                if not field.nullable:
                    said = "is absent" if given is UNSET else "is null"
                    raise RejectedRowError(Reason.MISSING_FIELD, f'field "{field.name}" {said}')
                row.append(None)
                continue
            try:
                row.append(self._converters[index](given))
            except RejectedRowError as error:
                raise RejectedRowError(error.reason, f'field "{field.name}": {error.message}') from error
        return tuple(row)


def _main_spelling(name: str) -> str:
    """Return the spelling that is looked for first: an unquoted name was folded to upper case by SQL."""
    return name.lower() if name == name.upper() else name


def _fold(name: str) -> str:
    """Fold ASCII letters only: what else has a case has it by language."""
    return name.lower() if name.isascii() else name.encode().lower().decode()


def _without_needless_mask(column: Column) -> Column:
    if column.valid is not None and column.valid.all():
        return Column(column.type, column.values)
    return column
