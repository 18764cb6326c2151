"""Files that Confluent's registry compiles schemas with, and does not list as references of a schema.

Kafka Connect and ksqlDB write decimals, dates and times of day with their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

DECIMAL, DATE, TIME_OF_DAY = "confluent.type.Decimal", "google.type.Date", "google.type.TimeOfDay"
_INT32 = FieldDescriptorProto.TYPE_INT32


def _file(name: str, message: str, fields: Mapping[str, Any]) -> Any:
    """Return a file with one message, whose fields are numbered in their order."""
    package, _, own = message.rpartition(".")
    file = FileDescriptorProto(name=name, package=package, syntax="proto3")
    found = file.message_type.add(name=own)
    for number, (field, kind) in enumerate(fields.items(), 1):
        found.field.add(name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return file


BUILT_IN = {
    file.name: file
    for file in (
        # It defines options of fields only, which are not read.
        FileDescriptorProto(name="confluent/meta.proto", package="confluent", syntax="proto3"),
        _file(
            "confluent/type/decimal.proto",
            DECIMAL,
            {
                "value": FieldDescriptorProto.TYPE_BYTES,
                "precision": FieldDescriptorProto.TYPE_UINT32,
                "scale": _INT32,
            },
        ),
        _file("google/type/date.proto", DATE, dict.fromkeys(("year", "month", "day"), _INT32)),
        _file(
            "google/type/timeofday.proto",
            TIME_OF_DAY,
            dict.fromkeys(("hours", "minutes", "seconds", "nanos"), _INT32),
        ),
    )
}
"""The files by name."""
