"""Rows of files: any place to begin at, any reads and any damage give the same rows, in limited memory."""

from __future__ import annotations

import csv
import io
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast
from unittest.mock import patch

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.testing.contracts.format import survives
from rowtide_connectors.errors import MismatchError, UnavailableError
from rowtide_connectors.files.batches import GROUP_BYTES, GROUP_ROWS, grouped
from rowtide_connectors.files.batches import Row as FileRow
from rowtide_connectors.files.content import DAMAGE, Content
from rowtide_connectors.files.lines import lines, records
from rowtide_connectors.files.place import Directory, Pattern, is_left_out
from rowtide_connectors.listed import FoundFile
from support.files import KINDS, Folder, Row, as_lines

WORDS = st.none() | st.text("ab ü\n\"',\\", max_size=6)
ROWS = st.lists(st.fixed_dictionaries({"n": st.integers(-(2**40), 2**40), "word": WORDS}), max_size=40)


MARKER = bytes(range(16))
HUGE, NEGATIVE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0d"
"""Lengths as Avro writes them: 2^63 - 1, and -7."""


class Short(io.BytesIO):
    """A stream whose reads return fewer bytes than asked for, by lot."""

    def __init__(self, data: bytes, rng: random.Random, most: int = 5) -> None:
        super().__init__(data)
        self._rng = rng
        self._most = most

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None and size > 0
        return super().read(self._rng.randint(1, self._most))


def stored(folder: str, data: bytes, ending: str) -> tuple[Directory, FoundFile]:
    path = Path(folder)
    Folder(path / "in").put(data, ending)
    place = Directory(folder)
    (file,) = place.find(Pattern("in"), "NAME", 1)
    return place, file


def read(place: Directory, file: FoundFile, skip: int = 0, content: Content | None = None) -> list[FileRow]:
    """Return the rows from a place on."""
    return [
        FileRow(at, value, rows.damaged.get(index))
        for rows in (content or Content()).rows(place, file, skip)
        for index, (at, value) in enumerate(zip(rows.places, rows.values, strict=True))
    ]


