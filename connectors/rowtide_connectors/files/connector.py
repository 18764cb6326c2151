"""The connector of files: its options, and the streams that read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rowtide_connectors.api import (
    Guarantee,
    MessageSink,
    MessageSinkConnector,
    Option,
    PolledConnector,
    SinkConnector,
    SourceConnector,
    TableColumn,
    TopicSource,
)
from rowtide_connectors.errors import GoneError, OptionError
from rowtide_connectors.files.content import AUTO, KINDS, LINES, PARQUET, Content
from rowtide_connectors.files.listing import FileListing, Looking
from rowtide_connectors.files.parquet_sink import COMPRESSIONS, ParquetSink
from rowtide_connectors.files.place import MODIFIED, NAME, UNFINISHED, WILDCARDS, Directory, Pattern
from rowtide_connectors.files.records import Columns, main_spelling, names_folders
from rowtide_connectors.files.sink import ENDINGS, FOLDERS, FilesSink, Writing
from rowtide_connectors.files.source import FilesSource
from rowtide_connectors.options import ConnectorOptions, read_options

OWNER = 'connector "files"'

SERVER_OPTIONS = (
    Option(
        "url",
        str,
        "the directory that has the files: a path such as /data, or an address that pyarrow knows, such as "
        "s3://bucket/folder?region=eu-west-1; errors show it without its query",
        "server",
        required=True,
    ),
)
STREAM_OPTIONS = (
    Option(
        "path",
        str,
        "which files below the url: a folder, for all files in it and below it; or a pattern such as "
        "orders/**/*.parquet, in which * stands for characters of one name and **/ for any folders. Names that begin "
        f"with . or _, or end in {', '.join(UNFINISHED)}, are left out",
        "stream",
        required=True,
    ),
    Option(
        "file_format",
        str,
        "what the files contain: LINES (a message a line), JSON (the same, without empty lines), CSV (a message a "
        "record), AVRO (object containers), PARQUET; or AUTO, by the ending of the name. The ending also says the "
        "compression of the first three: .gz, .zst, .bz2, .lz4",
        "stream",
        default=AUTO,
    ),
    Option(
        "header",
        str,
        "the first line of each CSV file, which is not a record: a file with another one is not read; * allows any",
        "stream",
    ),
    Option(
        "file_order",
        str,
        "the order of files that are found together: NAME, or MODIFIED for the time of modification, then the name. "
        "Files that are found later come later",
        "stream",
        default=NAME,
    ),
    Option(
        "partitions",
        int,
        "the number of partitions, which have rowtime bounds of their own; the name of a file decides its partition",
        "stream",
        default=1,
    ),
    Option(
        "look_every_s",
        float,
        "the time between two looks for new files, in seconds",
        "stream",
        default=5.0,
        changeable=True,
    ),
    Option(
        "quiet_s",
        float,
        "a file is read once its size and time have not changed for this time, in seconds; 0: as it is found",
        "stream",
        default=0.0,
        changeable=True,
    ),
    Option("max_row_bytes", int, "the most bytes of a line or a CSV record", "stream", default=1_048_576),
)
OPTIONS = SERVER_OPTIONS + STREAM_OPTIONS
ALL_COMPRESSIONS = tuple({**ENDINGS, **COMPRESSIONS})
SINK_OPTIONS = (
    Option(
        "path",
        str,
        "the folder below the url that files are written to; it is made if it is missing. With format PARQUET they are "
        "files of Parquet, else of lines",
        "stream",
        required=True,
    ),
    Option(
        "folders",
        str,
        f"folders of the files, by the ROWTIME of their rows in UTC: {', '.join(FOLDERS)}",
        "stream",
        default="DAY",
    ),
    Option(
        "partition_by",
        str,
        "of Parquet: columns between commas whose values are in the names of folders, above those of the ROWTIME, and "
        "not in the files",
        "stream",
    ),
    Option(
        "compression",
        str,
        f"of the files: {', '.join(ENDINGS)}, NONE by default; of Parquet: {', '.join(COMPRESSIONS)}, ZSTD by default",
        "stream",
    ),
    Option("file_rows", int, "the most rows of a file", "stream", default=100_000),
    Option(
        "file_age_s",
        float,
        "how long a row waits for others of its file, in seconds; by default 60 for Parquet, and 0 for lines: each "
        "commit makes a file",
        "stream",
    ),
)


class FilesStreams:
    """Foreign streams that read files; see ``api.SourceConnector``."""

    options: Sequence[Option] = STREAM_OPTIONS
    guarantee = Guarantee.LISTED

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        options = read_options(OWNER, OPTIONS, "stream", stream)
        _content(options)
        _looking(options)

    def open(self, server: Mapping[str, str], stream: Mapping[str, str]) -> TopicSource:
        """Return the source of a stream."""
        options = read_options(OWNER, OPTIONS, "stream", stream)
        place, looking = _place(server), _looking(options)
        topic = f"{place.shown.rstrip('/')}/{looking.pattern.text.strip('/')}"
        return FilesSource(topic, FileListing(place, looking), _content(options))


class FilesMessages:
    """Foreign streams that pumps write to files; see ``api.MessageSinkConnector``."""

    options: Sequence[Option] = SINK_OPTIONS
    guarantee = Guarantee.BY_COMMIT_NUMBER

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations; ``check_columns`` does more."""
        options = read_options(OWNER, SINK_OPTIONS, "stream", stream)
        _writing(Path(), options, None)

    def check_columns(self, stream: Mapping[str, str], columns: Sequence[TableColumn]) -> None:
        """Read options of a stream of Parquet, or without columns of lines; see ``file_sinks.RecordSinkConnector``."""
        options = read_options(OWNER, SINK_OPTIONS, "stream", stream)
        _writing(Path(), options, PARQUET if columns else LINES)
        if columns:
            _columns(options, columns)
        elif (given := options.optional("partition_by", str)) is not None:
            raise _not_allowed("partition_by", given, "Only Parquet has columns: add format 'PARQUET'.")

    def guarantee_of(self, stream: Mapping[str, str]) -> Guarantee:
        """Return the guarantee, which no option changes."""
        return self.guarantee

    def open(
        self, server: Mapping[str, str], stream: Mapping[str, str], sender: str, max_message_bytes: int
    ) -> MessageSink:
        """Return the sink of a stream."""
        self.check_columns(stream, ())
        options = read_options(OWNER, SINK_OPTIONS, "stream", stream)
        return FilesSink(_writing(_local(server), options, LINES), sender)

    def open_records(
        self,
        server: Mapping[str, str],
        stream: Mapping[str, str],
        sender: str,
        columns: Sequence[TableColumn],
    ) -> MessageSink:
        """Return the sink of a stream of Parquet; see ``file_sinks.RecordSinkConnector``."""
        options = read_options(OWNER, SINK_OPTIONS, "stream", stream)
        writing = _writing(_local(server), options, PARQUET)
        return ParquetSink(writing, sender, _columns(options, columns))


