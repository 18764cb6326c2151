"""Statements that declare a topic, proposed from BSON messages that are in it.

Values are looked at as those of JSON are, with the types that only BSON has put in afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from bson import Decimal128
from msgspec import UNSET

from rowtide.codec.bson.decoder import document_of
from rowtide.codec.bson.values import plain
from rowtide.codec.json.readings import value_at
from rowtide.codec.json.values import NotOfTypeError
from rowtide.errors import RejectedRowError
from rowtide.runtime.inspect.inferring.proposal import Guess, guesses_of, head_of_sample, proposal_of_guesses
from rowtide.runtime.inspect.sampling import Sample

_LEAST = 5
"""The bytes of an empty document."""
Document = Mapping[str, object]


def proposal_of_bson(sample: Sample, server: str, options: Mapping[str, str]) -> str | None:
    """Return CREATE FOREIGN STREAM for a topic of BSON messages; None if no message of the sample is BSON.

    ``options`` are those of the stream.
    """
    documents = list(_documents(sample.values))
    guesses = [_with_own_type(each, documents) for each in guesses_of([_as_json(each) for each in documents])]
    if not any(each.type is not None for each in guesses):
        return None
    head = head_of_sample(sample, options, _why_not)
    return proposal_of_guesses(head, guesses, sample.topic, server, {**options, "format": "BSON"})


def _documents(values: Sequence[bytes]) -> Iterator[Document]:
    for value in values:
        if _why_not(value) is None:
            yield document_of(value)


def _why_not(value: bytes) -> str | None:
    """Return why a message is not BSON; None: it is."""
    if len(value) < _LEAST or int.from_bytes(value[:4], "little") != len(value):
        return "the message is not BSON: its length is another one"
    try:
        document_of(value)
    except RejectedRowError as error:
        return error.message
    return None


def _as_json(document: Document) -> Document:
    """Return a document as one of JSON; a value that JSON lacks is null, as if it were not known."""
    return {name: _value(each) for name, each in document.items()}


def _value(value: object) -> object:
    if isinstance(value, dict):
        return _as_json(value)
    try:
        made = plain(value)
    except NotOfTypeError:
        return None
    return Decimal(repr(made)) if isinstance(made, float) else made


def _with_own_type(guess: Guess, documents: Sequence[Document]) -> Guess:
    found = [value_at(each, guess.steps) for each in documents]
    kinds = {type(value) for value in found if value is not None and value is not UNSET}
    if bytes in kinds or any(issubclass(each, bytes) for each in kinds):
        if all(issubclass(each, bytes) for each in kinds):
            return replace(guess, type="VARBINARY", note=None)
        return replace(guess, type=None, note="bytes and values of other types")
    if Decimal128 in kinds and guess.type in ("DOUBLE", "BIGINT"):
        return replace(guess, type="DECIMAL(38, 10)", note=None)
    return guess
