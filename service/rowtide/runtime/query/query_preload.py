"""Loads what a query's process needs, when it is imported: by the parent of these processes, once for all.

That parent does nothing else, so that its copies are sound, and they share its memory.
"""

from __future__ import annotations

import gc
import signal
from importlib import import_module

import pyarrow as pa

from rowtide.flow.flow import Flow
from rowtide.operators.registry import BY_ROW, OF_CHANGES, OPERATORS, WITHOUT_KEY
from rowtide.runtime.query import query_work
from rowtide.sql.pipeline import SqlSession

__all__ = ["query_work"]

_TABLE = """
CREATE TABLE t (name VARCHAR(8), amount BIGINT, PRIMARY KEY (name));
INSERT INTO t VALUES ('one', 1), ('two', 2);
"""
_QUERY = (
    "SELECT a.name, COUNT(*) AS n, SUM(b.amount) AS s FROM t a JOIN t b ON a.name = b.name GROUP BY a.name"
)


def _load() -> None:
    """Load the operators, and the machine code of what many queries do."""
    for where in (*OPERATORS.values(), *BY_ROW.values(), OF_CHANGES, WITHOUT_KEY):
        import_module(f"rowtide.operators.{where.partition(':')[0]}")
    session = SqlSession()
    session.feed(_TABLE)
    for tray in Flow({"q": session.query(_QUERY)}, {}).drain().outputs["q"]:
        list(tray.rows())


# The service ends this process; Ctrl-C in a terminal reaches both.
signal.signal(signal.SIGINT, signal.SIG_IGN)
query_work.yield_processor()
# Count memory when it is allocated; other allocators of Arrow reserve in advance.
pa.set_memory_pool(pa.system_memory_pool())
_load()
# The garbage collector of each process skips existing objects, so their memory stays shared.
gc.freeze()
