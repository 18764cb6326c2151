"""The pipeline of a scenario as SQL text, from a file, the scenario itself or a Python function."""

from __future__ import annotations

import importlib
import sys

from rowtide.errors import StatementError
from rowtide.expr.python.loading import look_in
from rowtide.testing.scenario import PythonPipeline, Scenario, SqlText


def pipeline_text(scenario: Scenario) -> SqlText:
    """Return the pipeline's SQL; for ``python: module:function`` the text that the function returns.

    The function is called without arguments. Its module and the modules of models can be in the folder
    of the scenario file.

    Raises:
      StatementError: if the function cannot be found or called, or does not return text.
    """
    folder = str(scenario.path.parent.resolve())
    if isinstance(scenario.pipeline, SqlText):
        look_in(folder)
        return scenario.pipeline
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return SqlText(_called(scenario.pipeline))


def _called(pipeline: PythonPipeline) -> str:
    name = f"{pipeline.module}:{pipeline.function}"
    try:
        function = getattr(importlib.import_module(pipeline.module), pipeline.function)
        text = function()
    except Exception as error:
        raise StatementError(f'pipeline "{name}" cannot be made: {error}') from error
    if not isinstance(text, str):
        raise StatementError(f'pipeline "{name}" is {type(text).__name__}, not SQL text')
    return text
