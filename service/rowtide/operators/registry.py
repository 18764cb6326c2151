"""Which operator a plan node has: compiled, or as its row-at-a-time reference.

An operator is registered by one line in ``OPERATORS``; the contract suite
(tests/contract/operators) then runs it, and fails if it has no cases for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rowtide.operators.contract import Operator, State


@dataclass(frozen=True, slots=True)
class Registration:
    """How to make a node's operator, its reference, and one snapshot out of those of its parts.

    ``compiled`` and ``reference`` take the node and its origin: the number by which the operator
    signs rows that it makes itself.
    """

    compiled: Callable[[Any, int], Operator]
    reference: Callable[[Any, int], Operator]
    merge: Callable[[Sequence[State]], State]


OPERATORS: dict[type, Registration] = {}