class FilesConnector:
    """Reads files of a directory, each once and in a logged order, and writes files of rows."""

    name = "files"
    description = "files of a directory or an object store: JSON lines, CSV, Avro, Parquet"
    options: Sequence[Option] = SERVER_OPTIONS
    client_options: str | None = None
    source: SourceConnector | None = FilesStreams()
    sink: SinkConnector | None = None
    polled: PolledConnector | None = None
    message_sink: MessageSinkConnector | None = FilesMessages()

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        _place(server)

    def check(self, server: Mapping[str, str]) -> str:
        """Look at the directory."""
        place = _place(server)
        if not place.exists():
            raise GoneError(f'directory "{place.shown}" does not exist', hint="Create it, or correct url.")
        return f'directory "{place.shown}" is there'


def _place(server: Mapping[str, str]) -> Directory:
    return Directory(read_options(OWNER, OPTIONS, "server", server).get("url", str))


def _content(options: ConnectorOptions) -> Content:
    """Return how files are read.

    Raises:
      OptionError: a value is not allowed.
    """
    kind = options.get("file_format", str).upper()
    if kind not in KINDS:
        raise _not_allowed("file_format", kind, f"It must be one of {', '.join(KINDS)}.")
    most = options.get("max_row_bytes", int)
    if not 1 <= most <= 1 << 30:
        raise _not_allowed("max_row_bytes", str(most), f"It must be 1 to {1 << 30}.")
    header = options.optional("header", str)
    if header is not None and kind not in (AUTO, "CSV"):
        raise _not_allowed("header", header, "Only CSV files have a header.")
    return Content(kind, header, most)


