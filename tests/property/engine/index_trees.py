"""Random index trees and rows, and the plainest model of a table: a list of rows in order of insertion."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rowtide.engine import Descending, Fifo, Hashed, IndexType, Ordered, Row, RowType, Sorted

FIELDS = ("a", "b", "c")
ROW_TYPE = RowType(a="int32", b="int32", c="string")


def by_text_backwards(left: Row, right: Row) -> int:
    first, second = left.c or "", right.c or ""
    return (first < second) - (first > second)


keys = st.lists(st.sampled_from(FIELDS), min_size=1, max_size=2, unique=True)
fifos = st.builds(Fifo, st.sampled_from([0, 0, 1, 2, 3]), jumping=st.booleans(), reverse=st.booleans())


@st.composite
def keyed(draw: st.DrawFn, nested: dict[str, Any]) -> IndexType:
    fields = draw(keys)
    match draw(st.sampled_from(["hashed", "ordered", "descending", "sorted"])):
        case "hashed":
            return Hashed(*fields, **nested)
        case "ordered":
            return Ordered(*fields, **nested)
        case "descending":
            return Ordered(*map(Descending, fields), **nested)
    return Sorted("backwards", compare=by_text_backwards, **nested)


@st.composite
def indexes(draw: st.DrawFn, depth: int = 2) -> IndexType:
    if draw(st.booleans()) and draw(st.booleans()):
        return draw(fifos)
    nested: dict[str, IndexType] = {}
    if depth and draw(st.booleans()):
        for name in "xy"[: draw(st.integers(1, 2))]:
            nested[name] = draw(indexes(depth - 1))
    return draw(keyed(nested))


@st.composite
def trees(draw: st.DrawFn) -> dict[str, IndexType]:
    return {name: draw(indexes()) for name in "pqr"[: draw(st.integers(1, 3))]}


small = st.one_of(st.none(), st.integers(0, 2))
rows = st.builds(ROW_TYPE.row, small, small, st.one_of(st.none(), st.sampled_from(["", "s", "t"])))
changes = st.lists(st.tuples(st.sampled_from(["insert", "insert", "insert", "delete"]), rows), max_size=25)


def key_of(index: IndexType, row: Row) -> object:
    """Return what makes two rows meet in a keyed index."""
    if isinstance(index, Sorted):
        return row.c or ""
    return tuple(getattr(row, name) for name in index.key_fields)


def displaced(
    held: list[Row], new: Row, tree: dict[str, IndexType], doomed: list[int] | None = None
) -> list[int]:
    """Return the places in ``held`` of the rows that ``new`` displaces, as the indexes decide in order."""
    chosen: list[int] = []
    places = range(len(held))

    def visit(indexes: dict[str, IndexType], group: list[int]) -> None:
        for index in indexes.values():
            if isinstance(index, Fifo):
                left = [place for place in group if place not in chosen]
                if index.limit and len(left) >= index.limit:
                    chosen.extend(left if index.jumping else left[:1])
                continue
            same = [place for place in group if key_of(index, held[place]) == key_of(index, new)]
            if index.nested:
                visit(index.nested, same)
            else:
                chosen.extend(place for place in same if place not in chosen)

    visit(tree, list(places))
    return sorted(chosen)


def found(held: list[Row], sought: Row, tree: dict[str, IndexType]) -> int | None:
    """Return the place of the row that the first leaf finds, or None."""
    places = list(range(len(held)))
    index = next(iter(tree.values()))
    while not isinstance(index, Fifo):
        places = [place for place in places if key_of(index, held[place]) == key_of(index, sought)]
        if not index.nested:
            return places[0] if places else None
        index = next(iter(index.nested.values()))
    return next((place for place in places if held[place] == sought), None)
