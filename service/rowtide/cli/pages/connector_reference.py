"""docs/reference/connectors.md, generated from the declarations of the options.

``python -m rowtide.cli.pages.connector_reference > docs/reference/connectors.md``
"""

from __future__ import annotations

import sys

from rowtide.cli.author.connectors import guarantees, options_of
from rowtide_connectors.options import KIND_NAMES
from rowtide_connectors.registry import find_connector

CONNECTORS = ("files", "kafka", "rdbms", "http", "memory")
"""The connectors that come with Rowtide."""

HEAD = """\
# Connectors

What each connector offers, and the options of servers, foreign streams and foreign tables, as
`rowtide connectors describe NAME` shows them. `python -m rowtide.cli.pages.connector_reference` writes this page, and a
test checks that it is current. Set options in SQL (`OPTIONS (..)`) or in the [configuration](configuration.md), which
takes precedence.

A connector with a source serves foreign streams, one with a sink foreign tables, one with a message sink foreign
streams that pumps write to ("written stream" below). `rowtide check` refuses a stream or table of a connector that
does not offer it.
"""


def connectors_page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for name in CONNECTORS:
        connector = find_connector(name)
        parts.append(
            f"\n## {connector.name}\n\n{connector.description[0].upper()}{connector.description[1:]}.\n"
        )
        parts += [f"\n* {name}: {guarantee}" for name, guarantee in guarantees(connector).items()]
        parts.append("\n\n| option | of a | type | default | meaning |\n|---|---|---|---|---|\n")
        for option in options_of(connector):
            default = (
                "required" if option.required else "" if option.default is None else f"`{option.default}`"
            )
            notes = "; secret" * option.secret + "; may be changed at each start" * option.changeable
            parts.append(
                f"| `{option.name}` | {option.applies_to} | {KIND_NAMES[option.kind]} | {default} | "
                f"{option.meaning.replace('|', chr(92) + '|')}{notes} |\n"
            )
        if connector.client_options is not None:
            parts.append(f"\nFurther options of a server: {connector.client_options}.\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(connectors_page())
