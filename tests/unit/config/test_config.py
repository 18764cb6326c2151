"""Settings come from a file and, above it, from the environment; what is wrong is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.config.page import configuration_page
from rowtide.config.reading import load_settings
from rowtide.config.settings import SETTINGS, Secret, Settings
from rowtide.errors import StatementError


def settings(tmp_path: Path, text: str, **environment: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_settings(path, environment)


def test_without_a_file_everything_has_its_default() -> None:
    loaded = load_settings(None, {})
    assert loaded == Settings()
    assert loaded.service.listen == "127.0.0.1:8080"
    assert loaded.commit.interval_ms == 1000


def test_the_environment_stands_above_the_file_and_the_file_above_the_defaults(tmp_path: Path) -> None:
    text = """
[commit]
interval_ms = 500
max_rows = 7
[pipeline]
name = "p"
[checkpoint]
snapshot_interval_s = 3
"""
    loaded = settings(tmp_path, text, ROWTIDE_COMMIT__INTERVAL_MS="250", ROWTIDE_LOG__LEVEL="debug")
    assert loaded.commit.interval_ms == 250
    assert loaded.commit.max_rows == 7
    assert loaded.pipeline.name == "p"
    assert loaded.checkpoint.snapshot_interval_s == 3.0
    assert loaded.log.level == "debug"


def test_options_replace_those_of_sql_without_regard_to_case(tmp_path: Path) -> None:
    text = """
[servers.k]
bootstrap_servers = "there:9092"
"sasl.password" = "in the file"
timeout_s = 5
[streams.Orders]
topic = "other"
[tables.t]
flag = true
"""
    loaded = settings(tmp_path, text, ROWTIDE_SERVERS__K__SASL__PASSWORD="in the environment")
    given = {"bootstrap_servers": "here:9092", "client_id": "c"}
    assert loaded.options("servers", "K", given) == {
        "bootstrap_servers": "there:9092",
        "client_id": "c",
        "sasl.password": "in the environment",
        "timeout_s": "5",
    }
    assert loaded.options("streams", "ORDERS", {"topic": "orders"}) == {"topic": "other"}
    assert loaded.options("tables", "T", {}) == {"flag": "true"}
    assert loaded.options("servers", "OTHER", given) == given


def test_secrets_come_from_the_environment_or_a_file_and_never_show(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from the file\n")
    text = f"""