def _looking(options: ConnectorOptions) -> Looking:
    """Return what is looked for.

    Raises:
      OptionError: a value is not allowed.
    """
    path, order = options.get("path", str), options.get("file_order", str).upper()
    pattern = Pattern(path)
    if ".." in path.split("/"):
        raise _not_allowed("path", path, "It must be below the url of the server, without '..'.")
    try:
        pattern.compiled()
    except re.error as error:
        raise _not_allowed("path", path, f"Its brackets are wrong: {error}.") from error
    if order not in (NAME, MODIFIED):
        raise _not_allowed("file_order", order, f"It must be {NAME} or {MODIFIED}.")
    partitions = options.get("partitions", int)
    if not 1 <= partitions <= 1_000:
        raise _not_allowed("partitions", str(partitions), "It must be 1 to 1000.")
    for name in ("look_every_s", "quiet_s"):
        if not 0 <= options.get(name, float) <= 86_400:
            raise _not_allowed(name, f"{options.get(name, float):g}", "It must be 0 to 86400.")
    return Looking(
        pattern, order, partitions, options.get("look_every_s", float), options.get("quiet_s", float)
    )


def _local(server: Mapping[str, str]) -> Path:
    """Return the directory that is written to.

    Raises:
      OptionError: it is not of this machine.
    """
    place = _place(server)
    if not place.is_local:
        raise OptionError(
            f"option \"url\" of {OWNER} is '{place.shown}': files are written on file systems of this machine only",
            hint="Write a path, such as /data/archive.",
            option="url",
        )
    return place.folder()


def _writing(root: Path, options: ConnectorOptions, kind: str | None) -> Writing:
    """Return where and how the rows of a stream are written, as lines or as Parquet; None: it is not known.

    Raises:
      OptionError: a value is not allowed.
    """
    compressions = {LINES: tuple(ENDINGS), PARQUET: tuple(COMPRESSIONS)}.get(kind or "", ALL_COMPRESSIONS)
    usual, wait_s = ("ZSTD", 60.0) if kind == PARQUET else ("NONE", 0.0)
    path = options.get("path", str)
    folders = options.get("folders", str).upper()
    compression = (options.optional("compression", str) or usual).upper()
    if ".." in path.split("/") or WILDCARDS.search(path):
        raise _not_allowed("path", path, "It must be a folder below the url of the server.")
    if folders not in FOLDERS:
        raise _not_allowed("folders", folders, f"It must be one of {', '.join(FOLDERS)}.")
    if compression not in compressions:
        raise _not_allowed("compression", compression, f"It must be one of {', '.join(compressions)}.")
    rows, age = options.get("file_rows", int), options.optional("file_age_s", float)
    if not 1 <= rows <= 1_000_000:
        raise _not_allowed("file_rows", str(rows), "It must be 1 to 1000000.")
    if age is not None and not 0 <= age <= 86_400:
        raise _not_allowed("file_age_s", f"{age:g}", "It must be 0 to 86400.")
    return Writing(root, root / path.strip("/"), folders, compression, rows, wait_s if age is None else age)


def _columns(options: ConnectorOptions, columns: Sequence[TableColumn]) -> Columns:
    """Return the columns of records, with those that are in the names of folders.

    Raises:
      OptionError: one of these is not a column, or cannot be in a name; or no other is left.
    """
    text = options.optional("partition_by", str)
    if text is None:
        return Columns(columns, ())
    names = [main_spelling(each.name) for each in columns]
    found = []
    for name in (each.strip() for each in text.split(",")):
        at = next((at for at, each in enumerate(names) if each.upper() == name.upper()), None)
        if at is None:
            raise _not_allowed(
                "partition_by", text, f'"{name}" is not a column: those are {", ".join(names)}.'
            )
        if at in found:
            raise _not_allowed("partition_by", text, f'It names "{name}" twice.')
        if not names_folders(columns[at]):
            raise _not_allowed(
                "partition_by", text, f"A {columns[at].sql_type} cannot be the name of a folder."
            )
        found.append(at)
    if len(found) == len(columns):
        raise _not_allowed("partition_by", text, "Leave a column for the files.")
    return Columns(columns, found)


def _not_allowed(option: str, value: str, hint: str) -> OptionError:
    return OptionError(f"option \"{option}\" of {OWNER} has the value '{value}'", hint=hint, option=option)
