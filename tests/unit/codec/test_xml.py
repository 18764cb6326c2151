"""XML messages: places, texts, and documents that attack a parser (docs/sql/streams.md#xml)."""

from __future__ import annotations

import tracemalloc
from xml.etree.ElementTree import fromstring

import pytest

from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, RejectedRowError, StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    TIMESTAMP,
    VARCHAR,
    Field,
    RowType,
    Type,
)

Paths = dict[str, str]
TEXT = RowType((Field("A", VARCHAR),))


def stream(row_type: RowType = TEXT, paths: Paths | None = None, /, **options: str) -> ForeignStream:
    own = tuple((name, (("path", path),)) for name, path in (paths or {}).items())
    return ForeignStream("S", row_type, "K", (("format", "XML"), *options.items()), column_options=own)


def decoded(declared: ForeignStream, message: str | bytes) -> object:
    """Return the row of a message, or the reason and the text of its fault."""
    found = decoder_of(declared).decode([message.encode() if isinstance(message, str) else message])
    if found.faults:
        return found.faults[0].reason, found.faults[0].message
    return tuple(column.to_list()[0] for column in found.columns)


def text_at(path: str, message: str, **options: str) -> object:
    found = decoded(stream(TEXT, {"A": path}, **options), message)
    assert isinstance(found, tuple)
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("b", "x"),
        ("c/d", "1"),
        ("c/@n", "2"),
        ("@id", "7"),
        ("e[1]", "p"),
        ("e[2]", "q"),
        ("e[3]", None),
        ("f[2]/g", "s"),
        ("none/at/all", None),
        ("b/@n", None),
        ("c", '<c n="2"><d>1</d></c>'),
        (".", '<o id="7"><b>x</b><c n="2"><d>1</d></c><e>p</e><e>q</e><f/><f><g>s</g></f></o>'),
    ],
)
def test_a_path_selects_one_value(path: str, text: str | None) -> None:
    message = '<o id="7"><b>x</b><c n="2"><d>1</d></c><e>p</e><e>q</e><f/><f><g>s</g></f></o>'
    assert text_at(path, message) == text


def test_an_element_that_is_there_twice_is_not_chosen_from() -> None:
    said = '"e" more than once, and a column is one value; a path with e[1] takes the first one'
    assert text_at("e", "<o><e>p</e><e>q</e></o>") == (Reason.TYPE, f'element "o" has {said}')
    assert text_at("l/e/f", "<o><l><e/><e/></l></o>") == (Reason.TYPE, f'element "l" has {said}')
    assert decoded(stream(), "<o><A>p</A><a>q</a></o>") == (
        Reason.TYPE,
        'element "o" has "a" more than once, and a column is one value; a path with a[1] takes the first one',
    )
    assert decoded(stream(), '<o a="p"><a>q</a></o>') == (
        Reason.TYPE,
        'element "o" has "a" more than once, and a column is one value, perhaps as an element, too',
    )
    assert text_at("b", "<o><e>p</e><e>q</e><b>x</b></o>") == "x"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("<o><a> x </a></o>", " x "),
        ("<o><a>x<!-- c -->y<?p i?>z</a></o>", "xyz"),
        ("<o><a><![CDATA[<i>&amp;]]></a></o>", "<i>&amp;"),
        ("<o><a>&lt;&#65;&#x42;</a></o>", "<AB"),
        ("<o><a/></o>", ""),
        ("<o/>", None),
        ("<a>1</a>", None),
        ('<o xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><a i:nil="true"/></o>', None),
        ("<o><a>x<i>y</i>z &lt;</a></o>", "<a>x<i>y</i>z &lt;</a>"),
        (
            '<o xmlns="u" xmlns:p="v"><a><p:i p:k="1&quot;" j=""/></a></o>',
            '<a xmlns="u"><i xmlns="v" a1:k=\'1"\' j="" xmlns:a1="v"/></a>',
        ),
        ('<o><a xml:lang="de"><i/></a></o>', '<a xml:lang="de"><i/></a>'),
        ('<o xmlns="u"><a><i xmlns="">x</i></a></o>', '<a xmlns="u"><i xmlns="">x</i></a>'),
    ],
)
def test_the_text_of_an_element(message: str, text: str | None) -> None:
    found = decoded(stream(), message)
    assert found == (text,)
    if text is not None and text.startswith("<a"):
        fromstring(text)


def test_namespaces_are_ignored_or_declared() -> None:
    message = '<x:o xmlns:x="urn:1" xmlns:y="urn:2"><x:b>1</x:b><y:b y:n="4" n="5">2</y:b></x:o>'
    assert decoded(stream(TEXT, {"A": "b"}), message)[0] is Reason.TYPE  # type: ignore[index]
    assert text_at("p:b", message, namespaces="p=urn:1 q=urn:2") == "1"
    assert text_at("q:b", message, namespaces="p=urn:1 q=urn:2") == "2"
    assert text_at("q:b/@q:n", message, namespaces="q=urn:2") == "4"
    assert text_at("q:b/@n", message, namespaces="q=urn:2") == "5"
    assert text_at("q:b", message, namespaces="q=urn:2", root_element="o") == "2"
    assert text_at("q:b", message, namespaces="q=urn:2", root_element="q:o") == (
        Reason.DECODE,
        'the root element is "o" of namespace urn:1, not "o" of namespace urn:2',
    )


