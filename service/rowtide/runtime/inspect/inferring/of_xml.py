"""Statements that declare a topic, proposed from XML messages that are in it.

Elements that have only text, and attributes, are columns. An element that is repeated makes the element around it a
column of XML text, because a column is one value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from xml.etree.ElementTree import Element

from rowtide.codec.xml.parsing import parsed, split
from rowtide.errors import RejectedRowError
from rowtide.runtime.inspect.inferring.proposal import (
    DEEPEST,
    Guess,
    guess_of_integers,
    head_of_sample,
    proposal_of_guesses,
    type_of_texts,
)
from rowtide.runtime.inspect.sampling import Sample, folded

_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
_BOOLEANS = {"true", "false"}
_MOST_DIGITS = 15
"""Decimal digits that a DOUBLE holds."""
_MOST_WHOLE_DIGITS = 28
"""Digits before the point that a DECIMAL(38, 10) holds."""

Steps = tuple[str, ...]


def proposal_of_xml(sample: Sample, server: str, options: Mapping[str, str]) -> str | None:
    """Return CREATE FOREIGN STREAM for a topic of XML messages; None if no message of the sample is XML.

    ``options`` are those of the stream.
    """
    roots = list(_roots(sample.values))
    guesses = _guesses(roots)
    if not any(each.type is not None for each in guesses):
        return None
    head = head_of_sample(sample, options, _why_not)
    return proposal_of_guesses(head, guesses, sample.topic, server, {**options, "format": "XML"})


def _roots(values: Sequence[bytes]) -> Iterator[Element]:
    for value in values:
        if _why_not(value) is None:
            yield parsed(value)


def _why_not(value: bytes) -> str | None:
    """Return why a message is not XML; None: it is."""
    if b"<" not in value[:100]:
        return "the message is not XML"
    try:
        parsed(value)
    except RejectedRowError as error:
        return error.message
    return None


class _Seen:
    """The places of messages, in the order in which they first occur."""

    def __init__(self) -> None:
        self.texts: dict[Steps, list[str]] = {}
        self.containers: set[Steps] = set()
        """Elements with elements in them."""
        self.whole: dict[Steps, None] = {}
        """Those that are columns: one inside is repeated or too deep."""
        self.repeated: dict[Steps, None] = {}
        """Elements that the root has several times."""

    def look(self, element: Element, steps: Steps) -> None:
        """Note the places and texts of an element and of what is inside."""
        for key, text in element.attrib.items():
            if not key.startswith("{"):
                self.texts.setdefault((*steps, f"@{key}"), []).append(text)
        if not len(element):
            if steps:
                self.texts.setdefault(steps, []).append(element.text or "")
            return
        self.containers.add(steps)
        names = [split(inner.tag)[1] for inner in element]
        counts = Counter(names)
        if steps and (len(counts) < len(names) or len(steps) == DEEPEST):
            self.whole.setdefault(steps)
            return
        for name, inner in zip(names, element, strict=True):
            if counts[name] == 1:
                self.look(inner, (*steps, name))
            else:
                # The element around it is the root, which is not a column.
                self.repeated.setdefault((name,))

    def hidden(self, steps: Steps) -> bool:
        """Return whether a place is part of a column of XML text, or of an element that is repeated."""
        around = [steps[:count] for count in range(1, len(steps))]
        return any(each in self.whole or each in self.repeated for each in around)


def _guesses(roots: Sequence[Element]) -> list[Guess]:
    seen = _Seen()
    for root in roots:
        seen.look(root, ())
    found = []
    for steps in dict.fromkeys([*seen.texts, *seen.whole, *seen.repeated]):
        if seen.hidden(steps):
            continue
        if steps in seen.repeated:
            note = f"in some messages more than once; the path {steps[0]}[1] takes the first one"
            found.append(Guess(steps[0], steps, None, note=note))
        elif steps in seen.whole:
            found.append(Guess("", steps, "VARCHAR", note="elements, as XML text"))
        elif steps not in seen.containers:
            found.append(_guess(steps, seen.texts[steps], len(roots)))
    return list(_named(found, seen))


def _named(guesses: Sequence[Guess], seen: _Seen) -> Iterator[Guess]:
    """Yield the guesses with names of their own, and with paths unless the name is that of one place only."""
    top = Counter(
        folded(steps[0].removeprefix("@"))
        for steps in {*seen.texts, *seen.containers, *seen.repeated}
        if len(steps) == 1
    )
    taken: set[str] = set()
    for each in guesses:
        written = "_".join(str(step).removeprefix("@") for step in each.steps)
        plain = name = re.sub(r"\W", "_", written)
        by_name = len(each.steps) == 1 and plain == written and top[folded(plain)] == 1
        number = 2
        while not by_name and (folded(name) in taken or top[folded(name)]):
            name, number = f"{plain}_{number}", number + 1
        taken.add(folded(name))
        yield replace(each, name=name, path=None if by_name else "/".join(map(str, each.steps)))


def _guess(steps: Steps, texts: Sequence[str], messages: int) -> Guess:
    given = [text.strip() for text in texts]
    there = [text for text in given if text]
    return _typed("", steps, there, len(there) == messages)


def _typed(name: str, steps: Steps, given: Sequence[str], always: bool) -> Guess:
    if not given:
        return Guess(name, steps, None, note="empty in all messages")
    if _BOOLEANS.issuperset(given):
        return Guess(name, steps, "BOOLEAN", always)
    if all(_INTEGER.fullmatch(text) and not _is_padded(text) for text in given):
        found = guess_of_integers(name, steps, [int(text) for text in given], always)
        # Text of a TIMESTAMP without a unit is ISO 8601.
        return replace(found, unit="ms") if found.type == "TIMESTAMP" and found.unit is None else found
    if all(_NUMBER.fullmatch(text) and not _is_padded(text) for text in given):
        numbers = [Decimal(text) for text in given]
        if all(len(each.as_tuple().digits) <= _MOST_DIGITS for each in numbers):
            return Guess(name, steps, "DOUBLE", always)
        if all(each.adjusted() < _MOST_WHOLE_DIGITS for each in numbers):
            return Guess(name, steps, "DECIMAL(38, 10)", always)
    return Guess(name, steps, type_of_texts(given), always)


def _is_padded(text: str) -> bool:
    """Return whether a number begins with zeros, as codes do."""
    return len(text) > 1 and text[0] == "0" and text[1].isdigit()
