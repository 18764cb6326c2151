"""Calls of functions of times, and casts, that other systems have too: ``shared_functions`` says how to read them."""

from __future__ import annotations

from collections.abc import Sequence

from property.expr.shared_functions import Shared

BEYOND = "a >= TIMESTAMP '9000-01-01 00:00:00' OR a < TIMESTAMP '1000-01-01 00:00:00'"
DAYS_BEYOND = "a >= DATE '9000-01-01' OR a < DATE '1000-01-01'"
OTHER_YEARS = "dates before the year 1 and after 9999"
TRUNCATED = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
FORMATS = (
    *(
        "YYYY-MM-DD HH24:MI:SS.MS",
        "FMMonth FMDD, YYYY",
        "Dy Mon DY MON dy mon",
        "DDD IDDD IW IYYY ID D Q",
        "YY",
    ),
    *(
        "HH12:MI:SS AM",
        "HH:MI pm",
        "SSSS US FF3 FF6",
        "FMMM/FMDD FMHH24:FMMI",
        "FMDAY FMday FMDay",
        'YYYY"th" "MI"',
    ),
)
C_FORMATS = (
    *(
        "%Y-%m-%d %H:%M:%S.%f",
        "%-d.%-m.%y %-H %-I:%-M:%-S %p",
        "%a %A %b %B %j %-j",
        "%u %w %G %V",
        "100%% %H",
    ),
    "%I:%M %p",
)