TYPED = RowType(
    (
        Field("N", INTEGER),
        Field("D", DOUBLE),
        Field("B", BOOLEAN),
        Field("DAY", DATE),
        Field("AT", TIMESTAMP),
        Field("J", JSON),
    )
)


@pytest.mark.parametrize(
    ("inside", "row"),
    [
        ("<n> 7\n</n><d>1e3</d><b>1</b>", (7, 1000.0, True, None, None, None)),
        ("<n/><d></d><b> </b><day/><at/><j/>", (None,) * 6),
        ("<n>+7.0</n><b>false</b>", (7, None, False, None, None, None)),
        ("<day>2024-02-29</day><at>1970-01-01T01:00:00+01:00</at>", (None, None, None, 19782, 0, None)),
        ('<j> {"a": [1]} </j>', (None,) * 5 + ('{"a": [1]}',)),
    ],
)
def test_texts_become_values(inside: str, row: tuple[object, ...]) -> None:
    assert decoded(stream(TYPED), f"<o>{inside}</o>") == row


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("<n>1.5</n>", 'field "N": number 1.5 is not a valid INTEGER: it has a fractional part'),
        ("<n>x</n>", 'field "N": text "x" is not a valid INTEGER'),
        ("<n><x/></n>", 'field "N": an element with elements in it is not a valid INTEGER'),
        ("<d>NaN</d>", 'field "D": text "NaN" is not a valid DOUBLE'),
        (
            "<d>1e99999999999999999999</d>",
            'field "D": text "1e99999999999999999999" is not a valid DOUBLE: it is out of range',
        ),
        ("<b>yes</b>", 'field "B": text "yes" is not a valid BOOLEAN: it is neither true nor false'),
        ("<day>2024-02-30</day>", 'field "DAY": text "2024-02-30" is not a valid DATE'),
        ("<j>{</j>", 'field "J": text "{" is not a valid JSON'),
    ],
)
def test_texts_that_do_not_fit_are_rejected(inside: str, said: str) -> None:
    assert decoded(stream(TYPED), f"<o>{inside}</o>") == (Reason.TYPE, said)


