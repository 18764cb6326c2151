"""What makes a start of the process shorter. It changes when Python works, never what it does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

START_OBJECTS = 200_000
"""What a start makes, about; all of it stays. Python would look for garbage among it hundreds of times.
Those searches took a fifth of the processor time of `rowtide check` (1.0 s with them, 0.8 s without)."""

_USUAL = gc.get_threshold()


def search_garbage_after_start() -> None:
    """Let Python leave what a start makes out of all searches for garbage, and search the rest as usual."""
    gc.set_threshold(START_OBJECTS, *_USUAL[1:])
    gc.callbacks.append(_around_first_search)


def _around_first_search(phase: str, _: Mapping[str, int]) -> None:
    """Freeze what there is when the first search begins, so that it finds nothing to look at.

    That search would free about 1,000 objects, and take 70 to 90 ms before the first commit.
    """
    if phase == "start":
        gc.freeze()
        gc.set_threshold(*_USUAL)
    else:
        gc.callbacks.remove(_around_first_search)


def leave_pandas_out() -> None:
    """Let pyarrow find no pandas, unless it is loaded. To be called while there is one thread.

    At its first conversion of a Python value pyarrow imports pandas where that is installed (with the extra
    for Spark), to tell its Series from other lists. Where it finds none it does not look again, and a later
    ``to_pandas`` still does. The import took 0.4 s of processor time.

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