@pytest.mark.parametrize("ending", KINDS)
@given(rows=ROWS, data=st.data())
def test_every_kind_has_the_same_rows_from_any_place(
    ending: str, rows: Sequence[Row], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place, file = stored(folder, KINDS[ending](rows), ending)
        found = read(place, file)
        assert [json.loads(row.value or b"") for row in found] == list(rows)
        assert [(row.place, row.why) for row in found] == [(at, None) for at in range(len(rows))]
        skip = data.draw(st.integers(0, len(rows) + 1))
        assert read(place, file, skip) == found[skip:]


@pytest.mark.parametrize("ending", KINDS)
@given(rows=ROWS.filter(bool), data=st.data())
def test_damage_anywhere_is_a_row_that_says_so_and_the_rows_do_not_depend_on_where_reading_begins(
    ending: str, rows: Sequence[Row], data: st.DataObject
) -> None:
    whole = KINDS[ending](rows)
    at = data.draw(st.integers(0, len(whole) - 1))
    other = (b"\x00\xff", HUGE, NEGATIVE)
    damaged = data.draw(
        st.sampled_from(
            [whole[:at], *(whole[:at] + each + whole[at + 1 :] for each in other), whole[at:], bytes(at)]
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        place, file = stored(folder, damaged, ending)
        found = read(place, file)
        places = [row.place for row in found]
        assert places == sorted(set(places))
        assert all(row.place == DAMAGE for row in found if row.why is not None)
        assert all(row.value is not None for row in found if row.why is None)
        for skip in {0, 1, len(found) - 1, data.draw(st.integers(0, 50))} - {-1}:
            if not found or skip <= found[-1].place:
                wanted = [row for row in found if row.place >= skip]
                # Parts of a file before the place are not always read, so their damage may not be met.
                given_rows = read(place, file, skip)
                assert given_rows == wanted or (
                    skip
                    and [each for each in wanted if each.why]
                    and given_rows[: len(wanted) - 1] == wanted[:-1]
                )


@pytest.mark.parametrize("ending", ["jsonl.gz", "ndjson.zst", "json.bz2", "parquet", "avro"])
def test_a_file_that_was_cut_has_the_rows_before_the_cut_and_one_that_says_so(
    ending: str, tmp_path: Path
) -> None:
    rng = random.Random(3)
    rows: list[Row] = [{"n": rng.getrandbits(40), "word": rng.randbytes(9).hex()} for _ in range(20_000)]
    whole = KINDS[ending](rows)
    place, file = stored(str(tmp_path), whole[: len(whole) * 2 // 3], ending)
    found = read(place, file)
    assert found[-1].place == DAMAGE and "the file is damaged" in (found[-1].why or "")
    values = [json.loads(row.value or b"") for row in found[:-1]]
    assert values == rows[: len(values)]
    # The directory of a Parquet file is at its end, and bzip2 checks blocks of 900 kB.
    assert values or ending in ("parquet", "json.bz2")


@pytest.mark.parametrize(("length", "says"), [(HUGE, str(2**63 - 1)), (NEGATIVE, "-7")])
def test_a_length_that_a_damaged_file_claims_is_not_allocated(
    length: bytes, says: str, tmp_path: Path
) -> None:
    whole = KINDS["avro"]([{"n": 1, "word": "a"}])
    # The name of the first entry of the header follows the four bytes of every such file and the number of entries.
    place, file = stored(str(tmp_path), whole[:5] + length + whole[6:], "avro")
    (row,) = read(place, file)
    assert (row.place, row.value) == (DAMAGE, None)
    assert row.why == f"the file is damaged: it says that a part of it has {says} bytes"


@given(
    records_=st.lists(st.lists(st.text('ab"\n,; ', max_size=4), min_size=2, max_size=3), max_size=9),
    seed=st.integers(0, 99),
)
def test_csv_records_are_those_of_python_however_the_bytes_arrive(
    records_: list[list[str]], seed: int
) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(records_)
    stream = cast(BinaryIO, Short(out.getvalue().encode(), random.Random(seed)))
    found = list(records(stream, 1_000, None))
    assert [
        next(csv.reader(io.StringIO((row.value or b"").decode(), newline=""))) for row in found
    ] == records_
    assert all(row.why is None for row in found)


@given(
    data=st.binary(max_size=80).map(lambda each: each.replace(b"\x00", b'"').replace(b"\x01", b"\n")),
    most=st.integers(1, 20),
    seed=st.integers(0, 9),
)
def test_no_row_is_longer_than_allowed_and_the_others_are_not_disturbed(
    data: bytes, most: int, seed: int
) -> None:
    whole = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = whole[:-1] if whole[-1] == b"" else whole
    rng = random.Random(seed)
    by_line = list(lines(cast(BinaryIO, Short(data, rng)), most, blanks=True))
    assert [row.place for row in by_line] == list(range(len(whole)))
    for row, line in zip(by_line, whole, strict=True):
        assert (row.why is None) == (len(line) <= most)
        if row.why is None:
            assert row.value == line.removesuffix(b"\r")
    by_record = list(records(cast(BinaryIO, Short(data, rng)), most, None))
    assert all(len(row.value or b"") <= most for row in by_record if row.why is None)
    for row in by_record:
        if row.why is None:
            taken = whole[row.place : row.place + (row.value or b"").count(b"\n") + 1]
            assert (row.value or b"").count(b'"') % 2 == 0
            assert row.value == b"\n".join(each.removesuffix(b"\r") for each in taken)


def test_a_file_with_another_header_is_not_read_and_a_byte_order_mark_is_no_part_of_it(
    tmp_path: Path,
) -> None:
    content = Content("CSV", "id,name")
    place, file = stored(str(tmp_path / "a"), b'\xef\xbb\xbfid,name\r\n1,"a\nb"\n\n2,c', "csv")
    assert read(place, file, 0, content) == [FileRow(1, b'1,"a\nb"'), FileRow(4, b"2,c")]
    place, file = stored(str(tmp_path / "b"), b"name,id\na,1\n", "csv")
    (row,) = read(place, file, 0, content)
    assert row.place == DAMAGE and "the file begins with 'name,id', not with the header 'id,name'" in str(
        row.why
    )
    place, file = stored(str(tmp_path / "c"), b"", "csv")
    assert read(place, file, 0, content) == []


def test_an_ending_of_no_kind_is_said(tmp_path: Path) -> None:
    place, file = stored(str(tmp_path), b"1,2\n", "dat")
    (row,) = read(place, file)
    assert row.place == DAMAGE and "set file_format to one of LINES, JSON, CSV, AVRO, PARQUET" in str(row.why)
    assert read(place, file, 0, Content("CSV")) == [FileRow(0, b"1,2")]


class Counted:
    """Endless lines, of which it counts the bytes that were asked for."""

    def __init__(self, line: bytes) -> None:
        self.given = 0
        self._chunk = line * 6_000

    def read(self, size: int) -> bytes:
        self.given += size
        return self._chunk[:size]


@pytest.mark.parametrize("line", [b"x" * 63 + b"\n", b"y" * 4095 + b"\n", b'"z", ""\n', b"no end of it "])
def test_groups_are_small_however_long_the_file_is(line: bytes) -> None:
    most = 1 << 17

    def by_line(stream: BinaryIO) -> Iterator[FileRow]:
        return lines(stream, most, blanks=False)

    def by_record(stream: BinaryIO) -> Iterator[FileRow]:
        return records(stream, most, None)

    for rows in (by_line, by_record):
        stream = Counted(line)
        if b"\n" not in line:
            # A line without an end: it is read on, and not kept.
            reading = rows(cast(BinaryIO, _Ending(stream, 50 << 20)))
            (row,) = list(reading)
            assert row.why is not None and len(row.value or b"") <= 1_000
            continue
        groups = grouped(rows(cast(BinaryIO, stream)))
        for _ in range(3):
            group = next(groups)
            assert len(group) <= GROUP_ROWS and group.size <= GROUP_BYTES + most
        assert stream.given <= 3 * (GROUP_BYTES + most) + (1 << 17)


class _Ending:
    """A stream that ends after some bytes."""

    def __init__(self, stream: Counted, end: int) -> None:
        self._stream = stream
        self._end = end

    def read(self, size: int) -> bytes:
        return b"" if self._stream.given > self._end else self._stream.read(size)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders/a.csv", "orders/x/y/b.csv"], ["orders.csv", "more/orders/a.csv", "orders"]),
        ("", ["a.csv", "x/b"], []),
        ("o/*.csv", ["o/a.csv"], ["o/x/a.csv", "o/a.csv.gz", "oo/a.csv"]),
        ("o/**/*.csv", ["o/a.csv", "o/x/y/a.csv"], ["a.csv"]),
        ("o/dt=????-??-*/[ab].csv", ["o/dt=2024-01-05/a.csv"], ["o/dt=2024-01-05/c.csv"]),
        ("o/[!ab].csv", ["o/c.csv"], ["o/a.csv"]),
        ("o/a(1).csv", [], ["o/a1.csv"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = Pattern(pattern).compiled()
    assert [name for name in [*matching, *others] if compiled.fullmatch(name)] == matching
    folder = Pattern(pattern).folder
    assert all(name.startswith(folder) for name in matching)


def test_names_of_files_that_are_not_finished_or_hidden_are_left_out() -> None:
    assert all(map(is_left_out, ["a.tmp", "x/.a", ".x/a", "_logs/a", "x/_SUCCESS", "a.csv.part"]))
    assert not any(map(is_left_out, ["a", "x/a_b.csv", "x/a.tmp.csv", "tmp/a"]))


def test_rows_of_lines_are_bytes_as_they_are(tmp_path: Path) -> None:
    place, file = stored(str(tmp_path), b"\xff\xfe not text\n" + as_lines([{"n": 1, "word": "ü"}]), "jsonl")
    assert [row.value for row in read(place, file)] == [b"\xff\xfe not text", b'{"n": 1, "word": "\\u00fc"}']


def test_a_folder_that_is_named_is_read_whatever_its_name_is(tmp_path: Path) -> None:
    Folder(tmp_path / "_old" / "in").put(b"a\n", "txt")
    Folder(tmp_path / "_old" / "in" / "_logs").put(b"b\n", "txt")
    for url, path in (
        (f"{tmp_path}/", "_old/in"),
        (f"{tmp_path}/./_old", "in/**"),
        (f"file://{tmp_path}", "_old/*/*"),
    ):
        place = Directory(url)
        (file,) = place.find(Pattern(path), "NAME", 1)
        assert [row.value for row in read(place, file)] == [b"a"]
    (file,) = Directory("/").find(Pattern(f"{tmp_path}/_old"), "NAME", 1)
    assert file.name == f"{tmp_path}/_old/in/000000-0.txt".removeprefix("/")


def test_a_package_that_is_missing_is_no_damage(tmp_path: Path) -> None:
    place, file = stored(str(tmp_path), KINDS["avro"]([{"n": 1, "word": None}]), "avro")
    missing = patch("fastavro.block_reader", side_effect=ValueError("you need to install cramjam"))
    with missing, pytest.raises(MismatchError, match="you need to install cramjam"):
        read(place, file)


def test_a_disk_that_fails_is_no_damage(tmp_path: Path) -> None:
    place, file = stored(str(tmp_path), as_lines([{"n": 1, "word": None}]), "jsonl")
    with (
        patch.object(Directory, "is_readable", return_value=False),
        patch("rowtide_connectors.files.content.lines", side_effect=OSError(5, "Input/output error")),
        pytest.raises(UnavailableError, match="Input/output error"),
    ):
        read(place, file)


def avro_file(fields: list[dict[str, Any]], rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    schema = {"type": "record", "name": "Row", "fields": fields}
    fastavro.writer(out, schema, rows, sync_marker=MARKER)
    return out.getvalue()


def test_values_of_an_avro_file_are_those_of_the_file(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "until", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
    ]
    infinity = 9_223_372_036_825_200_000
    raw = {"amount": b"\x01\xe2\x40", "at": -1, "until": infinity, "day": 20_000, "days": [0, 9_999_999]}
    place, file = stored(str(tmp_path), avro_file(fields, [raw]), "avro")
    (row,) = read(place, file)
    assert json.loads(row.value or b"", parse_float=str) == {
        "amount": "1234.56",
        "at": -1,
        "until": infinity // 1_000,
        "day": "2024-10-04",
        "days": ["1970-01-01", "9999999 days since 1970"],
    }


def test_an_avro_file_of_any_depth_does_not_end_the_process(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [{"name": "next", "type": ["null", "Row"]}]
    data = b"\2" * 50_000 + b"\0"
    # A length is written in seven bits a byte, the lowest first.
    length = bytes([2 * len(data) & 127 | 128, 2 * len(data) >> 7 & 127 | 128, 2 * len(data) >> 14])
    block = b"\2" + length + data + MARKER
    place, file = stored(str(tmp_path), avro_file(fields, []) + block, "avro")

    def found() -> None:
        (row,) = read(place, file)
        assert row.place == DAMAGE and "nested more than 1000 deep" in str(row.why)

    survives(found)
