"""Options are read in one place, whatever the connector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowtide_connectors.api import Guarantee, Option
from rowtide_connectors.errors import OptionError
from rowtide_connectors.kafka.connector import client_config, read_server
from rowtide_connectors.options import HIDDEN, read_options, redacted
from rowtide_connectors.registry import (
    BUILT_IN,
    connector_names,
    find_connector,
    find_sink,
    find_source,
)

OPTIONS = (
    Option("address", str, "where it is", "server", required=True),
    Option("port", int, "its port", "server", default=80),
    Option("ratio", float, "a ratio", "server"),
    Option("verify", bool, "whether to look twice", "server", default=True),
    Option("password", str, "the password", "server", secret=True),
    Option("pin", int, "the number", "server", secret=True),
    Option("topic", str, "what is read", "stream", required=True),
)


def read(**given: str) -> object:
    return read_options('connector "x"', OPTIONS, "server", {"address": "here"} | given)


def test_values_are_typed_and_defaults_fill_in() -> None:
    options = read_options(
        'connector "x"', OPTIONS, "server", {"address": "here", "port": "81", "verify": "OFF"}
    )
    assert options.get("address", str) == "here"
    assert options.get("port", int) == 81
    assert options.get("verify", bool) is False
    assert options.optional("ratio", float) is None


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"adress": "x"}, 'option "adress" of connector "x" does not exist', 'Did you mean "address"?'),
        ({"topic": "x"}, 'option "topic" of connector "x" does not belong to a server', "to a stream"),
        ({"port": "many"}, "has the value 'many'", "It must be a whole number."),
        ({"verify": "perhaps"}, "has the value 'perhaps'", "true or false"),
        ({"address": ""}, 'option "address" of connector "x" is empty', "where it is"),
        ({"pin": "geheim"}, f"has the value '{HIDDEN}'", "a whole number"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_right(given: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(**given)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_required_option_that_is_missing_is_named_with_its_meaning() -> None:
    with pytest.raises(OptionError, match='"address" of connector "x" is missing') as caught:
        read_options('connector "x"', OPTIONS, "server", {})
    assert "where it is" in str(caught.value.hint)


def test_what_the_client_knows_goes_to_the_client_as_it_stands() -> None:
    options = read_options(
        'connector "x"',
        OPTIONS,
        "server",
        {"address": "here", "Own.Name": "v"},
        is_client_option=lambda name: "." in name,
    )
    assert options.client == {"Own.Name": "v"}


def test_secrets_are_hidden_also_those_of_clients() -> None:
    given = {"address": "here", "password": "p", "sasl.password": "q", "ssl.key.pem": "r", "ssl.ca": "s"}
    assert redacted(OPTIONS, given) == {
        "address": "here",
        "password": HIDDEN,
        "sasl.password": HIDDEN,
        "ssl.key.pem": HIDDEN,
        "ssl.ca": "s",
    }


def test_who_logs_in_at_a_url_is_hidden() -> None:
    given = {"address": "http://me:it@here/a?key=k", "ssl.ca": "me@here?"}
    assert redacted(OPTIONS, given) == {"address": f"http://{HIDDEN}@here/a?{HIDDEN}", "ssl.ca": "me@here?"}


def test_librdkafkas_own_options_pass_but_not_those_that_exactly_once_rests_on() -> None:
    server = {"bootstrap_servers": "here:9092"}
    config = client_config(read_server(server | {"security.protocol": "SASL_SSL"}))
    assert config["security.protocol"] == "SASL_SSL"
    assert config["bootstrap.servers"] == "here:9092"
    assert config["isolation.level"] == "read_committed"
    with pytest.raises(OptionError, match=r"isolation\.level"):
        read_server(server | {"isolation.level": "read_uncommitted"})
    with pytest.raises(OptionError) as caught:
        read_server(server | {"group.id": "g"})
    assert "group_id" in str(caught.value.hint)


def test_a_client_option_that_librdkafka_does_not_know_is_refused() -> None:
    source = find_source("kafka").open(
        {"bootstrap_servers": "here:9092", "security.protocoll": "SSL"}, {"topic": "t"}
    )
    with pytest.raises(OptionError, match=r"security\.protocoll"):
        source.reader({0: 0})


def test_every_connector_of_the_package_is_found_by_its_wrapper_in_any_case() -> None:
    assert set(BUILT_IN) <= set(connector_names())
    for name in BUILT_IN:
        assert find_connector(name.upper()).name == name


def test_an_unknown_connector_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        find_connector("kafak")
    assert caught.value.hint == 'Did you mean "kafka"?'


def declared(name: str) -> Iterator[tuple[str, Option]]:
    """Yield the options of a connector with the kind of object that they are declared for."""
    connector = find_connector(name)
    for kind, declaring in (
        ("server", connector),
        ("stream", connector.source),
        ("stream", connector.message_sink),
        ("table", connector.sink),
    ):
        if declaring is not None:
            yield from ((kind, option) for option in declaring.options)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_option_says_what_it_means_and_has_a_default_of_its_kind(name: str) -> None:
    for kind, option in declared(name):
        assert option.meaning
        assert not option.meaning.endswith(".")
        assert option.default is None or isinstance(option.default, option.kind)
        assert not (option.required and option.default is not None)
        assert option.applies_to == kind


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_connector_declares_what_it_offers_with_a_guarantee(name: str) -> None:
    connector = find_connector(name)
    every = (connector.source, connector.polled, connector.sink, connector.message_sink)
    offered = [each.guarantee for each in every if each is not None]
    assert offered
    assert all(isinstance(each, Guarantee) for each in offered)


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_a_connector_does_not_offer_is_refused_with_those_that_do(name: str) -> None:
    connector = find_connector(name)
    for find, offer, words in (
        (find_source, connector.source, "read from: it has no source"),
        (find_sink, connector.sink, "written to: it has no sink"),
    ):
        if offer is not None:
            assert find(name.upper()) is offer
            continue
        with pytest.raises(OptionError) as caught:
            find(name)
        assert caught.value.message == f'connector "{name}" cannot be {words}'
        hint = str(caught.value.hint)
        assert name not in hint
        assert all(find(each) for each in hint.partition(": ")[2].rstrip(".").split(", "))
