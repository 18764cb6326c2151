"""Models of chapter 7 of the guide: scheduling, loops, traces."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.engine import INSERT, Label, Moment, Opcode, Rowop, RowType, TextTracer, TraceEvent, Unit
from rowtide.engine.driver import TextDriver
from rowtide.engine.unit.loop import make_loop, make_loop_around

NUMBER = RowType(number="int32")
FIBONACCI = RowType(iteration="int32", current="int64", previous="int64")


def walk() -> TextDriver:
    """The long scheduling example: 1 calls 4, forks 5 and 6, calls 7; 5 forks 8; 6 schedules 9."""
    unit = Unit("walk")
    labels: dict[int, Label] = {}

    def send(how: Callable[[Rowop], None], *numbers: int) -> None:
        for number in numbers:
            how(labels[number].rowop(INSERT, NUMBER.row(number)))

    def first() -> None:
        send(unit.call, 4)
        send(unit.fork, 5, 6)
        send(unit.call, 7)

    actions: dict[int, Callable[[], None]] = {
        1: first,
        5: lambda: send(unit.fork, 8),
        6: lambda: send(unit.schedule, 9),
    }

    def make(number: int) -> Label:
        def handle(rowop: Rowop) -> None:
            driver.print(f"{number} at depth {unit.stack_depth}")
            actions.get(number, lambda: None)()

        return unit.label(f"label{number}", NUMBER, handle)

    labels.update({number: make(number) for number in range(1, 10)})
    driver = TextDriver(unit, {"schedule": lambda words: send(unit.schedule, *map(int, words))})
    return driver


def order_of_arrival() -> TextDriver:
    """A schedules E; the words of a line are scheduled together and then drained."""
    unit = Unit("order")

    def make(name: str) -> Label:
        def handle(rowop: Rowop) -> None:
            driver.print(name)
            if name == "A":
                unit.schedule(labels["E"].rowop(INSERT, NUMBER.row()))

        return unit.label(name, NUMBER, handle)

    labels = {name: make(name) for name in "ABCDE"}

    def schedule(words: list[str]) -> None:
        unit.schedule(*(labels[word].rowop(INSERT, NUMBER.row()) for word in words))

    driver = TextDriver(unit, {"schedule": schedule})
    return driver


def fibonacci(make_head: Callable[[Unit, TextDriver], Label]) -> TextDriver:
    unit = Unit("fibonacci")
    driver = TextDriver(unit)

    @unit.handler(FIBONACCI)
    def main(rowop: Rowop) -> None:
        begin.send(rowop.opcode, begin.row(rowop.row.iteration, 1, 0))
        driver.print(f"{printed.pop()} is a Fibonacci number {rowop.row.iteration}")

    printed: list[int] = []
    show = unit.label("Print", FIBONACCI, lambda rowop: printed.append(rowop.row.current))
    driver.inputs["print"] = show
    begin = make_head(unit, driver)
    driver.inputs[""] = main
    return driver


def fibonacci_by_loop_head() -> TextDriver:
    def make_head(unit: Unit, driver: TextDriver) -> Label:
        show = driver.inputs["print"]
        assert isinstance(show, Label)

        def turn(rowop: Rowop) -> None:
            (show if rowop.row.iteration <= 1 else compute).forward(rowop)

        @unit.handler(FIBONACCI)
        def compute(rowop: Rowop) -> None:
            iteration, current, previous = rowop.row
            loop.again(rowop.opcode, FIBONACCI.row(iteration - 1, current + previous, current))

        loop = make_loop(unit, "Fib", FIBONACCI, turn)
        return loop.begin

    return fibonacci(make_head)


def fibonacci_by_loop_around() -> TextDriver:
    def make_head(unit: Unit, driver: TextDriver) -> Label:
        show = driver.inputs["print"]
        assert isinstance(show, Label)

        @unit.handler(FIBONACCI)
        def compute(rowop: Rowop) -> None:
            iteration, current, previous = rowop.row
            if iteration <= 1:
                show.forward(rowop)
            else:
                loop.again(rowop.opcode, FIBONACCI.row(iteration - 1, current + previous, current))

        loop = make_loop_around("Fib", compute)
        return loop.begin

    return fibonacci(make_head)


class LevelTracer:
    """Prints rowops with their data, indented by how deep the labels nest."""

    def __init__(self, driver: TextDriver) -> None:
        self.driver = driver
        self.level = -1

    def __call__(self, event: TraceEvent) -> None:
        turn = {Moment.BEFORE: 1, Moment.AFTER: -1}.get(event.moment, 0)
        brace = {1: " {", -1: " }", 0: ""}[turn]
        chained = f" (chain '{event.source.name}')" if event.source else ""
        self.level += turn
        self.driver.print(
            f"{'  ' * self.level}unit '{event.unit.name}' {event.moment.value}"
            f" label '{event.label.name}'{chained} op {event.rowop}{brace}"
        )
        self.level += turn


def traced(make_tracer: Callable[[TextDriver], Callable[[TraceEvent], None]]) -> TextDriver:
    """Label 1 chains 2 and 3, label 2 chains 3."""
    unit = Unit("u1")
    lab1, lab2, lab3 = (unit.label(f"lab{number}", NUMBER) for number in (1, 2, 3))
    lab1.chain(lab2)
    lab1.chain(lab3)
    lab2.chain(lab3)

    def run(words: list[str]) -> None:
        unit.schedule(*(lab1.rowop(Opcode[word], NUMBER.row(7)) for word in words))
        unit.drain()
        if isinstance(unit.tracer, TextTracer):
            driver.print("\n".join(unit.tracer.lines))

    driver = TextDriver(unit, {"run": run})
    unit.tracer = make_tracer(driver)
    return driver


SCHEDULING_MODELS: dict[str, Callable[[], TextDriver]] = {
    "walk": walk,
    "order of arrival": order_of_arrival,
    "fibonacci by loop head": fibonacci_by_loop_head,
    "fibonacci by loop around": fibonacci_by_loop_around,
    "verbose trace": lambda: traced(lambda driver: TextTracer(verbose=True)),
    "terse trace": lambda: traced(lambda driver: TextTracer()),
    "trace with rows": lambda: traced(LevelTracer),
}
