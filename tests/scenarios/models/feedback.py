"""Loops in a pipeline: one that comes back at once, one with a delay, and a scheduler that a loop drives."""

from __future__ import annotations

from typing import Any

from rowtide.engine import ModelSetup, RowType
from rowtide.engine.graph import At, Graph, Use, run_in_model

ORDER = RowType(item="string", n="int64")
TOLD = RowType(what="string", item="string", n="int64")
PARTS = {"bike": "wheel", "wheel": "spoke"}


class Stock:
    """Takes orders and what they need, and tells of both; ``checks`` come when the clock says."""

    def __init__(self) -> None:
        self._ordered = 0

    def row(self, port: str, row: Any, at: At) -> None:
        item, n = row  # an order
        self._ordered += n
        at.send((port, item, n))

    def event(self, payload: object, at: At) -> None:
        at.send(("check", payload, self._ordered))

    def snapshot(self) -> object:
        return self._ordered

    def restore(self, state: Any) -> None:
        self._ordered = state  # as given by snapshot


class Needs:
    """Sends back two parts for each item that has some, asks for a check, and for more of what came back."""

    def row(self, port: str, row: Any, at: At) -> None:
        what, item, n = row  # what stock tells
        if what == "check":
            return
        if item in PARTS:
            at.send((PARTS[item], 2 * n), to="parts")
        if what == "orders":
            at.send((item, 1), to="spare")
            at.schedule(at.rowtime + 10, item, on="clock")

    def event(self, payload: object, at: At) -> None:
        raise AssertionError(payload, at)


class Feedback:
    """The model; ``use`` is that of the loop that brings the parts."""

    def __init__(self, setup: ModelSetup, use: str) -> None:
        graph = Graph()
        graph.source("orders")
        graph.node("stock", Stock, ["orders"])
        graph.node("needs", Needs, ["stock"])
        graph.loop("parts", of="needs", to="stock", delay_ms=60_000, use=Use(use))
        graph.loop("spare", of="needs", to="stock", delay_ms=5_000)
        graph.scheduler("clock", driven_by="needs", to="stock", delay_ms=2_000)
        run_in_model(setup, graph, {"orders": ORDER}, {"stock": TOLD})
