"""Parse options of connectors, from the text of SQL or of the configuration to typed values.

A connector declares its options (``api.Option``) and this module checks the user's options against
them. An undeclared name goes to the underlying client, if the connector reports that the client takes
it; otherwise it is rejected with the nearest declared name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rowtide_connectors.api import Option
from rowtide_connectors.errors import MissingOptionError, OptionError

Value = TypeVar("Value", str, int, float, bool)

HIDDEN = "***"
"""The text shown instead of a secret."""

_WORDS_OF_TRUTH = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}
_URL_USER, _URL_QUERY = re.compile(r"(?<=://)[^@\s]*(?=@)"), re.compile(r"(://[^?\s]*\?)\S+")
"""The parts of a URL that can contain a password, whatever the option."""
_SECRET_PARTS = ("password", "secret", "private.key", "key.pem", "token", "jaas", "sasl.oauthbearer.config")
"""Parts of the names of client options whose value must not be shown."""


@dataclass(frozen=True, slots=True)
class ConnectorOptions:
    """Options read against their declarations. ``client`` goes to the underlying client as is."""

    values: Mapping[str, object]
    client: Mapping[str, str]

    def optional(self, name: str, kind: type[Value]) -> Value | None:
        """Return the value of ``name``, else its default, else None."""
        value = self.values[name]
        if value is not None and not isinstance(value, kind):
            raise TypeError(f'option "{name}" is not declared as {kind.__name__}')
        return value

    def get(self, name: str, kind: type[Value]) -> Value:
        """Return the value of ``name``, which is required or has a default."""
        value = self.optional(name, kind)
        if value is None:
            raise TypeError(f'option "{name}" has no value')
        return value


def read_options(
    owner: str,
    declared: Sequence[Option],
    applies_to: str,
    given: Mapping[str, str],
    *,
    is_client_option: Callable[[str], bool] = lambda _: False,
) -> ConnectorOptions:
    """Read ``given`` against the options that are declared for ``applies_to``.

    Args:
      owner: the connector's name in messages, such as ``connector "kafka"``.
      declared: all options of the connector.
      applies_to: "server", "stream" or "table".
      given: names and values as the user wrote them; names are folded.
      is_client_option: returns whether the underlying client takes another name.

    Raises:
      OptionError: an option is unknown, missing, or its value is not of the declared kind.
    """
    wanted = {option.name: option for option in declared if option.applies_to == applies_to}
    values: dict[str, object] = {name: option.default for name, option in wanted.items()}
    client: dict[str, str] = {}
    for name, text in given.items():
        if name in wanted:
            values[name] = _typed(owner, wanted[name], text)
        elif is_client_option(name):
            client[name] = text
        else:
            raise _unknown(owner, name, applies_to, declared)
    for option in wanted.values():
        if option.required and values[option.name] is None:
            raise MissingOptionError(
                f'option "{option.name}" of {owner} is missing',
                hint=f"It is required for a {applies_to}: {option.meaning}.",
                option=option.name,
            )
    return ConnectorOptions(values, client)


def _typed(owner: str, option: Option, text: str) -> object:
    try:
        if option.kind is bool:
            return _WORDS_OF_TRUTH[text.strip().lower()]
        value = option.kind(text)
    except (ValueError, KeyError) as error:
        shown = f"'{HIDDEN}'" if option.secret else f"'{text}'"
        allowed = "true or false" if option.kind is bool else KIND_NAMES[option.kind]
        raise OptionError(
            f'option "{option.name}" of {owner} has the value {shown}',
            hint=f"It must be {allowed}.",
            option=option.name,
        ) from error
    if option.kind is str and not value and option.required:
        raise OptionError(
            f'option "{option.name}" of {owner} is empty',
            hint=f"It is {option.meaning}.",
            option=option.name,
        )
    return value


KIND_NAMES: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
"""Names of the kinds of options in messages and descriptions."""


def _unknown(owner: str, name: str, applies_to: str, declared: Sequence[Option]) -> OptionError:
    elsewhere = [option.applies_to for option in declared if option.name == name]
    if elsewhere:
        return OptionError(
            f'option "{name}" of {owner} does not belong to a {applies_to}',
            hint=f"It belongs to a {elsewhere[0]}.",
            option=name,
        )
    known = [option.name for option in declared if option.applies_to == applies_to]
    return OptionError(
        f'option "{name}" of {owner} does not exist', hint=suggestion(name, known), option=name
    )


def suggestion(name: str, known: Collection[str]) -> str:
    """Return the hint for a name that does not exist: the nearest one, else all there are."""
    near = difflib.get_close_matches(name.lower(), known, n=1)
    if near:
        return f'Did you mean "{near[0]}"?'
    return f"Available: {', '.join(sorted(known))}." if known else "None is available."


def is_secret(declared: Iterable[Option], name: str) -> bool:
    """Return whether the value of option ``name`` must not be shown."""
    for option in declared:
        if option.name == name:
            return option.secret
    return any(part in name.lower() for part in _SECRET_PARTS)


def redacted(declared: Sequence[Option], given: Mapping[str, str]) -> dict[str, str]:
    """Return options as they may be shown: secrets hidden, also those in the user and the query of a URL."""
    return {
        name: HIDDEN
        if is_secret(declared, name)
        else _URL_QUERY.sub(rf"\1{HIDDEN}", _URL_USER.sub(HIDDEN, text))
        for name, text in given.items()
    }