[checkpoint]
url = {{ env = "URL" }}
[servers.db]
password = {{ file = "{tmp_path / "password"}" }}
username = {{ env = "WHO" }}
"""
    loaded = settings(
        tmp_path, text, URL="sqlite:///geheim.db", WHO="geheim", ROWTIDE_SERVERS__DB__TOKEN="geheim"
    )
    assert loaded.checkpoint.url == Secret("sqlite:///geheim.db")
    assert loaded.options("servers", "DB", {}) == {
        "password": "from the file",
        "username": "geheim",
        "token": "geheim",
    }
    assert "geheim" not in repr(loaded)
    assert "from the file" not in repr(loaded)


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("[comit]\nx = 1", 'section "comit" does not exist', (1, 2), 'Did you mean "commit"?'),
        (
            "[service]\n\n[commit]\n  intervall_ms = 1",
            'setting "intervall_ms" of [commit] does not exist',
            (4, 3),
            'Did you mean "interval_ms"?',
        ),
        ("[commit]\ninterval_ms = 0", '"interval_ms" of [commit] is 0: it must be at least 1', (2, 1), None),
        ('[commit]\ninterval_ms = "x"', 'is "x": it must be a whole number', (2, 1), None),
        ("[commit]\ninterval_ms = true", "is True: it must be a whole number", (2, 1), None),
        ("[pipeline]\nname = 3", "is 3: it must be text", (2, 1), None),
        ("[service]\nallow_anonymous = 1", "is 1: it must be true or false", (2, 1), None),
        ('[log]\nlevel = "loud"', "it must be one of debug, info, warning, error", (2, 1), None),
        ("commit = 3", '"commit" is a value, not a section', (1, 1), None),
        ("[servers]\nk = 3", '"servers.k" is a value, not a section', (2, 1), None),
        ('[servers.k]\np = { env = "NO" }', 'environment variable "NO" is not set', (2, 1), None),
        ('[servers.k]\np = { file = "/no/such" }', 'file "/no/such" cannot be read', (2, 1), None),
        (
            "[servers.k]\np = { x = 1 }",
            'value of "p" is neither plain nor a reference to a secret',
            (2, 1),
            "Write a value",
        ),
        ("[commit\n", "invalid TOML", (1, 8), None),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_place(
    tmp_path: Path, text: str, message: str, place: tuple[int, int], hint: str | None
) -> None:
    with pytest.raises(StatementError) as caught:
        settings(tmp_path, text)
    error = caught.value
    assert message in error.message
    assert error.file == str(tmp_path / "config.toml")
    assert error.place is not None
    assert (error.place.line, error.place.column) == place
    assert (hint or "") in (error.hint or "")


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("ROWTIDE_COMMIT__INTERVAL", "1", 'Did you mean "ROWTIDE_COMMIT__INTERVAL_MS"?'),
        ("ROWTIDE_COMIT__INTERVAL_MS", "1", 'Did you mean "ROWTIDE_COMMIT__INTERVAL_MS"?'),
        ("ROWTIDE_SERVERS__K", "1", '"ROWTIDE_SERVERS__K" is not a setting'),
        ("ROWTIDE_SERVERS__K", "1", "hint: Write ROWTIDE_SERVERS__NAME__OPTION."),
        ("ROWTIDE_SERVER__K__URL", "1", "hint: The first part names a section: ROWTIDE_SERVERS."),
        ("ROWTIDE_FOO__BAR", "1", "hint: The first part names a section: ROWTIDE_"),
        ("ROWTIDE_COMMIT__INTERVAL_MS", "soon", '"ROWTIDE_COMMIT__INTERVAL_MS" is "soon"'),
        ("ROWTIDE_SERVICE__ALLOW_ANONYMOUS", "yes", "it must be true or false"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        load_settings(None, {variable: text})
    assert message in caught.value.render()


@pytest.mark.parametrize("value", [True, False])
def test_a_switch_is_true_or_false_in_the_file_and_in_the_environment(tmp_path: Path, value: bool) -> None:
    text = str(value).lower()
    assert settings(tmp_path, f"[service]\nallow_anonymous = {text}").service.allow_anonymous is value
    assert load_settings(None, {"ROWTIDE_SERVICE__ALLOW_ANONYMOUS": text}).service.allow_anonymous is value


def test_other_variables_are_nobodys_business() -> None:
    assert load_settings(None, {"ROWTIDE_CACHE": "/x", "PATH": "/bin", "ROWTIDE_PORT": "1"}) == Settings()


def test_options_for_what_the_pipeline_does_not_have_are_refused(tmp_path: Path) -> None:
    loaded = settings(tmp_path, '[servers.warehose]\nurl = "sqlite://"')
    loaded.check_names("streams", [])
    with pytest.raises(StatementError, match='server "WAREHOSE"') as caught:
        loaded.check_names("servers", ["K", "warehouse"])
    assert caught.value.hint == 'Did you mean "WAREHOUSE"?'


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match=r'no\.toml" cannot be read'):
        load_settings(tmp_path / "no.toml", {})


def test_every_setting_has_a_default_within_its_own_limits() -> None:
    for setting in SETTINGS:
        assert setting.meaning
        assert setting.default is None or isinstance(setting.default, setting.kind)
        assert not setting.choices or setting.default in setting.choices


def test_the_reference_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"
    assert page.read_text(encoding="utf-8") == configuration_page(), (
        "write it again: python -m rowtide.config > docs/reference/configuration.md"
    )
