"""The page is static files with strict headers; a browser that comes to the service is led to it."""

from __future__ import annotations

import gzip
import re

import httpx
import pytest

from rowtide.web.access import Access
from rowtide.web.page import ASSETS, INDEX
from support.web import asked, whole_app

NAMES = sorted(each.name for each in ASSETS.iterdir())
FIRST_LOAD_BYTES = 80 * 1024
"""What a browser loads before it shows anything: docs/howto/page.md."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types rowtide"
)


def got(path: str, **headers: str) -> httpx.Response:
    return asked(whole_app(Access()), "GET", path, **headers)


@pytest.mark.parametrize("name", ["", "none.js", "..%2Findex.html", "..%2F__init__.py", *NAMES])
def test_every_answer_has_the_headers_that_keep_strangers_out(name: str) -> None:
    answer = got(f"/ui/{name}")
    assert answer.status_code == (200 if name in ("", *NAMES) else 404)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_sent_as_it_is_or_compressed_and_not_again(name: str) -> None:
    content = (ASSETS / name).read_bytes()
    plain = got(f"/ui/{name}", accept_encoding="identity")
    compressed = got(f"/ui/{name}", accept_encoding="gzip")
    assert "content-encoding" not in plain.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert plain.content == compressed.content == content
    assert plain.headers["vary"] == "Accept-Encoding"
    again = got(f"/ui/{name}", if_none_match=plain.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert got(f"/ui/{name}", if_none_match='"other"').status_code == 200


def test_only_files_that_never_change_are_kept_without_asking() -> None:
    for name in NAMES:
        keeps = got(f"/ui/{name}").headers["cache-control"]
        is_hashed = re.fullmatch(r"\w+-[0-9a-f]{12}\.(js|css)", name) is not None
        assert ("immutable" in keeps) == is_hashed, name
    assert got("/ui/").headers["cache-control"] == "no-cache"


def test_the_page_names_files_that_exist_and_has_no_script_of_its_own() -> None:
    index = (ASSETS / INDEX).read_text()
    named = re.findall(r'(?:src|href)="([^":]+)"', index)
    assert named and set(named) <= set(NAMES)
    assert re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", index) is None
    # Relative, so that a proxy may serve it below any path.
    assert not [name for name in named if name.startswith("/")]


def test_the_first_load_is_small() -> None:
    # The worker comes with the first graph, the notices only when someone asks.
    loaded = [name for name in NAMES if name.endswith((".html", ".css", ".js"))]
    assert sum(len(gzip.compress((ASSETS / name).read_bytes())) for name in loaded) <= FIRST_LOAD_BYTES


@pytest.mark.parametrize(
    ("accept", "is_led"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("text/html", True),
        ("*/*", False),
        ("application/json", False),
    ],
)
def test_a_browser_is_led_to_the_page_and_a_program_gets_the_status(accept: str, is_led: bool) -> None:
    answer = got("/", accept=accept)
    if is_led:
        assert (answer.status_code, answer.headers["location"]) == (303, "ui/")
        assert answer.headers["vary"] == "Accept"
    else:
        assert answer.json()["pipeline"] == "orders_per_minute"


def test_the_address_without_a_slash_leads_to_the_page() -> None:
    assert got("/ui").headers["location"] == "ui/"
