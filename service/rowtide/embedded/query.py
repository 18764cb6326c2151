"""``rowtide.sql``: one query over a pipeline, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowtide.clock import SystemClock
from rowtide.config.reading import load_settings
from rowtide.embedded.engine import EmbeddedEngine
from rowtide.embedded.result import Result
from rowtide.errors import RowtideError, StatementError
from rowtide.runtime.recovery.begin import parse_begin


def sql(
    pipeline: str | Path, query: str, *, config: str | Path | None = None, begin: str = "earliest"
) -> Result:
    """Run a query over the definitions and INSERT statements of a pipeline, and the messages of its topics.

    It reads each topic up to the end that it has now, and foreign tables from their database. Nothing is committed, and
    pumps into foreign tables do not run.

    Args:
      pipeline: a file (a path, or text that ends with ``.sql``), or the statements themselves.
      query: a SELECT, SHOW or DESCRIBE.
      config: the settings, as ``rowtide sql --config``.
      begin: where to start reading topics: ``earliest``, or a time.

    Raises:
      StatementError: a statement or the query is refused; its ``render()`` shows the place.
    """
    with rendered():
        text, file = pipeline_text(pipeline)
        settings = load_settings(None if config is None else Path(config))
        name = settings.pipeline.name or (None if file is None else Path(file).stem)
        engine = EmbeddedEngine(settings, parse_begin(begin), SystemClock(), until_end=True, name=name)
        engine.load(text, file)
        answer = engine.answer(query)
        return Result(
            answer.tray,
            timed=answer.timed,
            changes=answer.changes,
            bound=answer.bound,
            notes=answer.notes,
        )


def pipeline_text(pipeline: str | Path) -> tuple[str, str | None]:
    """Return the statements of a pipeline, and its file; None if ``pipeline`` is the statements.

    Raises:
      StatementError: the file cannot be read.
    """
    if isinstance(pipeline, str) and ("\n" in pipeline or not pipeline.endswith(".sql")):
        return pipeline, None
    try:
        return Path(pipeline).read_text(encoding="utf-8-sig"), str(pipeline)
    except OSError as error:
        raise StatementError(f'file "{pipeline}" cannot be read: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise StatementError(f'file "{pipeline}" is not UTF-8 text') from error


@contextmanager
def rendered() -> Iterator[None]:
    """Add the place and the hint of an error to its traceback."""
    try:
        yield
    except StatementError as error:
        error.add_note(error.render())
        raise
    except RowtideError as error:
        if error.hint is not None:
            error.add_note(f"hint: {error.hint}")
        raise
