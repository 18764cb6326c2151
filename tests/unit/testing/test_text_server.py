"""The text server over real sockets: the guide's chapter 7.8, and what it leaves open."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from rowtide.engine import Hashed, Label, Rowop, RowType, Table, TableType, TextDriver, Unit
from rowtide.engine.driver import printed_in_full
from rowtide.model_server import text_server
from rowtide.model_server.text_server import LONGEST_LINE, TextServer

TRADE = RowType(id="int32", symbol="string", price="float64")


class Client:
    """A client that waits for what it expects, ten seconds at most."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))
        self._lines = self.socket.makefile("r", encoding="utf-8")

    def send(self, *lines: str) -> None:
        self.socket.sendall("".join(f"{line}\n" for line in lines).encode())

    def ask(self, line: str, count: int = 1) -> list[str]:
        self.send(line)
        return self.take(count)

    def take(self, count: int) -> list[str]:
        return [self._lines.readline().rstrip("\n") for _ in range(count)]

    def rest(self) -> list[str]:
        """Return that no more comes, and give everything up to the end."""
        self.socket.shutdown(socket.SHUT_WR)
        return self._lines.read().splitlines()

    def leave(self) -> None:
        self._lines.close()
        self.socket.close()


def trades() -> TextDriver:
    """The guide's echo server, and a table to share."""
    unit = Unit("uEcho")
    table = Table(unit, "t", TableType(TRADE, by_id=Hashed("id")))
    driver = TextDriver(unit)

    def broken(rowop: Rowop) -> None:
        unit.schedule(echo.adopt(rowop))
        driver.print("so far")
        raise ValueError("not today")

    echo = unit.label("echo", TRADE, driver.print)
    inputs: dict[str, Label] = {
        "echo": echo,
        "echo2": unit.label("echo2", TRADE, lambda rowop: driver.print(printed_in_full(rowop))),
        "t": table.input,
        "broken": unit.label("broken", TRADE, broken),
    }
    driver.inputs.update(inputs)
    driver.inputs["size"] = lambda words: driver.print(len(table))
    driver.inputs["many"] = lambda words: driver.print("\n".join(["x" * 99] * int(words[0])))
    driver.inputs["odd"] = lambda words: driver.print(words[5])
    return driver


@contextmanager
def serving(driver: TextDriver, **options: object) -> Iterator[TextServer]:
    server = TextServer(driver, **options)  # type: ignore[arg-type]
    thread = Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


def test_rows_are_echoed_as_in_the_guide() -> None:
    with serving(trades()) as server:
        client = Client(server.port)
        assert client.ask("echo,OP_INSERT,1,AAA,10.5") == ['echo OP_INSERT id="1" symbol="AAA" price="10.5"']
        assert client.ask("echo2,OP_DELETE,1,AAA,") == ["echo2,OP_DELETE,1,AAA,"]
        assert client.rest() == []
        client.leave()


def test_all_clients_share_the_model_and_each_gets_its_own_answers() -> None:
    with serving(trades()) as server:
        first, second = Client(server.port), Client(server.port)
        first.send("t,OP_INSERT,1,AAA,1")
        assert first.ask("size") == ["1"]
        assert second.ask("size") == ["1"]
        second.send("t,OP_DELETE,1")
        assert second.ask("size") == ["0"]
        assert first.ask("size") == ["0"]
        assert [client.rest() for client in (first, second)] == [[], []]


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        (b"nothing,OP_INSERT,1", ['error: input "nothing" does not exist', "  hint: The inputs are"]),
        (b"t,OP_UPSERT,1", ['error: opcode "OP_UPSERT" does not exist']),
        (b"t,OP_INSERT,one", ["error: field \"id\" of type int32 cannot hold 'one'"]),
        (b"t,OP_INSERT,1,A,2,3", ["error: 4 values for a row of 3 fields"]),
        (b"odd", ["error: IndexError: list index out of range"]),
        (b"t,OP_INSERT,\xff", ["error: a line is not UTF-8"]),
        (
            b"broken,OP_INSERT,1",
            [
                "so far",
                'echo OP_INSERT id="1"',
                'error: label "broken": not today',
                '  label "broken", called, with broken OP_INSERT id="1"',
            ],
        ),
    ],
)
def test_a_line_that_fails_is_told_to_its_client_and_the_others_go_on(
    line: bytes, answers: list[str]
) -> None:
    with serving(trades()) as server:
        wrong, other = Client(server.port), Client(server.port)
        other.send("t,OP_INSERT,7,AAA,1")
        assert other.ask("size") == ["1"]
        wrong.socket.sendall(line + b"\n")
        for answer in answers:
            assert wrong.take(1)[0].startswith(answer)
        assert other.ask("size") == ["1"]
        assert wrong.ask("size") == ["1"]
        assert other.rest() == []


def test_a_line_may_come_in_pieces_and_several_at_once_with_any_line_end() -> None:
    with serving(trades()) as server:
        client = Client(server.port)
        for piece in (b"t,OP_IN", b"SERT,1,A,", b"2\r\nsize\n\n  \nsi", b"ze\n"):
            client.socket.sendall(piece)
        assert client.rest() == ["1", "1"]


