"""The Schema Registry that a stream names, for every format that has one."""

from __future__ import annotations

from rowtide.codec.format_options import REGISTRY_URL
from rowtide.codec.options import Declared
from rowtide_connectors.errors import ConnectorError
from rowtide_connectors.schema_registry import SchemaRegistry


def registry_of(declared: Declared) -> SchemaRegistry | None:
    """Return the registry that a stream names, or None.

    Raises:
      FormatOptionError: its address is not one.
    """
    options = declared.options
    urls = [each.strip() for each in options.get(REGISTRY_URL, "").split(",") if each.strip()]
    if not urls:
        return None
    try:
        return SchemaRegistry(
            urls,
            options.get("registry_user"),
            options.get("registry_password"),
            options.get("registry_ca"),
            options.get("registry_certificate"),
            options.get("registry_key"),
        )
    except ConnectorError as error:
        raise declared.error(REGISTRY_URL, error.message, hint=error.hint) from error