TIMES: Sequence[Shared] = (
    *(
        Shared(
            f"EXTRACT({unit} FROM a)",
            kind,
            f"floor(extract({unit} FROM a))",
            f"CAST(floor(extract({unit} FROM a)) AS BIGINT)",
        )
        for unit in (
            "YEAR",
            "QUARTER",
            "MONTH",
            "WEEK",
            "DAY",
            "DOY",
            "ISODOW",
            "ISOYEAR",
            "DECADE",
            "CENTURY",
            "EPOCH",
        )
        for kind in ("DATE", "TIMESTAMP")
    ),
    *(
        Shared(f"EXTRACT({unit} FROM a)", kind, f"floor(extract({unit} FROM a))", None)
        for unit in ("HOUR", "MINUTE", "SECOND")
        for kind in ("TIME", "TIMESTAMP")
    ),
    Shared(
        "EXTRACT(MILLISECOND FROM a)",
        "TIMESTAMP",
        "extract(millisecond FROM a)::int % 1000",
        "millisecond(a) % 1000",
    ),
    *(
        Shared(call, "TIMESTAMP", "extract(dow FROM a) + 1", "dayofweek(a) + 1")
        for call in ("EXTRACT(DOW FROM a)", "DAYOFWEEK(a)")
    ),
    *(
        Shared(f"{name}(a)", "TIMESTAMP", f"floor(extract({name} FROM a))")
        for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")
    ),
    Shared("DAYOFMONTH(a)", "DATE", "extract(day FROM a)"),
    Shared("DAYOFYEAR(a)", "DATE", "extract(doy FROM a)"),
    Shared("DATE_PART('week', a)", "DATE"),
    *(
        Shared(f"{call}", kind, f"date_trunc('{unit}', a)", f"date_trunc('{unit}', a)")
        for unit in TRUNCATED
        for call, kind in (
            (f"DATE_TRUNC('{unit}', a)", "TIMESTAMP"),
            (f"FLOOR(a TO {unit})", "TIMESTAMP"),
            (f"CAST(DATE_TRUNC('{unit}', a) AS TIMESTAMP)", "DATE"),
        )
    ),
    Shared(
        "DATE_BIN(INTERVAL '17' MINUTE, a, TIMESTAMP '2001-01-01 00:05:00')",
        "TIMESTAMP",
        duckdb=None,
        apart={"postgres": BEYOND},
        line=OTHER_YEARS,
    ),
    *(
        Shared(
            f"a {sign} INTERVAL '{count}' {unit}",
            "TIMESTAMP",
            duckdb=f"a {sign} INTERVAL '{count} {unit}'",
            apart=dict.fromkeys(("postgres", "duckdb"), BEYOND),
            line=OTHER_YEARS,
        )
        for sign in "+-"
        for count, unit in ((1, "MONTH"), (13, "MONTH"), (1, "YEAR"), (36, "HOUR"), (1, "SECOND"))
    ),
    Shared("a + INTERVAL '36' HOUR", "TIME", duckdb="a + INTERVAL '36 HOUR'"),
    Shared("a - b", "TIME;TIME", duckdb=None),
    *(
        Shared(
            f"a {sign} b",
            "DATE;FEW",
            apart=dict.fromkeys(("postgres", "duckdb"), DAYS_BEYOND),
            line=OTHER_YEARS,
        )
        for sign in "+-"
    ),
    *(
        Shared(
            call,
            "DATE;FEW",
            f"a {sign} b",
            f"a {sign} b",
            apart=dict.fromkeys(("postgres", "duckdb"), DAYS_BEYOND),
            line=OTHER_YEARS,
        )
        for call, sign in (
            ("DATE_ADD(a, b)", "+"),
            ("DATE_SUB(a, b)", "-"),
            ("DATEADD(DAY, b, a)", "+"),
            ("DATE_ADD('day', b, a)", "+"),
        )
    ),
    *(
        Shared(
            call,
            "TIMESTAMP;FEW",
            "a + b * INTERVAL '1' MONTH",
            "a + to_months(b)",
            apart=dict.fromkeys(("postgres", "duckdb"), BEYOND),
            line=OTHER_YEARS,
        )
        for call in ("ADD_MONTHS(a, b)", "TIMESTAMPADD(MONTH, b, a)", "a + b * INTERVAL '1' MONTH")
    ),
    Shared("CAST((a - b) DAY AS INTEGER)", "DATE;DATE", "a - b", "date_diff('day', b, a)"),
    *(
        Shared(call, "TIMESTAMP;TIMESTAMP", "extract(epoch FROM b - a) * 1000", None)
        for call in ("TSDIFF(a, b)", "CAST(b - a AS BIGINT)")
    ),
    # DuckDB counts from the earlier time.
    Shared(
        "TIMESTAMPDIFF(MONTH, a, b)",
        "TIMESTAMP;TIMESTAMP",
        None,
        "date_sub('month', a, b)",
        {"duckdb": "a > b"},
    ),
    *(
        Shared(
            f"EXTRACT({unit} FROM AGE(a, b))",
            f"{kind};{kind}",
            f"trunc(extract({unit} FROM age(a, b)))",
            None,
        )
        for unit in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
        for kind in ("TIMESTAMP", "DATE")
    ),
    Shared(
        "CAST(CAST(AGE(a, b) AS INTERVAL YEAR TO MONTH) AS BIGINT)",
        "TIMESTAMP;TIMESTAMP",
        "extract(year FROM age(a, b)) * 12 + extract(month FROM age(a, b))",
        None,
    ),
    Shared(
        "TIMESTAMPDIFF(HOUR, a, b)",
        "TIMESTAMP;TIMESTAMP",
        "trunc(extract(epoch FROM b - a) / 3600)",
        "date_sub('hour', a, b)",
    ),
    *(
        Shared(call, "TIMESTAMP;TIMESTAMP", None, f"date_diff('{unit}', a, b)")
        for unit in ("day", "month", "quarter", "year")
        for call in (f"DATEDIFF({unit}, a, b)", f"DATE_DIFF('{unit}', a, b)")
    ),
    Shared(
        "MAKE_DATE(a, b, c)",
        "YEAR;FEW;DAY",
        duckdb=None,
        apart={"postgres": "a < 1 OR a > 9999"},
        line=OTHER_YEARS,
    ),
    Shared(
        "MAKE_TIME(a, b, c)",
        "FEW;FEW;SECOND",
        duckdb=None,
        apart={"postgres": "c = 60"},
        line="second 60 is the next minute",
    ),
    Shared(
        "MAKE_TIMESTAMP(2024, 2, a, b, 5, c)",
        "DAY;FEW;SECOND",
        duckdb=None,
        apart={"postgres": "c = 60"},
        line="second 60 is the next minute",
    ),
    Shared("LAST_DAY(a)", "DATE", "(date_trunc('month', a) + INTERVAL '1 month' - INTERVAL '1 day')::date"),
    Shared("DAYNAME(a)", "DATE", "to_char(a, 'FMDay')"),
    Shared("MONTHNAME(a)", "TIMESTAMP", "to_char(a, 'FMMonth')"),
    *(Shared(f"TO_CHAR(a, '{form}')", "TIMESTAMP", duckdb=None) for form in FORMATS),
    *(Shared(f"STRFTIME(a, '{form}')", kind, None) for form in C_FORMATS for kind in ("TIMESTAMP", "DATE")),
    Shared("STRPTIME(a, '%Y-%m-%d')", "DAY TEXT", None),
    Shared("STRPTIME(a, '%Y-%m-%d %H:%M:%S')", "MOMENT TEXT", None),
    Shared("STRPTIME(a, '%Y-%m-%d %H:%M:%S.%f')", "MOMENT TEXT", None),
    Shared("STRPTIME(a, '%H:%M:%S')", "TIME TEXT", None),
    Shared("STRPTIME(REPLACE(a, ' ', CHR(9) || '  '), '%Y-%m-%d %H:%M:%S')", "MOMENT TEXT", None),
    Shared("STRPTIME(a, '%Y-%m-%d   %H:%M:%S')", "MOMENT TEXT", None),
    Shared("STRPTIME(STRFTIME(a, '%d %B %y %I %p'), '%d %B %y %I %p')", "TIMESTAMP", None),
    Shared(
        "STRPTIME(TRIM(a) || ' -0730', '%Y-%m-%d %z')",
        "DAY TEXT",
        None,
        "CAST(strptime(trim(a) || ' -0730', '%Y-%m-%d %z') AS TIMESTAMP)",
    ),
    Shared(
        "TO_DATE(a, 'YYYY-MM-DD')",
        "DAY TEXT",
        duckdb=None,
        apart={"postgres": "a IN ('', '2024-00-10')"},
        line="`TO_DATE` and `TO_TIMESTAMP` take",
    ),
    Shared(
        "TO_TIMESTAMP(a, 'YYYY-MM-DD HH24:MI:SS.MS')",
        "MOMENT TEXT",
        "to_timestamp(a, 'YYYY-MM-DD HH24:MI:SS.MS') AT TIME ZONE 'UTC'",
        None,
        {"postgres": "a NOT LIKE '%.%'"},
        "`TO_DATE` and `TO_TIMESTAMP` take",
    ),
    Shared("TO_TIMESTAMP(a)", "DECIMAL", "to_timestamp(a) AT TIME ZONE 'UTC'", None),
    Shared("UNIX_TIMESTAMP(a)", "TIMESTAMP", "floor(extract(epoch FROM a))", None),
    Shared(
        "FROM_UNIXTIME(a)",
        "INTEGER",
        "to_char(to_timestamp(a) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')",
        None,
    ),
)

