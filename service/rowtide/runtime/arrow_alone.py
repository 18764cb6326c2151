"""pyarrow without pandas: a start need not load what the service never uses.

At its first conversion of a Python value pyarrow imports pandas where that is installed, in a tenth of a
whole start, to tell its Series from other lists. Where it finds none it does not look again, and a later
``to_pandas`` still does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    """Finds no pandas, and leaves all else to others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas.

        Raises:
          ModuleNotFoundError: it is asked for.
        """
        if fullname == "pandas":
            raise ModuleNotFoundError("not while pyarrow looks for it", name=fullname)
        return None


def leave_pandas_out() -> None:
    """Let pyarrow find no pandas, unless it is loaded. To be called while there is one thread.

    Not for a process that runs the code of others, which may give pyarrow a Series.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    blind = _NoPandas()
    sys.meta_path.insert(0, blind)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(blind)
