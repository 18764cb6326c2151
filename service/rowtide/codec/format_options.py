"""The options of each format, which are declared here so that listing them loads no decoder."""

from __future__ import annotations

from rowtide.codec.options import FormatOption

PATH, TIME_UNIT, PATTERN = "path", "time_unit", "pattern"
COLUMN_OPTIONS = (
    FormatOption(PATH, "where the value is in the message, such as $.user.items[0].id", of_column=True),
    FormatOption(
        TIME_UNIT,
        "what numbers of a TIMESTAMP, DATE or TIME count since 1970 or since midnight: s, ms, us, ns, of a DATE also d",
        of_column=True,
    ),
    FormatOption(
        PATTERN, "how a TIMESTAMP, DATE or TIME is written, such as dd.MM.yyyy HH:mm:ss", of_column=True
    ),
)

KEY_FORMAT = "key_format"
KEY_OPTION = FormatOption(
    KEY_FORMAT,
    "of a table: how keys of messages are written, which say what a message without a value deletes: "
    "JSON (an object with the columns of the PRIMARY KEY, or the value of the only one) or TEXT",
    default="JSON",
)
JSON_OPTIONS = (KEY_OPTION, *COLUMN_OPTIONS)

UNAVAILABLE = "unavailable_value"
UNAVAILABLE_VALUE = "__debezium_unavailable_value"
UNAVAILABLE_OPTION = FormatOption(
    UNAVAILABLE,
    "the connector's unavailable.value.placeholder: what stands for a value that stays as it is",
    default=UNAVAILABLE_VALUE,
)
DEBEZIUM_OPTIONS = (KEY_OPTION, UNAVAILABLE_OPTION, *COLUMN_OPTIONS)

REGISTRY_URL, SCHEMA, SCHEMA_FILE = "registry_url", "schema", "schema_file"
AVRO_KEY_OPTION = FormatOption(
    KEY_FORMAT,
    "of a table: how keys of messages are written: AVRO, with the registry's header, JSON or TEXT",
    default="AVRO",
)
AVRO_OPTIONS = (
    AVRO_KEY_OPTION,
    FormatOption(
        REGISTRY_URL,
        "the Schema Registry, such as http://host:8081, or several between commas; messages have its header",
    ),
    FormatOption("registry_user", "the user of the registry"),
    FormatOption("registry_password", "the password of the registry", secret=True),
    FormatOption("registry_ca", "a file with the certificates that the registry's is signed by"),
    FormatOption("registry_certificate", "a file with the certificate to show the registry"),
    FormatOption("registry_key", "a file with the key of this certificate"),
    FormatOption(
        SCHEMA, "an Avro schema as JSON: that of the messages, or, with registry_url, that they are read by"
    ),
    FormatOption(SCHEMA_FILE, "a file with this schema"),
    *COLUMN_OPTIONS,
)
DEBEZIUM_AVRO_OPTIONS = (*AVRO_OPTIONS, UNAVAILABLE_OPTION)
