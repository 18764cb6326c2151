"""Graphs of nodes in consistent time: diamonds, schedulers, looping links, resets; see docs/graphs.md."""

from rowtide.engine.graph.decisions import Decisions, Divergence, Restamped, WasReset
from rowtide.engine.graph.graph import Graph, Use
from rowtide.engine.graph.in_model import run_in_model
from rowtide.engine.graph.node import At, Processor, Timer
from rowtide.engine.graph.run import GraphRun
from rowtide.engine.graph.stamp import Given, Stamp

__all__ = [
    "At",
    "Decisions",
    "Divergence",
    "Given",
    "Graph",
    "GraphRun",
    "Processor",
    "Restamped",
    "Stamp",
    "Timer",
    "Use",
    "WasReset",
    "run_in_model",
]
