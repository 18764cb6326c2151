"""Rowtide: streaming SQL from Kafka into a relational database, exactly once, live and on Spark.

Programs use ``rowtide.sql``, ``rowtide.Pipeline`` and ``rowtide.connect`` (docs/howto/python.md), which are loaded on
first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import rowtide.sql as _sql

if TYPE_CHECKING:
    from rowtide.client.cursor import connect
    from rowtide.embedded.pipeline import EmbeddedPipeline as Pipeline
    from rowtide.embedded.query import sql
    from rowtide.embedded.result import Result

__all__ = ["Pipeline", "Result", "connect", "sql"]

_HOMES = {
    "Pipeline": ("rowtide.embedded.pipeline", "EmbeddedPipeline"),
    "Result": ("rowtide.embedded.result", "Result"),
    "connect": ("rowtide.client.cursor", "connect"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module "rowtide" has no attribute "{name}"')
    module, inside = _HOMES[name]
    return getattr(import_module(module), inside)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Callable(ModuleType):
    """The package ``rowtide.sql``, which has the name of the function: a call is one of the function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("rowtide.embedded.query").sql(*arguments, **options)


_sql.__class__ = _Callable
