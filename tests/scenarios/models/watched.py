"""A graph of nodes as a model: a diamond, a timer that every row moves, and a loop with a delay."""

from __future__ import annotations

from typing import Any

from rowtide.engine import ModelSetup, RowType
from rowtide.engine.graph import At, Graph, run_in_model

READING = RowType(sensor="string", value="int64")
LIMIT = RowType(least="int64")
TOLD = RowType(what="string", sensor="string", value="int64")


class Limited:
    """Passes on what is below the limit, and each row again, halved, when it has been round the loop."""

    def __init__(self) -> None:
        self._least = 0

    def row(self, port: str, row: Any, at: At) -> None:
        if port == "limits":
            (self._least,) = row  # a limit
            return
        sensor, value = row  # a reading
        if value < self._least:
            at.send(("low" if port == "readings" else "again", sensor, value))
            if value > 1:
                at.send((sensor, value // 2), to="back")

    def event(self, payload: object, at: At) -> None:
        raise AssertionError(payload, at)

    def snapshot(self) -> object:
        return self._least

    def restore(self, state: Any) -> None:
        self._least = state  # as given by snapshot


class Silence:
    """Tells of a sensor that has brought nothing for ten seconds."""

    def __init__(self) -> None:
        self._timers: dict[str, int] = {}

    def row(self, port: str, row: Any, at: At) -> None:
        sensor, _ = row  # a reading
        if sensor in self._timers:
            at.reschedule(self._timers[sensor], at.rowtime + 10_000)
        else:
            self._timers[sensor] = at.schedule(at.rowtime + 10_000, sensor)

    def event(self, payload: Any, at: At) -> None:
        del self._timers[payload]  # a sensor
        at.send(("silent", payload, None))

    def snapshot(self) -> object:
        return dict(self._timers)

    def restore(self, state: Any) -> None:
        self._timers = dict(state)  # as given by snapshot


class Both:
    """Everything that there is to tell, what is low first."""

    def row(self, port: str, row: object, at: At) -> None:
        at.send(row)

    def event(self, payload: object, at: At) -> None:
        raise AssertionError(payload, at)


class Watched:
    """The model."""

    def __init__(self, setup: ModelSetup, delay_ms: int = 3000) -> None:
        graph = Graph()
        graph.source("readings")
        graph.source("limits")
        graph.node("limited", Limited, ["limits", "readings"])
        graph.node("silence", Silence, ["readings"])
        graph.node("told", Both, ["limited", "silence"])
        graph.loop("back", of="limited", to="limited", delay_ms=delay_ms)
        run_in_model(setup, graph, {"readings": READING, "limits": LIMIT}, {"told": TOLD})
