"""The address of a database, from the options of a server."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import exc

from rowtide_connectors.errors import OptionError


def address_of(url: str, username: str | None, password: str | None) -> sa.URL:
    """Return ``url`` with the user name and the password, which take precedence over those in it.

    Raises:
      OptionError: the URL is invalid.
    """
    try:
        address = sa.make_url(url)
    except exc.ArgumentError as error:
        raise OptionError(
            'option "url" is not a database address', hint="Such as postgresql://user@host/name."
        ) from error
    if username is not None:
        address = address.set(username=username)
    if password is not None:
        address = address.set(password=password)
    return address
