"""Questions of other threads to the thread that owns the flow, which answers between two turns."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from typing import Any, TypeVar

from rowtide.errors import TransientError
from rowtide.runtime.state.pipeline_state import PipelineState

Given = TypeVar("Given")

WAITING_AT_MOST = 16
"""Maximum number of waiting questions. People ask them, and a turn of the loop answers one."""
PATIENCE_S = 10.0
"""Time limit of an answer: longer than a usual turn with a commit."""


class Questions:
    """Any thread asks, the owner of the flow answers."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[Callable[[PipelineState], Any], Future[Any]]] = queue.Queue(
            WAITING_AT_MOST
        )

    def ask(self, question: Callable[[PipelineState], Given], patience_s: float = PATIENCE_S) -> Given:
        """Return the answer. An exception of ``question`` is raised here.

        Raises:
          TransientError: the main loop did not finish a turn in time, or too many ask.
        """
        future: Future[Given] = Future()
        try:
            self._waiting.put_nowait((question, future))
            return future.result(patience_s)
        except (queue.Full, TimedOut) as error:
            future.cancel()
            raise TransientError(
                "the pipeline is busy and has not answered", hint="Try again in a few seconds."
            ) from error

    def answer(self, state: PipelineState) -> None:
        """Answer all waiting questions. Everything that has entered must have been drained."""
        while True:
            try:
                question, future = self._waiting.get_nowait()
            except queue.Empty:
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(question(state))
            except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
                future.set_exception(error)
