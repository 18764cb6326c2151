"""Models that CREATE MODEL refuses, for ``errors.txt``."""

from __future__ import annotations

from decimal import Decimal

from rowtide.engine import INSERT, Hashed, ModelSetup, RowType, Table, TableType, Unit

ROW = RowType(a="int64", b="float64[]")
PLAIN = RowType(a="int64")

NUMBER = 7


class Good:
    """Takes options of every type."""

    def __init__(self, setup: ModelSetup, rate: Decimal, limit: int = 5, strict: bool = False) -> None:
        setup.input("rows", setup.unit.label("rows", PLAIN))


class NoPorts:
    """Offers nothing."""

    def __init__(self, setup: ModelSetup) -> None:
        self.unit = setup.unit


class WithArray:
    """Offers rows that SQL has no type for."""

    def __init__(self, setup: ModelSetup) -> None:
        setup.input("rows", setup.unit.label("rows", ROW))


class NoFields:
    """Offers rows without fields."""

    def __init__(self, setup: ModelSetup) -> None:
        setup.input("ticks", setup.unit.label("ticks", RowType()))


class Twice:
    """Offers one name as input and as output."""

    def __init__(self, setup: ModelSetup) -> None:
        label = setup.unit.label("rows", PLAIN)
        setup.input("rows", label)
        setup.output("Rows", label)


class Capitals:
    """Has fields that fold to one name."""

    def __init__(self, setup: ModelSetup) -> None:
        setup.input("rows", setup.unit.label("rows", RowType(a="int64", A="int64")))


class OwnRowtime:
    """Declares what every row has."""

    def __init__(self, setup: ModelSetup) -> None:
        setup.input("rows", setup.unit.label("rows", RowType(rowtime="int64")))


class OtherUnit:
    """Offers a label of a unit of its own."""

    def __init__(self, setup: ModelSetup) -> None:
        setup.input("rows", Unit("mine").label("rows", PLAIN))


class Prefilled:
    """Has rows before any came."""

    def __init__(self, setup: ModelSetup) -> None:
        table = Table(setup.unit, "rows", TableType(PLAIN, by_a=Hashed("a")))
        table.input.send(INSERT, PLAIN.row(1))
        setup.input("rows", table.input)
        setup.table("all", table)


class Failing:
    """Cannot be made."""

    def __init__(self, setup: ModelSetup) -> None:
        raise KeyError("nothing here")


class WrongKey:
    """Names a key field that is not there."""

    def __init__(self, setup: ModelSetup) -> None:
        label = setup.unit.label("rows", PLAIN)
        setup.input("rows", label)
        setup.changelog("changes", label, "b")


class OneKey:
    """Is split in one input only."""

    def __init__(self, setup: ModelSetup) -> None:
        setup.input("rows", setup.unit.label("rows", PLAIN), key=("a",))
        setup.input("others", setup.unit.label("others", PLAIN))


class NoSetup:
    """Takes nothing."""
