"""Parts of URIs against the parts that they were made of, and against the standard library."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.functions.uri import parameter, part

WORDS = st.text(alphabet="abcXYZ019-._~%é", max_size=6)
PATHS = st.lists(WORDS, max_size=3).map(lambda words: "".join(f"/{word}" for word in words))
PARTS = st.fixed_dictionaries(
    {
        "scheme": st.from_regex(r"[a-zA-Z][a-zA-Z0-9+.-]{0,4}", fullmatch=True),
        "user": st.none() | WORDS.filter(bool),
        "host": WORDS.filter(bool) | st.just("[2001:db8::1]"),
        "port": st.none() | st.integers(0, 65_535).map(str),
        "path": PATHS,
        "query": st.none() | st.text(alphabet="abc=&/?:+%20", max_size=10),
        "fragment": st.none() | st.text(alphabet="abc/?:", max_size=5),
    }
)


@given(PARTS)
def test_the_parts_of_a_uri_are_those_that_it_is_made_of(parts: dict[str, str | None]) -> None:
    authority = f"{'' if parts['user'] is None else parts['user'] + '@'}{parts['host']}"
    authority += "" if parts["port"] is None else f":{parts['port']}"
    uri = f"{parts['scheme']}://{authority}{parts['path']}"
    uri += "" if parts["query"] is None else f"?{parts['query']}"
    uri += "" if parts["fragment"] is None else f"#{parts['fragment']}"
    assert {name: part(uri, name) for name in parts} == parts
    assert part(uri, "AUTHORITY") == authority


@given(st.text(alphabet="ab:/?#@[]%&= \n1é", max_size=20))
def test_no_text_stops_it_and_the_path_is_that_of_the_standard_library(uri: str) -> None:
    try:
        split = urlsplit(uri)
    except ValueError:
        return
    if uri.strip() == uri and "\n" not in uri and split.scheme == (part(uri, "scheme") or "").lower():
        assert part(uri, "path") == split.path
        assert (part(uri, "query") or "") == split.query
        assert (part(uri, "authority") or "") == split.netloc


@given(st.text(alphabet="ab=&+%20c;", max_size=16), st.sampled_from(["a", "b", "ab", "a b", ""]))
def test_a_parameter_is_the_first_of_the_standard_library(query: str, name: str) -> None:
    known = [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]
    assert parameter(f"https://x/y?{query}#z", name) == (known[0] if known else None)


def test_what_a_uri_does_not_have_is_null() -> None:
    assert [part("mailto:a@b.c", name) for name in ("host", "query", "path")] == [None, None, "a@b.c"]
    assert part("https://:80/x", "host") is None
    assert parameter("https://x", "a") is None


@pytest.mark.parametrize(("uri", "name"), [("https://x", "hots"), ("https://a:b:c/", "port")])
def test_another_name_and_an_invalid_authority_are_refused(uri: str, name: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        part(uri, name)