CASTS: Sequence[Shared] = (
    Shared(
        "CAST(a AS INTEGER)",
        "NUMBER TEXT",
        duckdb=None,
        apart={"postgres": "a LIKE '%.%' OR a LIKE '%e%'"},
        line="`CAST('12.7' AS INTEGER)` is an error",
    ),
    Shared("CAST(a AS DECIMAL(6, 2))", "NUMBER TEXT", duckdb=None),
    Shared("CAST(a AS DOUBLE)", "NUMBER TEXT", "a::float8", None),
    Shared("CAST(a AS BOOLEAN)", "WORD", duckdb=None),
    Shared("CAST(a AS DATE)", "DAY TEXT", duckdb=None),
    Shared("CAST(a AS TIMESTAMP)", "MOMENT TEXT", duckdb=None),
    Shared("CAST(a AS TIME)", "TIME TEXT", duckdb=None),
    Shared("CAST(CAST(a AS UUID) AS VARCHAR)", "UUID TEXT", duckdb=None),
    *(Shared("CAST(a AS VARCHAR)", kind) for kind in ("INTEGER", "DECIMAL", "DATE")),
    Shared(
        "CAST(a AS VARCHAR)",
        "DOUBLE",
        duckdb=None,
        apart={"postgres": "a = FLOOR(a) OR a <> a"},
        line="the text of a DOUBLE",
    ),
    *(
        Shared(
            "CAST(a AS VARCHAR)",
            kind,
            apart=dict.fromkeys(
                ("postgres", "duckdb"), f"a = {kind} '{'2000-10-10 ' * (kind == 'TIMESTAMP')}10:10:10.100'"
            ),
            line="`10:10:10.1`",
        )
        for kind in ("TIMESTAMP",)
    ),
    Shared("CAST(a AS VARCHAR)", "TIME"),
    Shared(
        "CAST(a AS INTEGER)",
        "DOUBLE",
        duckdb=None,
        apart={"postgres": "ABS(a) = 2.5e0 OR ABS(a) = 0.5e0"},
        line="`CAST(2.5::float8 AS INTEGER)` is 2",
    ),
    Shared(
        "CAST(a AS DECIMAL(12, 3))",
        "DOUBLE",
        duckdb=None,
        apart={"postgres": "a <> a"},
        line="a NUMERIC can be NaN",
    ),
    *(
        Shared(f"CAST(a AS {kind})", "DECIMAL", duckdb=None)
        for kind in ("INTEGER", "SMALLINT", "DECIMAL(9, 1)")
    ),
    Shared("CAST(a AS DOUBLE)", "DECIMAL", "a::float8"),
    Shared("CAST(a AS INTEGER)", "BOOLEAN"),
    Shared("CAST(a AS BOOLEAN)", "INTEGER"),
    Shared("CAST(a AS DATE)", "TIMESTAMP"),
    Shared("CAST(a AS TIME)", "TIMESTAMP"),
    Shared("CAST(a AS TIMESTAMP)", "DATE"),
)
