"""The pipeline of a scenario as SQL text, wherever the scenario has it from."""

from __future__ import annotations

import importlib
import sys

from rowtide.errors import StatementError
from rowtide.testing.scenario import PythonPipeline, Scenario, SqlText


def pipeline_text(scenario: Scenario) -> SqlText:
    """Give the pipeline's SQL; of ``python: module:function`` what the function returns.

    The function is called without arguments; its module may stand beside the scenario file.

    Raises:
      StatementError: if the function cannot be found or called, or gives no text.
    """
    if isinstance(scenario.pipeline, SqlText):
        return scenario.pipeline
    return SqlText(_called(scenario.pipeline, str(scenario.path.parent.resolve())))


def _called(pipeline: PythonPipeline, folder: str) -> str:
    name = f"{pipeline.module}:{pipeline.function}"
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(pipeline.module), pipeline.function)
        text = function()
    except Exception as error:
        raise StatementError(f'pipeline "{name}" cannot be made: {error}') from error
    if not isinstance(text, str):
        raise StatementError(f'pipeline "{name}" is {type(text).__name__}, not SQL text')
    return text
