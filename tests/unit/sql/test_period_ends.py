"""Where check warns that the end of a period is rounded down to a period again, and where it does not."""

from __future__ import annotations

import pytest

from rowtide.plan.plan import Notice
from rowtide.sql.pipeline import plan_pipeline

HOURLY = """
CREATE STREAM r (sensor VARCHAR(3), temp DOUBLE);
CREATE VIEW hourly AS SELECT STREAM FLOOR(ROWTIME TO HOUR) AS hour_of, sensor, AVG(temp) AS mean
  FROM r GROUP BY FLOOR(ROWTIME TO HOUR), sensor;
CREATE VIEW started AS SELECT STREAM FLOOR(ROWTIME TO HOUR) AS ROWTIME, sensor, AVG(temp) AS mean
  FROM r GROUP BY FLOOR(ROWTIME TO HOUR), sensor;
CREATE VIEW hops AS SELECT STREAM COUNT(*) AS n FROM r
  GROUP BY HOP(ROWTIME, INTERVAL '1' HOUR, INTERVAL '1' DAY);
CREATE VIEW visits AS SELECT STREAM sensor, COUNT(*) AS n FROM r
  GROUP BY SESSION(ROWTIME, INTERVAL '1' HOUR), sensor;
"""


def notices(view: str) -> list[Notice]:
    return [
        each for each in plan_pipeline(f"{HOURLY} CREATE VIEW v AS {view};").notices if each.relation == "V"
    ]


@pytest.mark.parametrize(
    ("view", "rounded", "write"),
    [
        (
            "SELECT STREAM sensor, ROW_NUMBER() OVER (PARTITION BY FLOOR(ROWTIME TO HOUR) ORDER BY mean) AS n"
            " FROM hourly",
            "FLOOR(ROWTIME TO HOUR) of rows whose ROWTIME is the end of their FLOOR(ROWTIME TO HOUR): each",
            "Write CEIL(ROWTIME TO HOUR), or let",
        ),
        (
            "SELECT STREAM COUNT(*) AS n FROM hourly WHERE mean > 3 GROUP BY FLOOR(ROWTIME TO DAY)",
            "FLOOR(ROWTIME TO DAY) of rows whose ROWTIME is the end of their FLOOR(ROWTIME TO HOUR): one",
            "Write CEIL(ROWTIME TO DAY), or let",
        ),
        (
            "SELECT STREAM FLOOR(ROWTIME TO HOUR) AS h, sensor FROM hourly",
            "FLOOR(ROWTIME TO HOUR) of rows",
            "Write CEIL(ROWTIME TO HOUR), or let",
        ),
        (
            "SELECT STREAM DISTINCT FLOOR(ROWTIME TO DAY) AS d, sensor FROM hourly",
            "FLOOR(ROWTIME TO DAY) of rows",
            "Write CEIL(ROWTIME TO DAY), or let",
        ),
        (
            "SELECT STREAM sensor FROM hourly ORDER BY FLOOR(ROWTIME TO HOUR), mean LIMIT 3",
            "FLOOR(ROWTIME TO HOUR) of rows",
            "Write CEIL(ROWTIME TO HOUR), or let",
        ),
        (
            "SELECT STREAM COUNT(*) AS n FROM hourly GROUP BY TUMBLE(ROWTIME, INTERVAL '1' DAY)",
            "STEP(ROWTIME BY INTERVAL '1' DAY) of rows",
            "Let the query that makes those rows select the start",
        ),
        (
            "SELECT STREAM COUNT(*) AS n FROM hops"
            " GROUP BY HOP(ROWTIME, INTERVAL '1' HOUR, INTERVAL '2' HOUR)",
            "HOP(ROWTIME, INTERVAL '1' HOUR, INTERVAL '2' HOUR) of rows whose ROWTIME is the end of their",
            "Let the query",
        ),
        (
            "SELECT STREAM MAX(mean) OVER (ORDER BY FLOOR(ROWTIME TO DAY) RANGE INTERVAL '1' DAY PRECEDING) AS m,"
            " MIN(mean) OVER (ORDER BY ROWTIME RANGE INTERVAL '1' DAY FOLLOWING) AS n FROM hourly",
            "FLOOR(ROWTIME TO DAY) of rows",
            "Write CEIL(ROWTIME TO DAY)",
        ),
        (
            "SELECT STREAM COUNT(*) AS n"
            " FROM (SELECT STREAM sensor FROM hourly UNION ALL SELECT STREAM sensor FROM r)"
            " GROUP BY FLOOR(ROWTIME TO DAY)",
            "FLOOR(ROWTIME TO DAY) of rows",
            "Write CEIL(ROWTIME TO DAY)",
        ),
    ],
)
def test_the_end_of_a_period_that_is_rounded_again_is_told_once(view: str, rounded: str, write: str) -> None:
    (notice,) = notices(view)
    assert notice.message.startswith(rounded)
    assert write in notice.message


@pytest.mark.parametrize(
    "view",
    [
        "SELECT STREAM sensor, ROW_NUMBER() OVER (PARTITION BY ROWTIME ORDER BY mean) AS n FROM hourly",
        "SELECT STREAM RANK() OVER (PARTITION BY CEIL(ROWTIME TO HOUR) ORDER BY mean) AS n FROM hourly",
        "SELECT STREAM COUNT(*) AS n FROM hourly GROUP BY CEIL(ROWTIME TO DAY)",
        "SELECT STREAM COUNT(*) AS n FROM started GROUP BY FLOOR(ROWTIME TO DAY)",
        "SELECT STREAM COUNT(*) AS n FROM visits GROUP BY FLOOR(ROWTIME TO DAY)",
        "SELECT STREAM COUNT(*) AS n FROM r GROUP BY FLOOR(ROWTIME TO DAY)",
        "SELECT STREAM sensor FROM hourly ORDER BY ROWTIME, mean LIMIT 3",
        "SELECT STREAM FLOOR(hour_of TO DAY) AS d, sensor FROM hourly",
        "SELECT STREAM FLOOR(ROWTIME - INTERVAL '0.001' SECOND TO DAY) AS d, sensor FROM hourly",
        "SELECT STREAM sensor, AVG(temp) AS mean FROM r GROUP BY FLOOR(ROWTIME TO HOUR), sensor"
        " ORDER BY FLOOR(ROWTIME TO HOUR), mean LIMIT 3",
        "SELECT STREAM FLOOR(ROWTIME TO HOUR) AS h, sensor,"
        " ROW_NUMBER() OVER (PARTITION BY FLOOR(ROWTIME TO HOUR) ORDER BY AVG(temp)) AS n"
        " FROM r GROUP BY FLOOR(ROWTIME TO HOUR), sensor QUALIFY n <= 2",
    ],
)
def test_what_is_right_is_not_warned_of(view: str) -> None:
    assert notices(view) == []
