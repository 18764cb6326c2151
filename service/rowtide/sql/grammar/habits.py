"""Hints of refused statements: the SQL to write instead of the syntax of other systems.

tests/golden/sql/habits.txt shows each hint with a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_LOOK_UP = (
    "SHOW TABLES, STREAMS, VIEWS or PUMPS lists what is defined, DESCRIBE name the columns of a relation."
)
_WINDOW = "GROUP BY TUMBLE(ROWTIME, INTERVAL '1' MINUTE), or HOP or SESSION, makes windows."
_OPTIONS = "CREATE FOREIGN STREAM name (..) SERVER name OPTIONS (topic 'name', format 'JSON') reads a topic."
_REGULAR = "x ~ 'expression' or REGEXP_LIKE(x, 'expression') says whether it matches."
_JSON = "JSON_VALUE(x, '$.name') and x ->> 'name' read a value, JSON_QUERY(x, '$.name') an object or array."
_MAKE_JSON = "JSON_OBJECT('name' VALUE x, ..) and JSON_ARRAY(x, ..) make JSON, JSON_ARRAYAGG(x) of a group."
_ROWS = "Rows of an array stand in FROM: s CROSS JOIN JSON_TABLE (s.x, '$[*]' COLUMNS (a VARCHAR PATH '$.a')) AS t."
_ARRAYS = "ARRAY[x, y] is an array of values, ARRAY_AGG(x) one of the values of a group."
_RANDOM = (
    "There are no random values: results depend on the data alone. MD5(x) of a key of the row spreads rows."
)
_NUMBER = "CAST(x AS INTEGER) or x::INTEGER converts text; TRY_CAST gives NULL where it does not fit."
_CLOCK = "CURRENT_TIMESTAMP is the ROWTIME of the row: a query cannot read the clock."
_MODELS = "CREATE MODEL name AS 'package.module:Class' puts a model written in Python into a pipeline."
_AS_OF = "JOIN table FOR SYSTEM_TIME AS OF s.ROWTIME AS t joins the table as of the row's time; so does a plain JOIN."
_EXISTS = "WHERE EXISTS (SELECT ..) or NOT EXISTS asks whether there is a row."
_QUOTED = "A quote in a string is written twice: 'it''s'. CHR(10) is a line break."
_KEYS = (
    "INSERT into a table with a PRIMARY KEY replaces the row of that key; MERGE INTO .. WHEN NOT MATCHED "
    "THEN INSERT keeps the row that is there."
)
_MERGED = (
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET x = s.x or DELETE reads another table."
)
_CARRIED = (
    "LAST_VALUE(x) IGNORE NULLS OVER (PARTITION BY k ROWS UNBOUNDED PRECEDING) carries a value forward."
)
_EACH_PERIOD = (
    "LAST_VALUE(x) with GROUP BY HOP(ROWTIME, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE), k has a row each minute until "
    "five minutes after the last row."
)
_LINES = (
    "The table function rowtide.functions.interpolation.Linear has the values on straight lines between rows."
)
_PERIODS = "(start, end) OVERLAPS (x, y) compares periods of time."
_NO_FUNCTION = (
    "FROM TABLE(f(CURSOR(SELECT STREAM ..), ..)) reads the rows of a table function; JSON_TABLE gives rows of a "
    "JSON array."
)

_AT_STATEMENT: Mapping[str, str] = {
    **dict.fromkeys(("LIST", "PRINT"), _LOOK_UP),
    "USE": "SET SCHEMA 'name' selects the schema of names without one.",
    **dict.fromkeys(("BEGIN", "EXECUTE"), "Pumps that commit together need no word for it: all do."),
    "COPY": "A FOREIGN STREAM reads rows, a pump into a FOREIGN TABLE writes them.",
    "SUBSCRIBE": "rowtide sql --follow shows the rows of a query as they come.",
    "COMMENT": "DESCRIPTION 'text' at the end of CREATE says what an object is for.",
    "CALL": _MODELS,
    **dict.fromkeys(("UPSERT", "REPLACE"), _KEYS),
    "ANALYZE": "Nothing needs it: plans do not depend on statistics.",
    "VACUUM": "Nothing needs it.",
}
_AT_CREATED: Mapping[str, str] = {
    "MATERIALIZED": "CREATE VIEW name AS SELECT .. is kept up to date; a pump writes it into a table.",
    "SOURCE": _OPTIONS,
    "CONNECTION": "CREATE SERVER name FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '..') names a broker.",
    "CATALOG": "CREATE SERVER names a broker or a database.",
    "SINK": "CREATE PUMP name AS INSERT INTO table SELECT STREAM .. writes into a FOREIGN TABLE.",
    "CONNECTOR": "CREATE SERVER and CREATE FOREIGN STREAM read a topic, CREATE FOREIGN TABLE names a table to write.",
    **dict.fromkeys(("TEMPORARY", "TEMP"), "Views hold no rows: CREATE VIEW is enough."),
    "SEQUENCE": "There are no sequences: an offset (KAFKA_OFFSET) or ROW_NUMBER() numbers rows.",
    "TRIGGER": "CREATE PUMP or CREATE MODEL does something with each row.",
    "AGGREGATE": _MODELS,
    "EXTENSION": "There are no extensions: rowtide connectors lists what is installed.",
    "DATABASE": "CREATE SCHEMA groups objects; CREATE SERVER names a database to write to.",
    "DOMAIN": "Write the type with CHECK (..) at the column.",
}
_AT: Mapping[str, str] = {
    **dict.fromkeys(("RLIKE", "REGEXP"), _REGULAR),
    "GLOB": "x LIKE 'a%' compares with a pattern.",
    "CONTAINS": "POSITION(part IN x) > 0 asks for a part of a text; PERIOD (start, end) CONTAINS x for a time.",
    ":": "x::type converts x, as CAST(x AS type) does; there are no named parameters.",
    "[": 'A name that is not a plain word is in double quotes: "order". An array is written ARRAY[x, y].',
    "ASOF": _AS_OF,
    **dict.fromkeys(("SEMI", "ANTI"), _EXISTS),
    "APPLY": "JOIN .. ON joins each row with those of a table; a scalar sub-query gives one value.",
    "LATERAL": "A scalar sub-query in the select list gives one value for each row, JSON_TABLE (..) rows of an array.",
    "AUTO_INCREMENT": "There are no generated keys: an offset (KAFKA_OFFSET) or a key of the data tells rows apart.",
    **dict.fromkeys(
        ("GENERATED", "IDENTITY"), "Compute the value in a view: SELECT STREAM *, x + y AS z FROM s."
    ),
    "OVERWRITE": "A pump into a table with a PRIMARY KEY replaces the rows of the same keys.",
    "TABLESAMPLE": "WHERE MOD(x, 10) = 0 takes some of the rows, the same ones at each replay.",
    **dict.fromkeys(("PIVOT", "UNPIVOT"), "SUM(x) FILTER (WHERE k = 'a') is one column of a pivot."),
    "MATCH_RECOGNIZE": "Pattern matching is not supported: LAG(x) OVER (..), a windowed join or a model compares rows.",
    **dict.fromkeys(("OVERLAPS", "PRECEDES", "SUCCEEDS"), _PERIODS),
    "ISNULL": "Write x IS NULL.",
    "NOTNULL": "Write x IS NOT NULL.",
    "DIV": "x / y of integers is an integer, towards zero.",
    "MOD": "x % y or MOD(x, y) is the remainder.",
    "XOR": "x <> y of conditions is TRUE where one of them is; x # y is the exclusive or of bits.",
    "COLLATE": "Text is compared by code points; LOWER(x) makes the case the same.",
    "SETTINGS": "Options of the service are in its configuration file.",
}
_AFTER: Mapping[str, str] = {
    **{
        word: _AT[word]
        for word in ("RLIKE", "REGEXP", "GLOB", "CONTAINS", "DIV", "MOD", "TABLESAMPLE", "XOR")
    },
    **{
        word: _AT[word]
        for word in ("ANTI", "SEMI", "MATCH_RECOGNIZE", "PIVOT", "UNPIVOT", "OVERLAPS", "ASOF")
    },
    "TOP": "LIMIT 10 after ORDER BY FLOOR(ROWTIME TO MINUTE), x DESC takes the first rows of each period.",
    **dict.fromkeys(("TUMBLING", "HOPPING"), _WINDOW),
    "OF": _AS_OF,
}
"""Hints by the previous word, which was read as a name."""
_WANTED: Mapping[tuple[str, str], str] = {
    (
        '"]"',
        ",",
    ): "There are no maps: list the values as columns, or keep them as JSON. An array is ARRAY[x, y].",
    ('"CHANGES"', "ON"): "Remove it: a group gives its final row when its window closes.",
    (
        '"CHANGES"',
        "STREAM",
    ): "EMIT CHANGES gives every change of a group; without it a group gives its final row.",
    (
        '"AS"',
        "WITH",
    ): "CREATE FOREIGN STREAM name SERVER name OPTIONS (topic 'name', format 'JSON') AS SELECT .. writes to a topic.",
    ('"AS"', "("): "A window is WINDOW name AS (ORDER BY ROWTIME RANGE INTERVAL '1' MINUTE PRECEDING). "
    + _WINDOW,
    (
        '"SCHEMA"',
        "",
    ): "SET SCHEMA '\"name\"' is all that SET sets; options of the service are in its configuration file.",
    (
        "a type",
        "FOR",
    ): "ORDER BY at WITHIN INTERVAL '5' SECOND in a view waits for rows that are out of order.",
    ("the end of the statement", "WITH"): _OPTIONS,
    ('"FROM"', ")"): "It is written SUBSTRING(x FROM start FOR length) or SUBSTRING(x, start, length).",
    (
        "a unit such as",
        "",
    ): "It is written EXTRACT(YEAR FROM x); units are YEAR to MILLISECOND, WEEK, DOW, DOY, EPOCH and others.",
    (
        "an expression",
        "SOME",
    ): "BOOL_OR(x) is TRUE if a row is; = SOME (SELECT ..) compares with the rows of a query.",
    ('"SELECT"', "ANALYZE"): "EXPLAIN shows the plan; rowtide explain PIPELINE shows that of each relation.",
    ("the end of the statement", "USING"): _MERGED,
    ("the end of the statement", "FROM"): _MERGED,
    ('"FROM" after DELETE', ""): "Write DELETE FROM table WHERE ..",
    ("the end of the statement", "RETURNING"): "A SELECT shows the rows of a table.",
    ('"AS"', ","): "It is written CAST(x AS type).",
    ('")"', "AS"): "TRY_CAST(x AS type) gives NULL where a value does not fit; other functions take commas.",
    ('")"', "VALUE"): _MAKE_JSON,
    ("the end of the statement", "CROSS"): _AT["APPLY"],
}
"""Hints by the expected syntax, or a part of it, and the actual word or sign ('' for any)."""

_UNSUPPORTED: Mapping[str, str] = {
    "CREATE PROCEDURE": _MODELS,
    "CREATE TYPE": "Write out the columns: there are no types of one's own.",
    **dict.fromkeys(
        ("CREATE USER", "CREATE ROLE", "GRANT", "REVOKE"), "Rights are those of the broker and the database."
    ),
    **dict.fromkeys(
        ("COMMIT", "ROLLBACK"), "The service commits by itself: output and positions in one transaction."
    ),
    "ON CONFLICT": _KEYS,
    "NOT ENFORCED": "Remove it: a row replaces the row of its PRIMARY KEY.",
    "EXCLUDE": "SUM(x) OVER w - x is the sum without the current row.",
    "GROUP BY": "UNION ALL of one grouped query a grouping gives the same rows.",
    "TABLE(...)": "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ROWTIME), INTERVAL '1' MINUTE)) makes windows. "
    + _WINDOW,
    "a function in FROM": _NO_FUNCTION,
    "a row of values": "Compare each value: a.x = b.x AND a.y = b.y; " + _PERIODS,
    "a query as an argument": "Put the query into FROM (..), or into parentheses of its own for one value.",
    "CURSOR(...)": "write CURSOR in FROM: SELECT STREAM .. FROM TABLE(f(CURSOR(SELECT STREAM ..), ..)) AS t.",
    "WITH TIES": "QUALIFY RANK() OVER (ORDER BY x DESC) <= 3 takes equal rows, too; over a stream with a period in "
    "PARTITION BY.",
    "ORDER BY inside": "LISTAGG, ARRAY_AGG, JSON_ARRAYAGG and percentiles take ORDER BY; MAX_BY(x, y) gives the x "
    "of the greatest y.",
    "DESC in": "The first of the values that are equally frequent is the result.",
}

FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "UUID",
            "GEN_RANDOM_UUID",
            "NEWID",
            "UUID_GENERATE_V4",
            "RANDOM_UUID",
            "UUIDV4",
            "UUIDV7",
            "GENERATE_UUID",
        ),
        "There are no random values: results depend on the data alone. CAST(MD5(x) AS UUID) makes one of a key.",
    ),
    **dict.fromkeys(("RANDOM", "RAND", "RAND_INTEGER", "RANDOMBLOB"), _RANDOM),
    **dict.fromkeys(("JSON_EXTRACT", "EXTRACTJSONFIELD", "GET_JSON_OBJECT", "JSON_EXTRACT_PATH_TEXT"), _JSON),
    **dict.fromkeys(("JSON_AGG", "JSONB_AGG", "JSON_OBJECT_AGG", "JSONB_OBJECT_AGG"), _MAKE_JSON),
    **dict.fromkeys(
        ("JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT", "JSON_BUILD_ARRAY", "ROW_TO_JSON"), _MAKE_JSON
    ),
    "ISNULL": "COALESCE(x, y) gives y where x is NULL; x IS NULL asks whether it is.",
    "ZEROIFNULL": "Write COALESCE(x, 0).",
    "NULLIFZERO": "Write NULLIF(x, 0).",
    "ROW": "There are no row values: write the columns one by one.",
    **dict.fromkeys(
        ("STRSPLIT", "STRING_SPLIT"),
        "STRING_TO_ARRAY(x, ',') is the array of the parts of a text, SPLIT_PART(x, ',', n) the nth part.",
    ),
    **dict.fromkeys(("ARRAY_LENGTH", "ARRAY_SIZE", "SIZE", "ARRAY_UPPER"), "CARDINALITY(a) counts elements."),
    "ELEMENT_AT": "Write a[1] for the first element of an array.",
    "ARRAY_JOIN": "Write ARRAY_TO_STRING(a, ', ').",
    "ARRAY_SLICE": "Write a[1:2] for the first two elements of an array.",
    "ARRAYS_OVERLAP": "EXISTS and UNNEST, or x = ANY (a), ask what arrays hold.",
    **dict.fromkeys(("REGEXP_MATCHES", "REGEXP_MATCH", "REGEXP"), _REGULAR),
    "REGEXP_SPLIT_TO_ARRAY": "REGEXP_EXTRACT(x, 'expression', group) is a part of a text.",
    **dict.fromkeys(("TO_NUMBER", "TO_INT", "TOINT", "TO_DOUBLE", "TO_DECIMAL", "INT", "FLOAT"), _NUMBER),
    **dict.fromkeys(
        ("CONVERT", "SAFE_CAST", "TRY_CONVERT"),
        "CAST(x AS type) converts; TRY_CAST gives NULL where a value does not fit.",
    ),
    **dict.fromkeys(
        ("TO_VARCHAR", "TO_STRING", "STR", "STRING", "TEXT"),
        "CAST(x AS VARCHAR) or x::TEXT writes a value as text.",
    ),
    "DIV": "x / y of integers is an integer, towards zero.",
    **dict.fromkeys(
        ("GETDATE", "SYSDATETIME", "PROCTIME", "CLOCK_TIMESTAMP", "TRANSACTION_TIMESTAMP"), _CLOCK
    ),
    **dict.fromkeys(
        ("STATEMENT_TIMESTAMP", "CURDATE", "CURTIME", "UTC_TIMESTAMP", "CURRENT_WATERMARK"), _CLOCK
    ),
    "TIMEZONE": "x AT TIME ZONE 'Europe/Berlin' is the local time of a zone.",
    "TO_TIMESTAMP_LTZ": "CAST(TO_TIMESTAMP(seconds) AS TIMESTAMPTZ), or CAST(milliseconds AS TIMESTAMPTZ).",
    "TIMEDIFF": "x - y is the time between; TIMESTAMPDIFF(SECOND, x, y) counts units.",
    "STR_TO_DATE": "STRPTIME(text, '%Y-%m-%d') reads text in a format, TO_TIMESTAMP(text, 'YYYY-MM-DD') as well.",
    "STRINGTOTIMESTAMP": "Write PARSE_TIMESTAMP(text, pattern).",
    "TIMESTAMPTOSTRING": "Write FORMAT_TIMESTAMP(x, pattern).",
    "TIME_BUCKET": "Write DATE_BIN(INTERVAL '5 minutes', x), or STEP(x BY INTERVAL '5' MINUTE).",
    **dict.fromkeys(
        ("TUMBLE_ROWTIME", "TUMBLE_PROCTIME", "HOP_ROWTIME", "SESSION_ROWTIME"),
        "ROWTIME of a group is the end of its window.",
    ),
    **dict.fromkeys(("TUMBLINGWINDOW", "HOPPINGWINDOW", "SLIDINGWINDOW", "SESSIONWINDOW"), _WINDOW),
    **dict.fromkeys(
        ("COLLECT_LIST", "COLLECT_SET", "ARRAY", "LIST", "MAKE_ARRAY"),
        _ARRAYS,
    ),
    **dict.fromkeys(
        ("UNNEST", "EXPLODE", "POSEXPLODE", "INLINE", "FLATTEN", "JSON_TABLE"),
        _ROWS,
    ),
    **dict.fromkeys(
        (
            "JSON_ARRAY_ELEMENTS",
            "JSONB_ARRAY_ELEMENTS",
            "JSON_ARRAY_ELEMENTS_TEXT",
            "JSONB_ARRAY_ELEMENTS_TEXT",
        ),
        _ROWS,
    ),
    **dict.fromkeys(
        ("JSON_TO_RECORDSET", "JSONB_TO_RECORDSET", "JSON_EACH", "JSONB_EACH", "OPENJSON"), _ROWS
    ),
    "GROUP_CONCAT": "Write LISTAGG(x, ', ').",
    "APPROX_TOP_K": "MODE(x) is the most frequent value, HISTOGRAM(x) counts each.",
    **dict.fromkeys(
        ("COUNT_DISTINCT", "UNIQ", "HLL", "APPROX_DISTINCT", "APPROX_UNIQUE"),
        "COUNT(DISTINCT x) counts different values exactly, APPROX_COUNT_DISTINCT(x) with little state.",
    ),
    **dict.fromkeys(
        ("APPROX_QUANTILES", "PERCENTILE_APPROX", "TDIGEST"),
        "APPROX_PERCENTILE(x, 0.9) needs little state, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x) is exact.",
    ),
    "PERCENTILE": "Write PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x).",
    "QUANTILE": "Write PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x).",
    "AVERAGE": "Write AVG(x).",
    "MEAN": "Write AVG(x).",
    **dict.fromkeys(("ISNAN", "IS_NAN"), "Write x <> x: only NaN differs from itself."),
    "FIRST": "Write FIRST_VALUE(x).",
    "LAST": "Write LAST_VALUE(x).",
    "EXP_AVG": "CREATE AGGREGATE FUNCTION exp_avg(x DOUBLE, n INTEGER) RETURNS DOUBLE LANGUAGE PYTHON "
    "AS 'rowtide.functions.averages.ByCount' declares it.",
    "NTH_VALUE": "NTH_VALUE(x, n) OVER (..) is the nth value of a window.",
    "COLLECT": _ARRAYS,
    **dict.fromkeys(("LOCF", "FILL", "BFILL", "FFILL"), _CARRIED),
    **dict.fromkeys(
        ("TIME_BUCKET_GAPFILL", "GAP_FILL", "DATE_BIN_GAPFILL", "GENERATE_SERIES", "SEQUENCE"), _EACH_PERIOD
    ),
    **dict.fromkeys(("INTERPOLATE", "LINEAR_INTERPOLATE"), _LINES),
    "DATALENGTH": "Write OCTET_LENGTH(x).",
    "CHAR": "Write CHR(n).",
    "IFF": "Write IF(condition, x, y).",
    "SWITCH": "Write CASE WHEN condition THEN x ELSE y END.",
    "SUBSTRING_INDEX": "SPLIT_PART(x, ',', n) is the nth part of a text.",
    **dict.fromkeys(
        (
            "URL_EXTRACT_HOST",
            "URL_EXTRACT_PATH",
            "URL_EXTRACT_PROTOCOL",
            "URL_EXTRACT_PARAMETER",
        ),
        "CREATE FUNCTION uri_part(uri VARCHAR, name VARCHAR(9)) RETURNS VARCHAR LANGUAGE PYTHON AS "
        "'rowtide.functions.uri.part' declares it; uri_part(x, 'host') is the host.",
    ),
    "MID": "Write SUBSTRING(x FROM start FOR length).",
    "USER": "A pipeline has no users.",
}
"""Hints for functions that do not exist."""

COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("SYSDATE", "SYSTIMESTAMP", "SYSTIME"), _CLOCK),
    **dict.fromkeys(("CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"), "A pipeline has no users."),
    **dict.fromkeys(
        ("WINDOW_START", "WINDOWSTART"),
        "TUMBLE_START(ROWTIME, INTERVAL '1' MINUTE) is the start of a group's window. " + _WINDOW,
    ),
    **dict.fromkeys(("WINDOW_END", "WINDOWEND"), "ROWTIME of a group is the end of its window. " + _WINDOW),
    "ROWNUM": "ROW_NUMBER() OVER (..) numbers rows.",
    "ROWID": "KAFKA_PARTITION and KAFKA_OFFSET identify a row of a foreign stream.",
    **dict.fromkeys(
        ("ROWOFFSET", "ROWPARTITION"), "KAFKA_PARTITION and KAFKA_OFFSET are the position of a message."
    ),
    **dict.fromkeys(("_TIME", "EVENT_TIME"), "ROWTIME is the time of the row."),
}
"""Hints for names that exist in other systems without a relation."""

TYPES: Mapping[str, str] = {
    **dict.fromkeys(("DATETIME", "DATETIME2", "SMALLDATETIME"), "Write TIMESTAMP."),
    "TIMETZ": "Write TIME: all times of day are UTC.",
    **dict.fromkeys(("VARIANT", "SUPER", "OBJECT"), "Write JSON, or list the fields as columns."),
    **dict.fromkeys(
        ("MAP", "STRUCT", "MULTISET"),
        "There are no such values: list them as columns, or keep them as JSON.",
    ),
    **dict.fromkeys(
        ("ARRAY", "LIST"),
        "Write the type of the elements first: INTEGER ARRAY, or INTEGER[].",
    ),
    **dict.fromkeys(("UNIQUEIDENTIFIER", "GUID"), "Write UUID."),
    **dict.fromkeys(("SERIAL", "BIGSERIAL"), "Write BIGINT: there are no generated keys."),
    **dict.fromkeys(("MONEY", "NUMBER", "SMALLMONEY"), "Write DECIMAL(12, 2) for exact numbers."),
    **dict.fromkeys(("NVARCHAR", "NCHAR", "VARCHAR2", "CLOB", "LONGTEXT"), "Write VARCHAR: text is Unicode."),
    **dict.fromkeys(("LONG", "INT64", "UINT32", "UNSIGNED"), "Write BIGINT."),
    **dict.fromkeys(("INT32", "MEDIUMINT"), "Write INTEGER."),
    **dict.fromkeys(("FLOAT64", "DOUBLES"), "Write DOUBLE."),
    **dict.fromkeys(("BLOB", "IMAGE", "RAW"), "Write VARBINARY."),
    "BIT": "Write BOOLEAN.",
}
"""Hints for types that do not exist."""


def where_stopped(wanted: str, found: str, before: Sequence[str]) -> str | None:
    """Return the hint for a syntax error: what to write instead.

    ``found`` is the actual word or sign, a quote for any string; ``before`` are the two words before it, the
    last one first.
    """
    if wanted.startswith("CREATE, "):
        return _AT_STATEMENT.get(found)
    if wanted.startswith("SCHEMA, "):
        return _AT_CREATED.get(found)
    if found == "'" and before[:1] == ["E"]:
        return _QUOTED
    for (part, word), hint in _WANTED.items():
        if word in ("", found) and (part == wanted or (part in wanted and not part.startswith('"'))):
            return hint
    return _AT.get(found) or next((_AFTER[word] for word in before if word in _AFTER), None)


def for_unsupported(what: str) -> str | None:
    """Return the hint for a feature that is not supported yet: what to write instead."""
    return next((hint for part, hint in _UNSUPPORTED.items() if what.startswith(part)), None)
