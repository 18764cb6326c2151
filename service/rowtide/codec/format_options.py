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
    "JSON (an object with the columns of the PRIMARY KEY, or the value of the only one), TEXT, or KAFKA (a number, "
    "text or bytes as Kafka's serializers write them)",
    default="JSON",
)
PRIMARY_KEY_FROM = "primary_key_from"
PRIMARY_KEY_OPTION = FormatOption(
    PRIMARY_KEY_FROM,
    "of a table: where messages have the columns of the PRIMARY KEY: value, or key, if only their keys have them, as "
    "ksqlDB and Kafka Streams write tables",
    default="value",
)
UPSERT_OPTIONS = (KEY_OPTION, PRIMARY_KEY_OPTION)
BSON_OPTIONS = (*UPSERT_OPTIONS, *COLUMN_OPTIONS)
REGISTRY_HEADER = "registry_header"
REGISTRY_HEADER_OPTION = FormatOption(
    REGISTRY_HEADER,
    "true: messages may begin with the header of a Schema Registry, as its serializers of JSON write; it is not read",
    default="false",
)
JSON_OPTIONS = (*UPSERT_OPTIONS, REGISTRY_HEADER_OPTION, *COLUMN_OPTIONS)

UNAVAILABLE = "unavailable_value"
UNAVAILABLE_VALUE = "__debezium_unavailable_value"
UNAVAILABLE_OPTION = FormatOption(
    UNAVAILABLE,
    "the connector's unavailable.value.placeholder: what stands for a value that stays as it is",
    default=UNAVAILABLE_VALUE,
)
DEBEZIUM_OPTIONS = (KEY_OPTION, UNAVAILABLE_OPTION, REGISTRY_HEADER_OPTION, *COLUMN_OPTIONS)

REGISTRY_URL, SCHEMA, SCHEMA_FILE = "registry_url", "schema", "schema_file"
AVRO_KEY_OPTION = FormatOption(
    KEY_FORMAT,
    "of a table: how keys of messages are written: AVRO, with the registry's header, JSON, TEXT or KAFKA",
    default="AVRO",
)
REGISTRY_OPTIONS = (
    FormatOption(
        REGISTRY_URL,
        "the Schema Registry, such as http://host:8081, or several between commas; messages have its header",
    ),
    FormatOption("registry_user", "the user of the registry"),
    FormatOption("registry_password", "the password of the registry", secret=True),
    FormatOption("registry_ca", "a file with the certificates that the registry's is signed by"),
    FormatOption("registry_certificate", "a file with the certificate to show the registry"),
    FormatOption("registry_key", "a file with the key of this certificate"),
)
_AVRO_OPTIONS = (
    *REGISTRY_OPTIONS,
    FormatOption(
        SCHEMA, "an Avro schema as JSON: that of the messages, or, with registry_url, that they are read by"
    ),
    FormatOption(SCHEMA_FILE, "a file with this schema"),
    *COLUMN_OPTIONS,
)
AVRO_OPTIONS = (AVRO_KEY_OPTION, PRIMARY_KEY_OPTION, *_AVRO_OPTIONS)
DEBEZIUM_AVRO_OPTIONS = (AVRO_KEY_OPTION, *_AVRO_OPTIONS, UNAVAILABLE_OPTION)

