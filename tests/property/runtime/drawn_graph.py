"""A model that is whatever graph a test has drawn: a module of its own, so that a pipeline can name it."""

from __future__ import annotations

from property.engine.graph_model import Shape
from rowtide.engine import ModelSetup, RowType
from rowtide.engine.graph import run_in_model

PAIR = RowType(energy="int64", mark="int64")
DRAWN: list[Shape] = []
"""Where ``Drawn`` finds the graph of the example under way."""


class Drawn:
    """The model: every node of the graph is an output."""

    def __init__(self, setup: ModelSetup) -> None:
        graph = DRAWN[-1].graph
        outputs = dict.fromkeys(DRAWN[-1].outputs, PAIR)
        run_in_model(setup, graph, dict.fromkeys(graph.sources, PAIR), outputs)
