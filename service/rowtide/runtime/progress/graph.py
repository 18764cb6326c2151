"""The graph of a running plan: its relations with their operators, and which relation reads which."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property

Edge = tuple[str, str]
"""A relation, and one that reads it."""


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """One step. ``keeps``: its state, and what bounds it; ``partition`` None: it reads merged rows."""

    step: int
    operator: str
    detail: str
    keeps: str | None
    partition: int | None


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A relation or pump with its operators.

    ``first`` are the steps whose input are its rows in, ``last`` those whose output are its rows. Without ``first``
    its rows are those of another relation. Without ``last`` it is not computed: nothing that runs reads it.
    """

    id: str
    relation: str
    kind: str
    first: tuple[int, ...]
    last: tuple[int, ...]
    operators: tuple[GraphOperator, ...]


@dataclass(frozen=True)
class PlanGraph:
    """All relations and pumps of a plan, in the order of their creation, and how they read one another."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]

    @cached_property
    def digest(self) -> str:
        """A digest of everything in it."""
        content = [[asdict(node) for node in self.nodes], self.edges]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    @cached_property
    def relation_of(self) -> dict[int, str]:
        """The relation of each step that is an operator."""
        return {each.step: node.id for node in self.nodes for each in node.operators}

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """The readers of each relation."""
        found: dict[str, list[str]] = {}
        for read, reader in self.edges:
            found.setdefault(read, []).append(reader)
        return found

    def along(self, relations: Iterable[str]) -> tuple[str, ...]:
        """Return a path of edges through ``relations``: those without an operator are between them."""
        path: list[str] = []
        for each in relations:
            if path and each != path[-1]:
                path += self._between(path[-1], each)
            if not path or each != path[-1]:
                path.append(each)
        return tuple(path)

    def _between(self, begin: str, end: str) -> list[str]:
        """Return the relations on the shortest path between two, without these; none if there is no path."""
        before: dict[str, str] = {begin: begin}
        pending = deque([begin])
        while pending and end not in before:
            at = pending.popleft()
            for reader in self.readers.get(at, ()):
                if reader not in before:
                    before[reader] = at
                    pending.append(reader)
        path: list[str] = []
        at = before.get(end, begin)
        while at != begin:
            path.append(at)
            at = before[at]
        return path[::-1]
