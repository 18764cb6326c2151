"""Calls of functions that Rowtide shares with PostgreSQL or DuckDB: ``shared_functions`` says how to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from property.expr.shared_functions import Shared
from property.expr.shared_times import CASTS, TIMES

NULLS = "a IS NULL OR b IS NULL"
POSIX = "`SUBSTRING`, `REGEXP_*` use POSIX expressions"
UTF8 = "convert_to(a, 'UTF8')"


def near(ours: str, sorts: str = "DOUBLE", **others: object) -> Shared:
    return Shared(ours, sorts, is_near=True, **others)  # type: ignore[arg-type]


NUMBERS: Sequence[Shared] = (
    *(
        Shared(f"a {sign} b", f"{kind};{kind}", duckdb=None)
        for sign in "+-*/%"
        for kind in ("INTEGER", "BIGINT")
    ),
    *(Shared(f"a {sign} b", "DECIMAL;OTHER DECIMAL", duckdb=None) for sign in "+-*%"),
    Shared("CAST(a / b AS DECIMAL(30, 4))", "DECIMAL;OTHER DECIMAL", duckdb=None),
    *(Shared(f"a {sign} b", "DOUBLE;DOUBLE", duckdb=None) for sign in "+-"),
    Shared("a * b", "DOUBLE;DOUBLE", duckdb=None),
    Shared(
        "a * b",
        "TINY;TINY",
        duckdb=None,
        apart={"postgres": "a * b = 0 AND a <> 0 AND b <> 0"},
        line="a DOUBLE too near to zero is an error",
    ),
    Shared(
        "a / b", "DOUBLE;DOUBLE", duckdb=None, apart={"postgres": "a <> a AND b = 0"}, line="`NaN / 0` is NaN"
    ),
    Shared(
        "a / b",
        "TINY;TINY",
        duckdb=None,
        apart={"postgres": "CASE WHEN b = 0 THEN a <> a ELSE a / b = 0 AND a <> 0 AND b <= 1e308 END"},
        line="a DOUBLE too near to zero is an error",
    ),
    *(
        Shared(
            f"a {sign} b",
            "DOUBLE;DOUBLE",
            apart=dict.fromkeys(("postgres", "duckdb"), "a <> a OR b <> b"),
            line="NaN equals NaN",
        )
        for sign in ("=", "<>", "<", "<=", ">", ">=")
    ),
    *(Shared(f"a {sign} b", "DECIMAL;OTHER DECIMAL") for sign in ("=", "<>", "<", "<=", ">", ">=")),
    *(Shared(f"a {sign} b", "INTEGER;DECIMAL") for sign in ("=", "<", ">=")),
    Shared("-a", "BIGINT", duckdb=None),
    *(
        Shared("ABS(a)", kind, duckdb=None if kind == "INTEGER" else "abs(a)")
        for kind in ("INTEGER", "DECIMAL", "DOUBLE")
    ),
    Shared("MOD(a, b)", "INTEGER;INTEGER", duckdb=None),
    *(Shared("SIGN(a)", kind) for kind in ("BIGINT", "DECIMAL", "DOUBLE")),
    *(
        Shared(f"{name}(a)", kind)
        for name in ("FLOOR", "CEIL", "CEILING", "TRUNC")
        for kind in ("DECIMAL", "DOUBLE")
    ),
    Shared("ROUND(a)", "DECIMAL"),
    Shared(
        "ROUND(a)",
        "DOUBLE",
        apart={"postgres": "ABS(a) = 2.5e0 OR ABS(a) = 0.5e0"},
        line="`ROUND(2.5::float8)` is 2, half to even",
    ),
    Shared("ROUND(a, b)", "DECIMAL;FEW", duckdb=None),
    Shared("TRUNCATE(a, b)", "DECIMAL;FEW", postgres="trunc(a, b)", duckdb=None),
    Shared("ROUND(a, b)", "SOME DOUBLE;FEW", postgres="round(a::numeric, b)", duckdb=None),
    Shared("TRUNC(a, b)", "SOME DOUBLE;FEW", postgres="trunc(a::numeric, b)", duckdb=None),
    Shared("WIDTH_BUCKET(a, b, c, d)", "DECIMAL;DECIMAL;OTHER DECIMAL;FEW", duckdb=None),
    near("SQRT(a)", duckdb=None),
    near("CBRT(a)"),
    near("LN(a)", duckdb=None),
    near("LOG10(a)", postgres="log(a)", duckdb=None),
    near("LOG2(a)", postgres=None, apart={"duckdb": "a <= 0"}),
    near("LOG(a, b)", "SOME DOUBLE;SOME DOUBLE", postgres="log(a::numeric, b::numeric)", duckdb=None),
    near(
        "EXP(a)",
        duckdb=None,
        apart={"postgres": "a <= -1000 AND a >= -1e308"},
        line="a DOUBLE too near to zero is an error",
    ),
    *(
        near(
            call,
            "SOME DOUBLE;DOUBLE",
            postgres="power(a, b)",
            duckdb=None,
            apart={"postgres": "ABS(b) > 1000 AND ABS(b) <= 1e308 AND a <> 0 AND ABS(a) <> 1"},
            line="a DOUBLE too near to zero is an error",
        )
        for call in ("POWER(a, b)", "POW(a, b)", "a ^ b")
    ),
    near("2 * a ^ b ^ 2", "FEW;FEW", duckdb=None),
    near("-a ^ b", "FEW;FEW", duckdb=None),
    *(near(f"{name}(a)") for name in ("ATAN", "RADIANS", "TANH", "ASINH")),
    *(near(f"{name}(a)", duckdb=None) for name in ("SIN", "COS", "TAN", "ASIN", "ACOS", "ACOSH", "DEGREES")),
    *(
        near(
            f"{name}(a)",
            duckdb=None,
            apart={"postgres": "ABS(a) > 800 AND ABS(a) <= 1e308"},
            line="`SINH(1000)`, `COT(0)` and `ATANH(1)` are infinite",
        )
        for name in ("SINH", "COSH")
    ),
    near(
        "COT(a)",
        duckdb=None,
        apart={"postgres": "a = 0"},
        line="`SINH(1000)`, `COT(0)` and `ATANH(1)` are infinite",
    ),
    near(
        "ATANH(a)",
        duckdb=None,
        apart={"postgres": "ABS(a) = 1"},
        line="`SINH(1000)`, `COT(0)` and `ATANH(1)`",
    ),
    near("ATAN2(a, b)", "SOME DOUBLE;SOME DOUBLE"),
    near("PI() * a", "FEW"),
    *(Shared(f"{name}(a, b)", f"{kind};{kind}") for name in ("GCD", "LCM") for kind in ("INTEGER", "BIGINT")),
    Shared("FACTORIAL(a)", "FEW"),
    *(Shared(f"a {sign} b", f"{kind};{kind}") for sign in ("&", "|") for kind in ("INTEGER", "BIGINT")),
    Shared("a # b", "SMALLINT;INTEGER", duckdb="xor(a, b)"),
    Shared("~a", "SMALLINT"),
    *(
        Shared(
            f"a {sign} b",
            "INTEGER;FEW",
            duckdb=None,
            apart={"postgres": "b < 0"},
            line="shifts go by the count modulo 32",
        )
        for sign in ("<<", ">>")
    ),
    Shared("BIT_COUNT(a)", "INTEGER", postgres="bit_count(a::bit(32))"),
)

CHOICES: Sequence[Shared] = (
    *(
        Shared(
            f"{name}(a, b)",
            f"{kind};{kind}",
            apart=dict.fromkeys(("postgres", "duckdb"), NULLS),
            line="`GREATEST` and `LEAST` skip NULL",
        )
        for name in ("GREATEST", "LEAST")
        for kind in ("INTEGER", "TEXT", "DATE")
    ),
    *(Shared(f"{name}(a, b)", "TEXT;TEXT") for name in ("COALESCE", "NULLIF")),
    *(
        Shared(f"{name}(a, b)", "INTEGER;FEW", postgres="coalesce(a, b)", duckdb="coalesce(a, b)")
        for name in ("IFNULL", "NVL")
    ),
    Shared("NVL2(a, b, 7)", "INTEGER;FEW", "CASE WHEN a IS NOT NULL THEN b ELSE 7 END", None),
    *(
        Shared(
            f"{name}(a > b, a, b)",
            "INTEGER;FEW",
            "CASE WHEN a > b THEN a ELSE b END",
            "CASE WHEN a > b THEN a ELSE b END",
        )
        for name in ("IF", "IIF")
    ),
    *(Shared(f"a {word} b", "BOOLEAN;BOOLEAN") for word in ("AND", "OR", "=", "<", "IS DISTINCT FROM")),
    Shared("a BETWEEN SYMMETRIC b AND 5", "INTEGER;FEW", duckdb=None),
    Shared("a NOT IN (1, b, 7)", "INTEGER;FEW"),
)

TEXTS: Sequence[Shared] = (
    *(
        Shared(f"{name}(a)", "TEXT", 'upper(a COLLATE "C.utf8")', "upper(a)", {"duckdb": "a LIKE '%ß%'"})
        for name in ("UPPER", "UCASE")
    ),
    *(Shared(f"{name}(a)", "TEXT", 'lower(a COLLATE "C.utf8")', "lower(a)") for name in ("LOWER", "LCASE")),
    Shared("INITCAP(a)", "TEXT", 'initcap(a COLLATE "C.utf8")', None),
    *(
        Shared(f"{name}(a)", "TEXT", postgres="length(a)", duckdb="length(a)")
        for name in ("CHAR_LENGTH", "CHARACTER_LENGTH", "LENGTH", "LEN")
    ),
    Shared("OCTET_LENGTH(a)", "TEXT", duckdb="strlen(a)"),
    Shared("BIT_LENGTH(a)", "TEXT"),
    *(
        Shared(f"{name}(a, b, c)", "TEXT;FEW;FEW", postgres="substring(a, b, c)", duckdb=None)
        for name in ("SUBSTRING", "SUBSTR")
    ),
    Shared("SUBSTRING(a FROM b)", "TEXT;FEW", duckdb=None),
    Shared("TRIM(a)", "TEXT"),
    *(Shared(f"{name}(a, b)", "TEXT;PART") for name in ("LTRIM", "RTRIM")),
    Shared("BTRIM(a, b)", "TEXT;PART", duckdb=None),
    Shared("TRIM(BOTH b FROM a)", "TEXT;PART", duckdb="trim(a, b)"),
    Shared("POSITION(b IN a)", "TEXT;PART"),
    *(Shared(f"{name}(a, b)", "TEXT;PART", postgres="strpos(a, b)") for name in ("STRPOS", "INSTR")),
    *(
        Shared(f"{name}(b, a)", "TEXT;PART", postgres="strpos(a, b)", duckdb="strpos(a, b)")
        for name in ("LOCATE", "CHARINDEX")
    ),
    Shared("REPLACE(a, b, c)", "TEXT;PART;PART"),
    Shared(
        "OVERLAY(a PLACING b FROM c FOR d)",
        "TEXT;PART;FEW;FEW",
        duckdb=None,
        apart={"postgres": "d < 0"},
        line="`OVERLAY(x PLACING y FROM 3 FOR -1)` repeats",
    ),
    Shared("OVERLAY(a PLACING b FROM c)", "TEXT;PART;FEW", duckdb=None),
    *(
        Shared(
            f"{name}(a, b)",
            "TEXT;FEW",
            apart=dict.fromkeys(("postgres", "duckdb"), "b < 0"),
            line="`LEFT(x, -1)` leaves out the last character",
        )
        for name in ("LEFT", "RIGHT")
    ),
    *(Shared(f"{name}(a, b, c)", "TEXT;FEW;PART", duckdb=None) for name in ("LPAD", "RPAD")),
    *(Shared(f"{name}(a, b)", "TEXT;FEW", duckdb=None) for name in ("LPAD", "RPAD")),
    Shared("REPEAT(a, b)", "TEXT;FEW"),
    Shared("SPACE(a)", "FEW", postgres="repeat(' ', a)", duckdb=None),
    Shared("REVERSE(a)", "TEXT", duckdb=None),
    Shared("SPLIT_PART(a, b, c)", "TEXT;PART;FEW", duckdb=None),
    Shared("SPLIT_PART(a, 'a', -2)", "TEXT", duckdb=None),
    Shared("ASCII(a)", "TEXT", duckdb=None),
    Shared("CHR(a)", "CODE", duckdb=None),
    Shared("TRANSLATE(a, b, c)", "TEXT;TEXT;PART"),
    Shared("STARTS_WITH(a, b)", "TEXT;PART"),
    Shared("ENDS_WITH(a, b)", "TEXT;PART", postgres="right(a, length(b)) = b"),
    Shared("a || b", "TEXT;TEXT"),
    Shared(
        "CONCAT(a, b)",
        "TEXT;TEXT",
        apart=dict.fromkeys(("postgres", "duckdb"), NULLS),
        line="`CONCAT('a', NULL)` is `a`",
    ),
    Shared("CONCAT_WS(b, a, 'x', a)", "TEXT;PART"),
    Shared("CONCAT_WS('-', a, b)", "TEXT;TEXT"),
    Shared("a LIKE b", "TEXT;LIKE", postgres="a LIKE b ESCAPE ''"),
    Shared(
        "a LIKE b ESCAPE '!'",
        "TEXT;LIKE",
        duckdb=None,
        apart={"postgres": "b = 'a!b'"},
        line="`x LIKE 'a!b' ESCAPE '!'`",
    ),
    *(
        Shared(f"a LIKE '{pattern}'", "TEXT", postgres=f"a LIKE '{pattern}' ESCAPE ''")
        for pattern in ("%a%", "_%b", "a%,_", "%é%")
    ),
    Shared("a ILIKE b", "TEXT;LIKE", postgres="a ILIKE (b COLLATE \"C.utf8\") ESCAPE ''"),
    Shared("a SIMILAR TO b", "TEXT;SIMILAR", duckdb=None),
    *(Shared(f"a {sign} b", "TEXT;TEXT", postgres=f'a {sign} (b COLLATE "C")') for sign in ("=", "<", ">=")),
    Shared(
        "REGEXP_LIKE(a, b)",
        "TEXT;REGEX",
        duckdb="regexp_matches(a, b)",
        apart={"postgres": "b = '[[:alpha:]]+'"},
        line=POSIX,
    ),
    Shared("a ~ b", "TEXT;REGEX", duckdb=None, apart={"postgres": "b = '[[:alpha:]]+'"}, line=POSIX),
    Shared("a !~* b", "TEXT;REGEX", duckdb=None, apart={"postgres": "b = '[[:alpha:]]+'"}, line=POSIX),
    Shared(
        "REGEXP_COUNT(a, b)", "TEXT;REGEX", duckdb=None, apart={"postgres": "b = '[[:alpha:]]+'"}, line=POSIX
    ),
    Shared(
        "REGEXP_INSTR(a, b)", "TEXT;REGEX", duckdb=None, apart={"postgres": "b = '[[:alpha:]]+'"}, line=POSIX
    ),
    Shared(
        "REGEXP_SUBSTR(a, b)", "TEXT;REGEX", duckdb=None, apart={"postgres": "b = '[[:alpha:]]+'"}, line=POSIX
    ),
    *(
        Shared(
            f"{name}(a, b, c)",
            "TEXT;REGEX;PART",
            "regexp_replace(a, b, c, 'g')",
            "regexp_replace(a, b, c, 'g')",
            {"postgres": "b = '[[:alpha:]]+'"},
            POSIX,
        )
        for name in ("REGEXP_REPLACE", "REGEX_REPLACE")
    ),
    *(Shared(f"{name}(a)", "TEXT", postgres=None) for name in ("MD5", "SHA1", "SHA256")),
    *(Shared(f"SHA{n}(a)", "TEXT", f"encode(sha{n}({UTF8}), 'hex')", None) for n in (224, 256, 384, 512)),
    Shared("HEX(a)", "TEXT", f"upper(encode({UTF8}, 'hex'))"),
    *(Shared("TO_HEX(a)", kind, duckdb=None) for kind in ("INTEGER", "BIGINT")),
    Shared("UNHEX(a)", "HEX TEXT", "decode(a, 'hex')", None),
    Shared("DECODE(a, 'hex')", "HEX TEXT", duckdb=None),
    Shared("ENCODE(a, 'hex')", "TEXT", f"encode({UTF8}, 'hex')", None),
    *(
        Shared(call, "TEXT", f"encode({UTF8}, 'base64')", "base64(encode(a))")
        for call in ("TO_BASE64(a)", "ENCODE(a, 'base64')")
    ),
    *(
        Shared(call, "BASE64", "decode(a, 'base64')", None)
        for call in ("FROM_BASE64(a)", "DECODE(a, 'base64')")
    ),
    Shared("URL_ENCODE(a)", "TEXT", None, "replace(replace(url_encode(a), '%20', '+'), '~', '%7E')"),
    Shared("URL_DECODE(URL_ENCODE(a))", "TEXT", None, "a"),
    Shared("QUOTE_LITERAL(a)", "TEXT", duckdb=None),
    Shared("QUOTE_IDENT(a)", "TEXT", duckdb=None),
    # DuckDB counts bytes.
    Shared(
        "LEVENSHTEIN(a, b)",
        "TEXT;TEXT",
        postgres=None,
        apart={"duckdb": "OCTET_LENGTH(a || b) <> LENGTH(a || b)"},
    ),
)

ARRAYS: Sequence[Shared] = (
    Shared("CARDINALITY(a)", "INTEGERS", duckdb="len(a)"),
    Shared("ARRAY_POSITION(a, b)", "INTEGERS;FEW"),
    Shared("ARRAY_APPEND(a, b)", "INTEGERS;FEW", duckdb=None),
    Shared("ARRAY_PREPEND(b, a)", "TEXTS;PART", duckdb=None),
    *(
        Shared(f"{name}(a, b)", "INTEGERS;INTEGERS", postgres="array_cat(a, b)", duckdb=None)
        for name in ("ARRAY_CAT", "ARRAY_CONCAT")
    ),
    Shared("ARRAY_REMOVE(a, b)", "INTEGERS;FEW", duckdb=None),
    Shared("ARRAY_REPLACE(a, b, 9)", "INTEGERS;FEW", duckdb=None),
    Shared("ARRAY_TO_STRING(a, b)", "TEXTS;PART", duckdb=None),
    Shared("ARRAY_TO_STRING(a, ',', 'none')", "INTEGERS", duckdb=None),
    *(
        Shared(
            f"{name}(a, b)",
            "TEXT;PART",
            "string_to_array(a, b)",
            "string_split(a, b)",
            apart={"duckdb": "a = '' OR b = '' OR b IS NULL"},
        )
        for name in ("STRING_TO_ARRAY", "SPLIT")
    ),
    Shared("STRING_TO_ARRAY(a, NULLIF(b, ''), 'a')", "TEXT;PART", duckdb=None),
    Shared("ARRAY_CONTAINS(a, b)", "INTEGERS;FEW", postgres=None, apart={"duckdb": "b IS NULL"}),
    Shared("ARRAY_SORT(a)", "INTEGERS", None, "list_sort(a, 'ASC', 'NULLS LAST')"),
    Shared("ARRAY_REVERSE(a)", "TEXTS", None, "list_reverse(a)"),
    Shared("ARRAY_MIN(a)", "INTEGERS", None, "list_min(a)"),
    Shared("ARRAY_MAX(a)", "TEXTS", None, "list_max(a)"),
    Shared(
        "CARDINALITY(ARRAY_DISTINCT(a))",
        "TEXTS",
        "(SELECT count(*) FROM (SELECT DISTINCT unnest(a)) x) + 0 * cardinality(a)",
        None,
    ),
    Shared("a[b]", "INTEGERS;FEW", duckdb=None),
    Shared("b = ANY (a)", "INTEGERS;FEW", duckdb=None),
    *(
        Shared(f"a {sign} b", f"{kind};{kind}", duckdb=None)
        for sign in ("@>", "<@")
        for kind in ("INTEGERS", "TEXTS")
    ),
    Shared("b <> ALL (a)", "INTEGERS;FEW", duckdb=None),
)

NAMES_OF = "CASE WHEN a IS NOT NULL THEN (SELECT coalesce(array_agg(k), '{}'::text[]) FROM json_object_keys(a) k) END"
JSON_AT = "jsonb_path_query_first(a::jsonb, 'strict $.a', silent => true)"
JSON: Sequence[Shared] = (
    *(
        Shared(f"a {arrow} b", f"JSON;{sort}", duckdb=None)
        for arrow in ("->", "->>")
        for sort in ("MEMBER", "FEW")
    ),
    Shared("a ->> 'b'", "JSON", duckdb=None),
    Shared(
        "JSON_ARRAY_LENGTH(a)",
        "JSON",
        apart=dict.fromkeys(("postgres", "duckdb"), "a IS NOT NULL AND JSON_ARRAY_LENGTH(a) IS NULL"),
        line="`json_array_length` of what is not an array is an error",
    ),
    Shared(
        "JSONB_ARRAY_LENGTH(a)",
        "JSON",
        "json_array_length(a)",
        None,
        apart={"postgres": "a IS NOT NULL AND JSON_ARRAY_LENGTH(a) IS NULL"},
        line="`json_array_length` of what is not an array is an error",
    ),
    *(
        Shared(
            f"{name}(a)",
            "JSON",
            NAMES_OF,
            None if name == "JSON_OBJECT_KEYS" else "json_keys(a)",
            apart=dict.fromkeys(
                ("postgres", "duckdb"),
                'a IS NOT NULL AND JSON_KEYS(a) IS NULL OR CAST(a AS VARCHAR) = \'{"a": 1, "a": 2}\'',
            ),
            line="`json_object_keys` makes a row of each name",
        )
        for name in ("JSON_KEYS", "JSON_OBJECT_KEYS")
    ),
    *(Shared(f"a {sign} b", "JSON;JSON", f"a::jsonb {sign} b::jsonb", None) for sign in ("@>", "<@")),
    *(
        Shared(f"a @> '{part}'", "JSON", f"a::jsonb @> '{part}'", None)
        for part in ('{"a": {}}', "[1.0, 3]", '{"a": 1.5}', "[[2]]", "true", '[{"a": 1.0}]', "7e0")
    ),
    Shared(
        "JSON_VALUE(a, '$.a')",
        "JSON",
        f"CASE WHEN jsonb_typeof({JSON_AT}) IN ('object', 'array') THEN NULL ELSE {JSON_AT} #>> '{{}}' END",
        None,
    ),
    *(
        Shared(
            f"JSON_VALUE(a, '$.a' {clauses})",
            "JSON",
            f"json_value(a::jsonb, '$.a' {clauses})",
            None,
            {"postgres": "JSON_ARRAY_LENGTH(a) > 0"},
            "a path `$.a` of an array is that of its elements",
        )
        for clauses in (
            "NULL ON EMPTY NULL ON ERROR",
            "DEFAULT 'none' ON EMPTY",
            "DEFAULT 'none' ON EMPTY DEFAULT 'bad' ON ERROR",
            "DEFAULT 'none' ON EMPTY ERROR ON ERROR",
            "ERROR ON EMPTY DEFAULT 'bad' ON ERROR",
            "ERROR ON EMPTY ERROR ON ERROR",
            "RETURNING DECIMAL(6, 1) DEFAULT -1 ON EMPTY DEFAULT -2 ON ERROR",
            "RETURNING DECIMAL(6, 1) NULL ON EMPTY NULL ON ERROR",
            "RETURNING DECIMAL(6, 1) ERROR ON EMPTY DEFAULT 0 ON ERROR",
            "RETURNING DECIMAL(6, 1) ERROR ON EMPTY ERROR ON ERROR",
        )
    ),
    Shared(
        "JSON_QUERY(a, '$.a')",
        "JSON",
        f"CASE WHEN jsonb_typeof({JSON_AT}) IN ('object', 'array') THEN {JSON_AT} END",
        None,
    ),
    Shared("JSON_EXISTS(a, '$.a')", "JSON", f"CASE WHEN a IS NOT NULL THEN {JSON_AT} IS NOT NULL END"),
    *(
        Shared(
            "JSON_OBJECT('k' VALUE a, 'é\"' VALUE b)",
            f"{kind};TEXT",
            "json_build_object('k', a, 'é\"', b)",
            None,
        )
        for kind in ("INTEGER", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "JSON", "INTEGERS", "TEXTS")
    ),
    Shared("JSON_ARRAY(a, b NULL ON NULL)", "TEXT;BIGINT", "json_build_array(a, b)", None),
    *(
        Shared(f"{name}(a)", kind, "to_json(a)", None)
        for name in ("TO_JSON", "TO_JSONB")
        for kind in ("TEXT", "DECIMAL", "TEXTS", "JSON")
    ),
)

CALLS: Sequence[Shared] = (*NUMBERS, *CHOICES, *TEXTS, *ARRAYS, *JSON, *TIMES, *CASTS)

ALONE: Mapping[str, str] = {
    "TRY_CAST": "CAST, and NULL where it rejects",
    "FORMAT": "tests/integration/runtime/test_quotes_as_postgresql.py",
    **dict.fromkeys(
        ("FROM_UTC_TIMESTAMP", "FROM_TZ"), "tests/integration/runtime/test_instants_as_postgresql.py"
    ),
    "REGEXP_EXTRACT": "tests/property/expr/test_duckdb_agrees.py",
    **dict.fromkeys(("FIELD", "ELT", "CONVERT_TZ", "DATE_FORMAT"), "MySQL"),
    **dict.fromkeys(("TO_UTC_TIMESTAMP", "PARSE_URL", "CRC32"), "Spark"),
    **dict.fromkeys(("SPLIT_INDEX", "CURRENT_ROW_TIMESTAMP"), "Flink"),
    **dict.fromkeys(("FORMAT_TIMESTAMP", "FORMAT_DATE", "PARSE_TIMESTAMP", "PARSE_DATE"), "ksqlDB"),
    **dict.fromkeys(
        ("TIMESTAMP_TO_CHAR", "DATE_TO_CHAR", "TIME_TO_CHAR", "CHAR_TO_TIMESTAMP", "CHAR_TO_DATE"),
        "SQLstream",
    ),
    **dict.fromkeys(("CHAR_TO_TIME", "STEP"), "SQLstream"),
    **dict.fromkeys(("KAFKA_HEADER", "TYPEOF"), "no other system has its values"),
    **dict.fromkeys(
        ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "NOW", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"), "ROWTIME"
    ),
    "E": "a constant",
}
"""Functions that are compared elsewhere, or that only other systems have; the reason, or the place."""