PAIR_SEPARATOR, KEY_SEPARATOR, QUOTE = "pair_separator", "key_separator", "quote"
ENCODING = "character_encoding"
ENCODING_OPTION = FormatOption(
    ENCODING, "the character encoding of messages, such as ISO-8859-1 or UTF-16", default="UTF-8"
)
SEPARATOR, ESCAPE, NULL_TEXT, TRIM = "separator", "escape", "null_text", "trim"
FIELDS, HEADER = "fields", "header"
CSV_OPTIONS = (
    FormatOption(SEPARATOR, "what separates the fields; \\t is a tab", default=","),
    FormatOption(
        QUOTE, "the character around fields; one inside is doubled; empty: fields have no quotes", default='"'
    ),
    FormatOption(ESCAPE, "the character before one that is meant as it is, such as \\"),
    FormatOption(NULL_TEXT, "a field without quotes that is NULL; without this option an empty one"),
    FormatOption(TRIM, "true: blanks around fields are ignored", default="false"),
    FormatOption(
        FIELDS,
        "the names of the fields in their order, separated by commas, with nothing for one to ignore; without this "
        "option they are the columns",
    ),
    FormatOption(HEADER, "true: each message begins with a line of the names of its fields", default="false"),
    ENCODING_OPTION,
)
KEY_VALUE_OPTIONS = (
    FormatOption(
        PAIR_SEPARATOR, "what separates the pairs; \\t is a tab, \\n the end of a line", default=","
    ),
    FormatOption(KEY_SEPARATOR, "what separates name and value", default="="),
    FormatOption(QUOTE, "the character around names and values; one inside is doubled", default='"'),
    ENCODING_OPTION,
)
RAW_OPTIONS = (ENCODING_OPTION,)

DESCRIPTOR, DESCRIPTOR_BASE64, MESSAGE = "descriptor", "descriptor_base64", "message"
PROTOBUF_OPTIONS = (
    *UPSERT_OPTIONS,
    FormatOption(
        DESCRIPTOR,
        "a file with the descriptors of the messages, which protoc --include_imports --descriptor_set_out writes",
    ),
    FormatOption(DESCRIPTOR_BASE64, "the content of such a file in base64"),
    FormatOption(
        MESSAGE,
        "the name of the message with its package, such as shop.Order; of a written stream with registry_url also that "
        "of the message which is made of the columns",
    ),
    *REGISTRY_OPTIONS,
    *COLUMN_OPTIONS,
)

ROOT_ELEMENT, NAMESPACES = "root_element", "namespaces"
XML_OPTIONS = (
    *UPSERT_OPTIONS,
    FormatOption(
        ROOT_ELEMENT,
        "the name of the root element, without which any is read; of a written stream the default is its own name",
    ),
    FormatOption(
        NAMESPACES,
        "prefixes that paths use, with their namespaces: o=http://shop.example/orders, several separated by blanks",
    ),
    FormatOption(
        PATH, "where the value is in the message, such as customer/name or items/item[1]/@sku", of_column=True
    ),
    *COLUMN_OPTIONS[1:],
)

SUBJECT, SCHEMA_ID, AUTO_REGISTER = "subject", "schema_id", "auto_register"
RECORD_NAME, KEY_SUBJECT = "record_name", "key_subject"
LATEST = "latest"
REGISTRY_WRITE_OPTIONS = (
    FormatOption(
        SUBJECT, "AVRO, PROTOBUF: the subject of the schema in the registry; without it TOPIC-value"
    ),
    FormatOption(
        SCHEMA_ID,
        f"AVRO, PROTOBUF: the number of a schema of the registry to write with, or {LATEST}, the newest of the "
        "subject",
    ),
    FormatOption(
        AUTO_REGISTER,
        "AVRO, PROTOBUF: whether to add the schema to the registry if it does not have it",
        default="true",
    ),
)
"""The options of a written stream with a registry, besides those of a stream that is read."""
AVRO_WRITE_OPTIONS = (
    *REGISTRY_WRITE_OPTIONS,
    FormatOption(
        RECORD_NAME,
        "AVRO: the name of the record in the schema that is made of the columns, such as shop.Alert",
    ),
    FormatOption(KEY_SUBJECT, "key_format AVRO: the subject of the key's schema; without it TOPIC-key"),
)
"""The options of a written stream in Avro, besides those of a stream that is read."""

TOMBSTONES = "tombstones"
TOMBSTONE_OPTION = FormatOption(
    TOMBSTONES,
    "DEBEZIUM_JSON, DEBEZIUM_AVRO: whether a message without a value follows the envelope of a delete, as with "
    "tombstones.on.delete of Debezium",
    default="true",
)
DEBEZIUM_WRITE_OPTIONS = (TOMBSTONE_OPTION,)
"""The options of a written stream of Debezium's envelopes, besides those of a stream that is read."""
