"""A workshop's stock: what is ordered needs parts, what runs low is bought, what no one wants is reported.

A graph of nodes in consistent time (docs/graphs.md), with every kind of way back:

* ``parts``: an order of a bike is one of its parts too, and of theirs, before the next order is looked at;
* ``delivered``: what is bought is in stock after the time that delivery takes;
* ``counting``: a day after a purchase the buyer has the item counted.

``Slow`` has timers, and is reported when the history of the topic is over: what lay about while no one looked
is reported once then, not as if somebody had watched.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.engine import ModelSetup, RowType
from rowtide.engine.graph import At, Graph, Timer, Use, run_in_model

ORDER = RowType(item="string", pieces="int64")
MOVEMENT = RowType(item="string", why="string", pieces="int64", level="int64")
PURCHASE = RowType(item="string", pieces="int64", level="int64")
NOTE = RowType(item="string", note="string")

HOUR_MS = 3_600_000
MADE_OF = {"bike": (("frame", 1), ("wheel", 2)), "wheel": (("rim", 1), ("spoke", 32))}


class Stock:
    """Knows how much there is of everything, and tells of every change."""

    def __init__(self, at_first: int) -> None:
        self._at_first = at_first
        self._levels: dict[str, int] = {}

    def row(self, port: str, row: object, at: At) -> None:
        item, pieces = row  # type: ignore[misc]  # an order, or what is sent as one
        change = pieces if port == "delivered" else -pieces
        if item in MADE_OF and port != "delivered":
            # It is made to order: not it leaves the stock, its parts do.
            at.send((item, "made", pieces, 0))
            return
        self._levels[item] = self._levels.get(item, self._at_first) + change
        at.send((item, port, change, self._levels[item]))

    def event(self, payload: object, at: At) -> None:
        item = str(payload)
        at.send((item, "counted", 0, self._levels.get(item, self._at_first)))

    def snapshot(self) -> object:
        return dict(self._levels)

    def restore(self, state: object) -> None:
        self._levels = dict(state)  # type: ignore[call-overload]  # as given by snapshot


class Assembly:
    """Asks the stock for the parts of what is made."""

    def row(self, port: str, row: object, at: At) -> None:
        item, why, pieces, _ = row  # type: ignore[misc]  # a movement
        if why == "made":
            for part, count in MADE_OF[item]:
                at.send((part, count * pieces), to="parts")

    def event(self, payload: object, at: At) -> None:
        raise AssertionError(payload, at)


class Buyer:
    """Buys what runs low, once until it is delivered."""

    def __init__(self, least: int, bought: int) -> None:
        self._least = least
        self._bought = bought
        self._on_its_way: set[str] = set()

    def row(self, port: str, row: object, at: At) -> None:
        item, why, _, level = row  # type: ignore[misc]  # a movement
        if why == "delivered":
            self._on_its_way.discard(item)
        if why not in ("made", "counted") and level < self._least and item not in self._on_its_way:
            self._on_its_way.add(item)
            at.send((item, self._bought, level))
            at.send((item, self._bought), to="delivered")
            at.schedule(at.rowtime + 24 * HOUR_MS, item, on="counting")

    def event(self, payload: object, at: At) -> None:
        raise AssertionError(payload, at)

    def snapshot(self) -> object:
        return sorted(self._on_its_way)

    def restore(self, state: object) -> None:
        self._on_its_way = set(state)  # type: ignore[call-overload]  # as given by snapshot


class Slow:
    """Tells of items that no one has ordered for a week, every week."""

    WEEK_MS = 7 * 24 * HOUR_MS

    def __init__(self) -> None:
        self._timers: dict[str, int] = {}

    def row(self, port: str, row: object, at: At) -> None:
        item, _ = row  # type: ignore[misc]  # an order
        if item in self._timers:
            at.reschedule(self._timers[item], at.rowtime + self.WEEK_MS)
        else:
            self._timers[item] = at.schedule(at.rowtime + self.WEEK_MS, item)

    def event(self, payload: object, at: At) -> None:
        self._tell(str(payload), "not ordered for a week", at)

    def reset(self, before: int, after: int, due: Sequence[Timer], at: At) -> None:
        for timer in due:
            self._tell(str(timer.payload), "not ordered before history ended", at)

    def _tell(self, item: str, note: str, at: At) -> None:
        at.send((item, note))
        self._timers[item] = at.schedule(at.rowtime + self.WEEK_MS, item)

    def snapshot(self) -> object:
        return dict(self._timers)

    def restore(self, state: object) -> None:
        self._timers = dict(state)  # type: ignore[call-overload]  # as given by snapshot


class Workshop:
    """The model."""

    def __init__(
        self,
        setup: ModelSetup,
        at_first: int = 100,
        least: int = 40,
        bought: int = 200,
        delivery_ms: int = 2 * HOUR_MS,
    ) -> None:
        graph = Graph()
        graph.source("orders")
        graph.node("stock", lambda: Stock(at_first), ["orders"])
        graph.node("assembly", Assembly, ["stock"])
        graph.node("buyer", lambda: Buyer(least, bought), ["stock"])
        graph.node("slow", Slow, ["orders"])
        graph.loop("parts", of="assembly", to="stock", use=Use.RECORDED)
        graph.loop("delivered", of="buyer", to="stock", delay_ms=delivery_ms)
        graph.scheduler("counting", driven_by="buyer", to="stock", delay_ms=HOUR_MS)
        run_in_model(
            setup,
            graph,
            inputs={"orders": ORDER},
            outputs={"stock": MOVEMENT, "buyer": PURCHASE, "slow": NOTE},
        )
