"""The broker that a client knew as the controller is gone: the next query uses a new client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, cast

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient

from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.kafka.source import KafkaSource, QueryClients

Fails = Callable[["Future[Any]"], None]


class Admin:
    """A client whose queries all end in one way."""

    def __init__(self, ends: Fails) -> None:
        self._ends = ends

    def describe_topics(self, _: object, request_timeout: float) -> Mapping[str, Future[Any]]:
        asked: Future[Any] = Future()
        self._ends(asked)
        return {"t": asked}

    def describe_configs(self, _: object, request_timeout: float) -> Mapping[str, Future[Any]]:
        return self.describe_topics(None, request_timeout)


def waits_for_controller(asked: Future[Any]) -> None:
    asked.set_exception(
        ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT, "Timed out waiting for controller"))
    )


def stays_silent(_: Future[Any]) -> None:
    """Do nothing: the time-out of the caller ends the query."""


def is_refused(asked: Future[Any]) -> None:
    asked.set_exception(ck.KafkaException(ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED)))


def opened(monkeypatch: pytest.MonkeyPatch, ends: Fails) -> tuple[KafkaSource, list[Admin]]:
    admins: list[Admin] = []

    def open_admin(_: Mapping[str, object]) -> AdminClient:
        admins.append(Admin(ends))
        return cast("AdminClient", admins[-1])

    def admin(clients: QueryClients, _: str) -> AdminClient | None:
        # No broker is looked at first.
        if clients._administering is None:
            clients._administering = open_admin({})
        return clients._administering

    monkeypatch.setattr(QueryClients, "admin", admin)
    return KafkaSource("t", {}, timeout_s=0.01), admins


@pytest.mark.parametrize("ends", [waits_for_controller, stays_silent])
def test_a_query_that_times_out_is_repeated_by_a_new_client(
    monkeypatch: pytest.MonkeyPatch, ends: Fails
) -> None:
    source, admins = opened(monkeypatch, ends)
    for ask in (source.identity, source.is_compacted, source.identity):
        with pytest.raises(UnavailableError):
            ask()
    assert len(admins) == 3


def test_a_client_whose_queries_are_answered_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    source, admins = opened(monkeypatch, is_refused)
    assert [source.identity(), source.identity(), source.is_compacted()] == [None, None, False]
    assert len(admins) == 1