def test_units_and_patterns_of_times() -> None:
    row_type = RowType((Field("A", TIMESTAMP), Field("B", DATE)))
    own = (("A", (("time_unit", "s"),)), ("B", (("pattern", "yyyyMMdd"), ("path", "@day"))))
    declared = ForeignStream("S", row_type, "K", (("format", "XML"),), column_options=own)
    assert decoded(declared, '<o day="19700102"><a>1.5</a></o>') == (1500, 1)
    assert MessageEncoder(declared).encode((1500, 1)).value == b'<s day="19700102"><a>1</a></s>'


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
ATTACKS = {
    "billion laughs": f'<!DOCTYPE o [<!ENTITY l0 "ha">{LAUGHS}]><o><a>&l11;</a></o>',
    "quadratic blowup": f'<!DOCTYPE o [<!ENTITY e "{"x" * 50_000}">]><o><a>{"&e;" * 50_000}</a></o>',
    "external file": '<!DOCTYPE o [<!ENTITY e SYSTEM "file:///etc/passwd">]><o><a>&e;</a></o>',
    "external host": '<!DOCTYPE o SYSTEM "http://127.0.0.1:9/x.dtd"><o><a>&e;</a></o>',
    "parameter entity": '<!DOCTYPE o [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><o><a/></o>',
    "default attribute": '<!DOCTYPE o [<!ATTLIST o a CDATA "forged">]><o/>',
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_document_type_declaration_is_refused_before_it_is_read(attack: str, encoding: str) -> None:
    message = ATTACKS[attack].encode(encoding)
    tracemalloc.start()
    found = decoded(stream(), message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = "the message has a document type declaration (<!DOCTYPE), which is not read"
    assert found == (Reason.DECODE, said)
    assert peak < 10 * len(message) + 1_000_000


def test_a_doctype_in_text_is_text() -> None:
    assert decoded(stream(), "<o><a><![CDATA[<!DOCTYPE html><p>]]></a></o>") == ("<!DOCTYPE html><p>",)


def test_an_undeclared_entity_is_refused() -> None:
    assert decoded(stream(), "<o><a>&e;</a></o>")[0] is Reason.DECODE  # type: ignore[index]


@pytest.mark.parametrize(
    "message",
    ["<o>" + "<i/>" * 200_001 + "</o>", "<o " + " ".join(f'a{n}=""' for n in range(200_001)) + "/>"],
)
def test_a_message_of_many_tags_or_attributes_is_refused_before_a_tree_is_made(message: str) -> None:
    assert decoded(stream(), message) == (
        Reason.DECODE,
        "the message has more than 200,000 tags and attributes",
    )


def test_depth_is_limited_where_it_costs() -> None:
    deep = "<i>" * 90_000 + "</i>" * 90_000
    assert decoded(stream(TEXT, {"A": "b"}), f"<o>{deep}<b>1</b></o>") == ("1",)
    assert decoded(stream(), f"<o><a>{deep}</a></o>") == (
        Reason.TYPE,
        'field "A": elements are nested more than 100 deep',
    )


def test_a_damaged_document_names_the_place() -> None:
    assert decoded(stream(), "<o>\n<a>1</b></o>") == (
        Reason.DECODE,
        "the message is not XML: mismatched tag: line 2, column 6",
    )
    assert decoded(stream(), "<?xml version='1.0' encoding='nonsense'?><o/>")[0] is Reason.DECODE  # type: ignore[index]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("$.a.b", '"$.a.b" is not a path into an XML message: "$.a.b" is not a step'),
        ("/o/a", '"" is not a step'),
        ("a//b", '"" is not a step'),
        ("a/*", '"*" is not a step'),
        ("a[0]", '"a[0]" is not a step'),
        ("@a/b", '"@a" is not a step'),
        ("p:a", 'prefix "p" is not declared'),
        ("/".join("a" * 33), "more than 32 steps"),
    ],
)
def test_what_is_not_a_path_is_refused(path: str, said: str) -> None:
    with pytest.raises(StatementError) as caught:
        decoder_of(stream(TEXT, {"A": path}))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"namespaces": "p"}, '"p" is not a prefix with its namespace'),
        ({"namespaces": "p=a p=b"}, 'prefix "p" is there twice'),
        ({"namespaces": "xml=a"}, '"xml=a" is not a prefix'),
        ({"root_element": "a b"}, '"a b" is not the name of an element'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(StatementError) as caught:
        decoder_of(stream(TEXT, **options))
    assert said in str(caught.value)


WRITTEN = RowType(
    (Field("ID", BIGINT), Field("NAME", VARCHAR), Field("LANG", VARCHAR), Field("CITY", VARCHAR))
)
PLACES = {"ID": "@id", "NAME": "c:user/c:name", "LANG": "c:user/c:name/@lang", "CITY": "c:user/c:city"}


@pytest.mark.parametrize(
    ("row", "inside"),
    [
        (
            (7, "A & <b>", 'd"e', None),
            ' id="7"><c:user><c:name lang=\'d"e\'>A &amp; &lt;b&gt;</c:name></c:user></c:order>',
        ),
        ((None, None, None, "Rome"), "><c:user><c:city>Rome</c:city></c:user></c:order>"),
        (
            (None, None, "de", None),
            '><c:user><c:name lang="de" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"/>'
            "</c:user></c:order>",
        ),
        ((None, None, None, None), "/>"),
    ],
)
def test_rows_are_written_where_their_paths_say(row: tuple[object, ...], inside: str) -> None:
    declared = stream(WRITTEN, PLACES, namespaces="c=urn:crm", root_element="c:order")
    message = MessageEncoder(declared).encode(row).value or b""
    assert message.decode() == '<c:order xmlns:c="urn:crm"' + inside
    assert decoded(declared, message) == row


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ({"ID": "a[1]"}, "an element with a number cannot be written"),
        ({"ID": "a", "NAME": "a/b"}, "another column is at this place"),
        ({"ID": "a/b", "NAME": "a"}, "another column is at this place"),
        ({"ID": "a", "NAME": "a"}, "another column is at this place"),
        ({"ID": "@a", "NAME": "@a"}, "another column is at this place"),
    ],
)
def test_places_that_cannot_be_written_are_refused(paths: Paths, said: str) -> None:
    with pytest.raises(StatementError) as caught:
        MessageEncoder(stream(WRITTEN, paths))
    assert said in str(caught.value)


def test_a_name_that_xml_lacks_needs_a_path() -> None:
    row_type = RowType((Field("first name", VARCHAR),))
    with pytest.raises(StatementError, match='"first name" is not the name of an XML element'):
        MessageEncoder(stream(row_type))
    assert (
        MessageEncoder(stream(row_type, {"first name": "first"})).encode(("x",)).value
        == b"<s><first>x</first></s>"
    )


@pytest.mark.parametrize(("kind", "value"), [(VARCHAR, "a\x01"), (VARCHAR, "\uffff"), (DOUBLE, float("nan"))])
def test_what_xml_cannot_carry_is_rejected(kind: Type, value: object) -> None:
    encoder = MessageEncoder(stream(RowType((Field("A", kind),))))
    with pytest.raises(RejectedRowError, match="XML") as caught:
        encoder.encode((value,))
    assert caught.value.reason is Reason.CONSTRAINT
