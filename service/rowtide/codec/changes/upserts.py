"""Upserts: messages with the whole row of their key, and messages without a value, which delete it.

See docs/sql/tables.md#tables-that-a-topic-fills.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from rowtide.codec.changes.keys import KeyReader, key_type
from rowtide.codec.changes.rows import Gathered
from rowtide.codec.contract import Decoded, Decoder
from rowtide.codec.format_options import PATH, PRIMARY_KEY_FROM
from rowtide.codec.options import Declared
from rowtide.errors import Reason
from rowtide.rows.column import Column
from rowtide.rows.types import RowType


class UpsertDecoder:
    """Decodes messages with the whole current row of their key; a message without a value deletes the row.

    ``rows`` makes the decoder of the columns that are in values: all of them, or with ``primary_key_from`` those
    without the PRIMARY KEY, which is then read from the keys.

    Raises:
      FormatOptionError: an option of the key is wrong.
    """

    def __init__(
        self, declared: Declared, rows: Callable[[Declared], Decoder], key_format: str = "JSON"
    ) -> None:
        self._declared = declared
        self._keys = KeyReader(declared, key_format)
        self._is_key_apart = _is_key_apart(declared)
        self._rows = rows(_without_key(declared) if self._is_key_apart else declared)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages without keys; see ``codec.contract.Decoder``."""
        return self.decode_changes(values, [None] * len(values))

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.ChangeDecoder``."""
        gathered = Gathered(self._declared)
        there = [at for at, value in enumerate(values) if value is not None]
        gone = [at for at, value in enumerate(values) if value is None]
        decoded = self._rows.decode([values[at] for at in there])
        if self._is_key_apart:
            missing = Reason.MISSING_FIELD, "the message has no key, from which the PRIMARY KEY is read"
            decoded = self._whole(decoded, self._keys.decode([keys[at] for at in there], missing))
        gathered.inserts(decoded, there)
        self._keys.delete(gathered, gone, [keys[at] for at in gone])
        return gathered.decoded()

    def _whole(self, rows: Decoded, keys: Decoded) -> Decoded:
        """Return the rows whose values and keys were decoded, and for each other message one fault."""
        both = np.intersect1d(rows.accepted, keys.accepted, assume_unique=True)
        columns: dict[int, Column] = {}
        of_value = (at for at in range(len(self._declared.row_type)) if at not in self._declared.key)
        for places, part in ((of_value, rows), (self._declared.key, keys)):
            picked = np.searchsorted(part.accepted, both)
            columns |= {at: each.take(picked) for at, each in zip(places, part.columns, strict=True)}
        faults = {fault.index: fault for fault in (*rows.faults, *keys.faults)}
        in_order = tuple(faults[at] for at in sorted(faults))
        return Decoded(tuple(columns[at] for at in sorted(columns)), both, in_order)


def _is_key_apart(declared: Declared) -> bool:
    """Return whether the PRIMARY KEY is read from the keys of messages.

    Raises:
      FormatOptionError: the option is wrong, or a column of the key has a path, which is one in the value.
    """
    given = declared.options.get(PRIMARY_KEY_FROM, "value").lower()
    if given not in ("key", "value"):
        raise declared.error(PRIMARY_KEY_FROM, f'"{given}" is neither key nor value')
    if given == "value":
        return False
    for each in key_type(declared):
        if PATH in declared.of(each.name):
            raise declared.error(
                PATH,
                f"the column is read from the key: {PRIMARY_KEY_FROM} is key",
                column=each.name,
                hint="Remove it.",
            )
    return True


def _without_key(declared: Declared) -> Declared:
    """Return the declaration of the columns that are not of the PRIMARY KEY."""
    fields = tuple(each for at, each in enumerate(declared.row_type) if at not in declared.key)
    columns = {each.name: declared.of(each.name) for each in fields}
    return replace(declared, row_type=RowType(fields), columns=columns)
