"""Percentiles of the values in the frames of an OVER, following the steps of ``kernels.frames``.

A partition's values are a treap: in order from left to right, equal ones in order of arrival, and
every node below one of a higher rank, which its number determines. Nodes count the nodes below them.
Node 0 means no node; its first child is the root of the current partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.kernels.frames import ENTER, WRITE
from rowtide.operators.storage.kernels.lean import lean, lean_part
from rowtide.rows.arrays import Int32s, Int64s, Mask

Values = NDArray[Any]

Whole = int | np.int64

RANK = 0x9E3779B1
"""Numbers of nodes times this, modulo 2**32, are in no order."""
WORD = 0xFFFFFFFF
STORED, FREE = range(2)
"""How many nodes were ever taken, node 0 among them, and how many of them are free."""
CONTINUOUS, NUMERATOR, DENOMINATOR = range(3)
"""A percentile: whether it may be between two values, and the fraction."""


@lean
def percentiles(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Values,
    use: Mask,
    fraction: Int64s,
    roots: Int64s,
    held: Values,
    kids: Int32s,
    sizes: Int32s,
    free: Int32s,
    nodes: Int64s,
    low: Values,
    high: Values,
    part: Int64s,
    known: Mask,
) -> None:
    """Find the values at a fraction of the way through each row's frame.

    One that may be between two is ``part`` / DENOMINATOR of the way from ``low`` to ``high``.
    """
    numerator, denominator = fraction[NUMERATOR], fraction[DENOMINATOR]
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        kids[0, 0] = roots[group]
        while at < until[row]:
            kind = steps[at] & 3
            if use[at] and kind != WRITE:
                if kind & ENTER:
                    _enter(values[at], held, kids, sizes, free, nodes)
                else:
                    _leave(values[at], held, kids, sizes, free, nodes)
            at += 1
        root = np.int64(kids[0, 0])
        roots[group] = root
        count = np.int64(sizes[root])
        known[row] = count > 0
        part[row] = 0
        if count == 0:
            continue
        if fraction[CONTINUOUS]:
            place = numerator * (count - 1) // denominator
            part[row] = numerator * (count - 1) - place * denominator
        else:
            place = max(np.int64(0), (numerator * count + denominator - 1) // denominator - 1)
        low[row] = held[_nth(root, place, kids, sizes)]
        if part[row]:
            high[row] = held[_nth(root, place + 1, kids, sizes)]


@lean_part
def _enter(value: Any, held: Values, kids: Int32s, sizes: Int32s, free: Int32s, nodes: Int64s) -> None:
    """Put a value into the tree, after those that are equal."""
    if nodes[FREE]:
        nodes[FREE] -= 1
        fresh = np.int64(free[nodes[FREE]])
    else:
        fresh = nodes[STORED]
        nodes[STORED] += 1
    rank = (fresh * RANK) & WORD
    parent, side = np.int64(0), np.int64(0)
    node = np.int64(kids[0, 0])
    while node and (node * RANK) & WORD >= rank:
        sizes[node] += 1
        parent, side = node, np.int64(not value < held[node])
        node = np.int64(kids[parent, side])
    kids[parent, side] = fresh
    held[fresh] = value
    sizes[fresh] = sizes[node] + 1
    # Nodes up to the value go to the left, the rest to the right.
    lefts = np.int64(0)
    below = node
    while below:
        if value < held[below]:
            below = np.int64(kids[below, 0])
        else:
            lefts += sizes[kids[below, 0]] + 1
            below = np.int64(kids[below, 1])
    rights = sizes[node] - lefts
    left, left_side, right, right_side = fresh, 0, fresh, 1
    while node:
        if value < held[node]:
            kids[right, right_side] = node
            sizes[node] = rights
            rights -= sizes[kids[node, 1]] + 1
            right, right_side = node, 0
            node = np.int64(kids[node, 0])
        else:
            kids[left, left_side] = node
            sizes[node] = lefts
            lefts -= sizes[kids[node, 0]] + 1
            left, left_side = node, 1
            node = np.int64(kids[node, 1])
    kids[left, left_side] = 0
    kids[right, right_side] = 0


@lean_part
def _leave(value: Any, held: Values, kids: Int32s, sizes: Int32s, free: Int32s, nodes: Int64s) -> None:
    """Take a value out of the tree, of equal ones the first."""
    place = np.int64(0)
    node = np.int64(kids[0, 0])
    while node:
        if held[node] < value:
            place += sizes[kids[node, 0]] + 1
            node = np.int64(kids[node, 1])
        else:
            node = np.int64(kids[node, 0])
    parent, side = np.int64(0), np.int64(0)
    node = np.int64(kids[0, 0])
    while place != sizes[kids[node, 0]]:
        sizes[node] -= 1
        parent, side = node, np.int64(place > sizes[kids[node, 0]])
        if side:
            place -= sizes[kids[node, 0]] + 1
        node = np.int64(kids[node, side])
    free[nodes[FREE]] = node
    nodes[FREE] += 1
    left, right = np.int64(kids[node, 0]), np.int64(kids[node, 1])
    while left and right:
        count = sizes[left] + sizes[right]
        if (left * RANK) & WORD >= (right * RANK) & WORD:
            kids[parent, side] = left
            parent, side = left, np.int64(1)
            left = np.int64(kids[left, 1])
        else:
            kids[parent, side] = right
            parent, side = right, np.int64(0)
            right = np.int64(kids[right, 0])
        sizes[parent] = count
    kids[parent, side] = left if left else right


@lean_part
def _nth(root: Whole, place: Whole, kids: Int32s, sizes: Int32s) -> np.int64:
    """Return the node at a place of a tree, from 0 on."""
    node, wanted = np.int64(root), np.int64(place)
    while wanted != sizes[kids[node, 0]]:
        if wanted < sizes[kids[node, 0]]:
            node = np.int64(kids[node, 0])
        else:
            wanted -= sizes[kids[node, 0]] + 1
            node = np.int64(kids[node, 1])
    return node


@lean
def list_values(roots: Int64s, held: Values, kids: Int32s, sizes: Int32s, found: Values) -> None:
    """List the values of trees, in order."""
    count = 0
    for tree in range(len(roots)):
        for place in range(sizes[roots[tree]]):
            found[count] = held[_nth(roots[tree], place, kids, sizes)]
            count += 1


@lean
def free_trees(roots: Int64s, kids: Int32s, free: Int32s, nodes: Int64s) -> None:
    """Let all nodes of trees go."""
    for tree in range(len(roots)):
        node = roots[tree]
        while node:
            left = np.int64(kids[node, 0])
            if left:
                kids[node, 0] = kids[left, 1]
                kids[left, 1] = node
                node = left
            else:
                free[nodes[FREE]] = node
                nodes[FREE] += 1
                node = np.int64(kids[node, 1])