def test_half_a_line_is_not_worked_off_when_its_client_ends() -> None:
    with serving(trades()) as server:
        client = Client(server.port)
        client.socket.sendall(b"t,OP_INSERT,1,AAA,10")
        assert client.rest() == ["error: the last line has no end, it is not processed"]
        assert Client(server.port).ask("size") == ["0"]


def test_a_client_that_breaks_off_in_the_middle_disturbs_nobody() -> None:
    with serving(trades()) as server:
        stays, breaks = Client(server.port), Client(server.port)
        breaks.send("many,200000", "many,200000", "t,OP_INSERT,2,B,1")
        # Resets the connection with output unread, instead of ending it.
        breaks.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        breaks.leave()
        stays.send("t,OP_INSERT,1,A,1")
        assert stays.ask("size")[0] in ("1", "2")


def test_a_slow_reader_holds_up_nobody_and_is_not_read_from_until_it_reads() -> None:
    with serving(trades()) as server:
        slow, other = Client(server.port, receive_buffer=4096), Client(server.port)
        # Three lines of ten megabytes of answers would be processed at once, were it not for the first.
        slow.send("t,OP_INSERT,1,A,1", *["many,100000"] * 3, "t,OP_INSERT,2,B,1")
        while other.ask("size") == ["0"]:
            pass
        assert other.ask("size") == ["1"]
        answers = slow.rest()
        assert answers == ["x" * 99] * 300_000
        assert other.ask("size") == ["2"]


def test_what_others_lines_send_to_a_client_that_does_not_read_has_a_limit() -> None:
    driver = trades()
    reported: list[str] = []
    with serving(driver, most_output=1_000_000, tell=reported.append) as server:
        driver.inputs["whoami"] = lambda words: driver.print(server.current)
        driver.inputs["tell"] = lambda words: driver.print(server.send(int(words[0]), ["y" * 100_000]))
        deaf, other = Client(server.port, receive_buffer=4096), Client(server.port)
        assert deaf.ask("whoami") == ["1"]
        assert other.ask("tell,1") == ["True"]
        answers = [other.ask("tell,1")[0] for _ in range(1000)]
        assert answers[-1] == "False"
        assert answers == sorted(answers, reverse=True)
        assert other.ask("tell,99") == ["False"]
        assert other.ask("tell,2", 2) == ["y" * 100_000, "True"]
    assert "client 1 cut off: more than 1000000 bytes wait for it" in reported


def test_an_endless_line_is_refused() -> None:
    with serving(trades()) as server:
        client = Client(server.port)
        client.socket.sendall(b"x" * (LONGEST_LINE + 1))
        assert client.take(2) == [f"error: a line of more than {LONGEST_LINE} bytes", ""]
        assert Client(server.port).ask("size") == ["0"]


def test_too_many_clients_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_server, "MOST_CLIENTS", 2)
    with serving(trades()) as server:
        clients = [Client(server.port), Client(server.port)]
        assert [client.ask("size") for client in clients] == [["0"], ["0"]]
        assert Client(server.port).take(2) == ["error: there are 2 clients already", ""]
        clients[0].rest()
        assert Client(server.port).ask("size") == ["0"]


def test_exit_lets_nobody_in_and_ends_when_the_last_client_has_gone() -> None:
    server = TextServer(trades())
    thread = Thread(target=server.run)
    thread.start()
    first, last = Client(server.port), Client(server.port)
    assert last.ask("size") == ["0"]
    assert first.ask("size") == ["0"]
    first.send("exit,OP_INSERT")
    assert first.rest() == []
    with pytest.raises(ConnectionRefusedError):
        Client(server.port)
    assert last.ask("size") == ["0"]
    assert last.rest() == []
    thread.join(10)
    assert not thread.is_alive()


def test_a_shutdown_answers_what_has_come() -> None:
    with serving(trades()) as server:
        client, other = Client(server.port), Client(server.port)
        assert other.ask("size") == ["0"]
        client.send("t,OP_INSERT,1,A,1", "many,50000", "shutdown", "size")
        assert client.take(50_001) == [*["x" * 99] * 50_000, "1"]
        assert client.take(1) == [""]
        assert other.take(1) == [""]


def test_a_client_that_takes_nothing_ends_with_the_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_server, "DRAIN_SECONDS", 0.1)
    reported: list[str] = []
    with serving(trades(), tell=reported.append) as server:
        deaf, other = Client(server.port, receive_buffer=4096), Client(server.port)
        deaf.send("t,OP_INSERT,1,A,1", "many,200000")
        while other.ask("size") == ["0"]:
            pass
        other.send("shutdown")
        assert other.take(1) == [""]
    assert reported[-1] == "client 1 cut off: it did not take its output in time"


def test_quit_ends_one_connection_and_an_input_of_that_name_comes_first() -> None:
    driver = trades()
    with serving(driver) as server:
        client = Client(server.port)
        client.send("size", "quit", "size")
        assert client.take(2) == ["0", ""]
        driver.inputs["quit"] = lambda words: driver.print("not yet")
        assert Client(server.port).ask("quit") == ["not yet"]


def test_with_echo_the_answers_are_a_transcript() -> None:
    with serving(trades(), echo=True) as server:
        client = Client(server.port)
        client.send("t,OP_INSERT,1,A,1", "size", "wrong")
        transcript = client.rest()
    assert transcript[:4] == ["> t,OP_INSERT,1,A,1", "> size", "1", "> wrong"]
    assert trades().replay(transcript[:3]) == transcript[:3]
