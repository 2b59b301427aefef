# SPDX-License-Identifier: Apache-2.0
"""Random expressions of all types, in queries of all kinds, which PostgreSQL has to answer in the same way.

    random_expressions.py INITDB [--seed N] [--count N]

Grammar as data: of each kind of thing a list of forms, in which `{kind}` stands for another. A query that is answered
differently is made shorter as a tree, each part replaced by what is within it, and printed. Rows are compared as texts (of
numbers their values) and errors by their SQLSTATE; what Coeval says it does not support (0A000) is not compared, but may be
no more than a few of a hundred. The same seed gives the same queries.
"""

import re

from checks import ADDRESS
from two_servers import Connection, Dice, Report, difference, options, postgresql

# The columns of each kind; of the second table they begin with an `r`.
COLUMNS = {
    "int": ("i", "int"),
    "bigint": ("b", "bigint"),
    "smallint": ("s", "smallint"),
    "numeric": ("n", "numeric(12, 3)"),
    "float": ("f", "float8"),
    "text": ("x", "text"),
    "bool": ("ok", "boolean"),
    "date": ("d", "date"),
    "time": ("tm", "time"),
    "timestamp": ("ts", "timestamp"),
    "instant": ("tz", "timestamptz"),
    "interval": ("iv", "interval"),
    "jsonb": ("js", "jsonb"),
    "ints": ("ai", "int[]"),
    "texts": ("at", "text[]"),
    "uuid": ("u", "uuid"),
    "bytes": ("by", "bytea"),
}

# Values of each kind.
LITERALS = {
    "int": ["0", "1", "-1", "2", "3", "7", "10", "100", "2147483647", "-7"],
    "bigint": ["0::bigint", "5::bigint", "-3::bigint", "10000000000", "9223372036854775807"],
    "smallint": ["1::smallint", "-2::smallint", "32767::smallint"],
    "numeric": ["1.5", "0.1", "-2.25", "100.001", "0.0", "23.456", "1e3", "2.50"],
    "float": ["1.5::float8", "'-0.25'::float8", "100::float8", "'NaN'::float8", "'Infinity'::float8", "0::float8", "0.1::float8"],
    "text": ["'a'", "'B'", "''", "'abc'", "'foo bar'", "' x '", "'12'", "'a%b_c'", "'a,b,c'"],
    "bool": ["true", "false", "NULL::boolean"],
    "date": ["date '2024-02-29'", "date '2023-12-31'", "date '2000-01-01'", "date '1969-07-20'"],
    "time": ["time '00:00'", "time '12:34:56.789'", "time '23:59:59'"],
    "timestamp": ["timestamp '2024-02-29 23:59:59.5'", "timestamp '2024-03-31 02:30'", "timestamp '1999-12-31'"],
    "instant": ["timestamptz '2024-03-31 01:30'", "timestamptz '2024-10-27 00:30+00'", "timestamptz '2020-01-01 12:00+05:30'"],
    "interval": ["interval '1 day'", "interval '-1 month 2 days'", "interval '36:00:01.5'", "interval '1 year 3 mons'", "interval '30 days'"],
    "jsonb": ["'1'::jsonb", "'\"s\"'::jsonb", "'null'::jsonb", "'[1, 2.0, \"a\"]'::jsonb", "'{\"a\": 1, \"b\": [true, null]}'::jsonb", "'{}'::jsonb", "'{\"a\": {\"b\": \"c\"}}'::jsonb"],
    "ints": ["ARRAY[1, 2, 3]", "'{}'::int[]", "'{NULL,5}'::int[]", "ARRAY[3, 1]"],
    "texts": ["ARRAY['a', 'b']", "'{}'::text[]", "'{\"x y\",NULL,\"\"}'::text[]"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "'00000000-0000-0000-0000-000000000000'::uuid"],
    "bytes": ["'\\x00ff'::bytea", "''::bytea", "'abc'::bytea"],
}

COMPARED = ["int", "bigint", "numeric", "float", "text", "date", "timestamp", "instant", "interval", "jsonb", "ints", "texts", "uuid", "bytes", "time", "bool"]

# Forms that all kinds have.
OF_ALL = [
    "CASE WHEN {bool} THEN {same} ELSE {same} END",
    "CASE {int} WHEN {int} THEN {same} WHEN {int} THEN {same} END",
    "coalesce({same}, {same})",
    "coalesce(NULL, {same}, {same})",
    "nullif({same}, {same})",
    "({same})",
]
ORDERED = ["greatest({same}, {same}, {same})", "least({same}, {same})", "greatest({same}, NULL, {same})"]

SUBQUERIES = [
    "(SELECT {same:r} FROM r WHERE r.id = t.id)",
    "(SELECT {same:r} FROM r WHERE {bool:r} ORDER BY r.id LIMIT 1)",
    "(SELECT {same:r} FROM r ORDER BY r.id DESC LIMIT 1 OFFSET 1)",
]

FORMS = {
    "int": [
        "{int} + {int}", "{int} - {int}", "{int} * {smallint}", "{int} / {int}", "{int} % {int}", "-{int}", "abs({int})",
        "length({text})", "strpos({text}, {text})", "ascii({text})", "octet_length({text})", "{date} - {date}",
        "cardinality({ints})", "array_length({texts}, 1)", "({ints})[{int}]", "array_position({ints}, {int})",
        "jsonb_array_length({jsonb})", "{numeric}::int", "{float}::int", "{bool}::int", "{int} & {int}", "{int} | {int}", "{int} # {int}",
        "{int} << 2", "extract(year FROM {date})::int", "extract(dow FROM {timestamp})::int", "date_part('day', {interval})::int",
        "sign({int})::int", "mod({int}, {int})", "width_bucket({numeric}, 0, 100, 5)", "bit_length({text})", "length({bytes})",
        "({jsonb} -> 'a')::int", "{text}::int", "(SELECT count(*) FROM r WHERE {bool:r})::int", "(SELECT max({int:r}) FROM r WHERE r.id < t.id)",
        "({jsonb} ->> 0)::int", "regexp_count({text}, 'a')", "cardinality(string_to_array({text}, ','))", "div({numeric}, {numeric})::int",
    ],
    "bigint": [
        "{bigint} + {int}", "{bigint} * {int}", "{bigint} - {bigint}", "{bigint} / {int}", "{bigint} % {bigint}", "{int}::bigint", "abs({bigint})",
        "{numeric}::bigint", "extract(epoch FROM {timestamp})::bigint", "(SELECT count({int:r}) FROM r WHERE {bool:r})",
        "(SELECT sum({int:r}) FROM r WHERE {bool:r})", "gcd({bigint}, {int})", "{text}::bigint", "factorial(5)::bigint",
    ],
    "smallint": ["{smallint} + {smallint}", "-{smallint}", "{int}::smallint", "{smallint} * {smallint}", "{smallint} / {smallint}"],
    "numeric": [
        "{numeric} + {numeric}", "{numeric} - {int}", "{numeric} * {numeric}", "{numeric} / {numeric}", "{numeric} % {numeric}", "-{numeric}",
        "abs({numeric})", "round({numeric}, 1)", "round({numeric})", "trunc({numeric}, 1)", "ceil({numeric})", "floor({numeric})",
        "{int}::numeric", "{int} / 2.0", "{float}::numeric(12, 2)", "{text}::numeric", "extract(epoch FROM {interval})", "extract(second FROM {time})",
        "{numeric}::numeric(10, 1)", "(SELECT sum({numeric:r}) FROM r WHERE {bool:r})", "(SELECT avg({int:r}) FROM r WHERE {bool:r})",
        "sqrt(abs({numeric}))", "ln(abs({numeric}) + 1)", "power({numeric}, 2)", "({jsonb} -> 'a')::numeric", "extract(epoch FROM {instant})", "to_number({text}, '999')", "mod({numeric}, {int})", "{bigint} + {numeric}",
    ],
    "float": [
        "{float} + {float}", "{float} * {float}", "{float} / {float}", "{float} - {numeric}", "-{float}", "abs({float})", "sqrt(abs({float}))",
        "{int}::float8", "{numeric}::float8", "floor({float})", "round({float})", "trunc({float})", "{int} * {float}", "power({float}, 2)", "{text}::float8",
        "(SELECT sum({float:r}) FROM r WHERE {bool:r})", "date_part('epoch', {timestamp})", "date_part('hour', {time})", "sign({float})", "degrees(0.5::float8)",
        "exp(1.5::float8)", "ln(abs({float}) + 1)", "cbrt({float})", "atan2({float}, 1.0)",
    ],
    "text": [
        "{text} || {text}", "upper({text})", "lower({text})", "substr({text}, {small})", "substr({text}, {small}, 2)", "left({text}, {small})", "right({text}, {small})",
        "replace({text}, 'a', {text})", "trim({text})", "lpad({text}, 5, '*')", "rpad({text}, 3)", "reverse({text})", "repeat({text}, 2)", "initcap({text})",
        "split_part({text}, ',', 2)", "{int}::text", "{numeric}::text", "{float}::text", "{bool}::text", "{date}::text", "{timestamp}::text", "{instant}::text",
        "{interval}::text", "{jsonb}::text", "{ints}::text", "{texts}::text", "{time}::text", "{uuid}::text", "{bytes}::text", "{jsonb} ->> 'a'", "{jsonb} #>> '{a,b}'",
        "({texts})[1]", "array_to_string({ints}, ',')", "array_to_string({texts}, ',', 'N')", "concat({text}, {int}, {bool})", "concat_ws('-', {text}, {date}, {numeric})",
        "{text} || {int}", "{text} || {numeric}", "format('%s:%s', {text}, {int})", "quote_literal({text})", "quote_ident({text})", "md5({text})", "translate({text}, 'abc', 'xy')",
        "regexp_replace({text}, '[a-c]', 'X', 'g')", "overlay({text} placing 'zz' from 2)", "to_char({int}, '9999')", "to_char({numeric}, 'FM990.00')",
        "to_char({timestamp}, 'YYYY-MM-DD HH24:MI:SS.US')", "to_char({date}, 'Day DD Mon')", "to_char({interval}, 'HH24:MI')", "jsonb_typeof({jsonb})", "pg_typeof({int})::text",
        "{text}::varchar(2)", "{text}::char(4)", "encode({bytes}, 'hex')", "(SELECT string_agg({text:r}, ',' ORDER BY r.id) FROM r WHERE {bool:r})", "chr(65 + abs({small}))",
        "(SELECT max({text:r}) FROM r WHERE {bool:r})", "btrim({text}, 'a ')", "row({int}, {text})::text", "to_json({text}::text)::text", "to_json({timestamp})::text", "to_json({ints})::text",
        "json_build_object('k', {int}, 'v', {texts})::text", "starts_with({text}, 'a')::text", "to_hex(abs({int}))", "(regexp_match({text}, '([a-z])(.)'))[2]", "substring({text} from '[a-c]+')",
    ],
    "bool": [
        "{any_comparison}", "{any_comparison}", "{any_comparison}", "{bool} AND {bool}", "{bool} OR {bool}", "NOT {bool}", "{bool} IS TRUE", "{bool} IS NOT FALSE", "{bool} IS UNKNOWN",
        "{any_null}", "{text} LIKE {text}", "{text} NOT LIKE 'a%'", "{text} ILIKE '%B%'", "{text} ~ '^[a-c]'", "{text} !~* 'B'", "{text} SIMILAR TO '(a|b)%'", "{int} IN ({int}, {int}, NULL)",
        "{text} NOT IN ('a', {text})", "{int} BETWEEN {int} AND {int}", "{numeric} NOT BETWEEN {int} AND {float}", "{date} BETWEEN {timestamp} AND {date}", "{int} = ANY ({ints})", "{text} <> ALL ({texts})",
        "{int} > ANY ({ints})", "{ints} @> {ints}", "{ints} && {ints}", "{texts} <@ {texts}", "{jsonb} @> {jsonb}", "{jsonb} ? 'a'", "{jsonb} ?| {texts}", "{jsonb} ?& array['a']",
        "({date}, {date}) OVERLAPS ({date}, {date})", "({int}, {text}) = ({int}, {text})", "({int}, {numeric}) < ({int}, {numeric})", "({int}, {text}) IS NULL", "({jsonb} ->> 'a') IS NOT NULL",
        "EXISTS (SELECT 1 FROM r WHERE {bool:r})", "NOT EXISTS (SELECT 1 FROM r WHERE r.id = t.id AND {bool:r})", "{int} IN (SELECT {int:r} FROM r WHERE {bool:r})",
        "{int} NOT IN (SELECT {int:r} FROM r WHERE {bool:r})", "{int} < ALL (SELECT {int:r} FROM r WHERE {bool:r})", "{text} = ANY (SELECT {text:r} FROM r)", "({int}, {text}) IN (SELECT {int:r}, {text:r} FROM r)",
        "{int} = (SELECT {int:r} FROM r WHERE r.id = t.id)", "isfinite({timestamp})", "{text}::boolean", "{int}::boolean", "{any_pair} IS DISTINCT FROM NULL", "starts_with({text}, {text})",
        "{date} < {timestamp}", "{timestamp} < {instant}", "{date} = {instant}", "{int} = {numeric}", "{numeric} > {float}", "{bigint} <= {smallint}", "{jsonb} = {jsonb}", "bool({int})",
    ],
    "date": [
        "{date} + {small}", "{date} - {small}", "{timestamp}::date", "{instant}::date", "{text}::date", "make_date(2024, 2, 1 + abs({small}))", "(SELECT max({date:r}) FROM r WHERE {bool:r})",
        "date_trunc('month', {date})::date", "to_date('2024-05-06', 'YYYY-MM-DD')", "({date} + {interval})::date",
    ],
    "time": ["{timestamp}::time", "{time} + {interval}", "{time} - {interval}", "{instant}::time", "{interval}::time", "make_time(8, 15, 23.5)"],
    "timestamp": [
        "{timestamp} + {interval}", "{timestamp} - {interval}", "{date} + {interval}", "{date} - {interval}", "{date} + {time}", "date_trunc('month', {timestamp})", "date_trunc('hour', {timestamp})",
        "{date}::timestamp", "{instant}::timestamp", "{instant} AT TIME ZONE 'America/New_York'", "{text}::timestamp", "date_bin('15 minutes', {timestamp}, timestamp '2020-01-01')",
        "(SELECT min({timestamp:r}) FROM r WHERE {bool:r})", "{interval} + {date}", "localtimestamp(0) - localtimestamp(0) + {timestamp}",
    ],
    "instant": [
        "{instant} + {interval}", "{instant} - {interval}", "date_trunc('day', {instant})", "{timestamp}::timestamptz", "{date}::timestamptz", "{timestamp} AT TIME ZONE 'Asia/Tokyo'",
        "{text}::timestamptz", "to_timestamp({small} * 100000)", "date_trunc('month', {instant}, 'Asia/Tokyo')", "coalesce({instant}, {timestamp})", "CASE WHEN {bool} THEN {date} ELSE {instant} END",
    ],
    "interval": [
        "{interval} + {interval}", "{interval} - {interval}", "-{interval}", "{interval} * {small}", "{interval} / 2", "{interval} * 0.3", "{timestamp} - {timestamp}", "{instant} - {instant}",
        "{timestamp} - {date}", "age({timestamp}, {timestamp})", "justify_days({interval})", "justify_interval({interval})", "make_interval(days => {small})", "{time} - {time}", "{time}::interval",
        "date_trunc('hour', {interval})", "{text}::interval", "(SELECT sum({interval:r}) FROM r WHERE {bool:r})", "(SELECT avg({interval:r}) FROM r WHERE {bool:r})", "(SELECT max({interval:r}) FROM r)",
        "({small} || ' days')::interval",
    ],
    "jsonb": [
        "{jsonb} || {jsonb}", "{jsonb} -> 'a'", "{jsonb} -> 0", "{jsonb} - 'a'", "{jsonb} #> '{b,0}'", "jsonb_set({jsonb}, '{a}', {jsonb})", "to_jsonb({int})", "to_jsonb({text}::text)", "to_jsonb({numeric})",
        "to_jsonb({ints})", "to_jsonb({texts})", "to_jsonb({timestamp})", "to_jsonb({instant})", "to_jsonb({bool})", "to_jsonb({date})", "jsonb_build_object('a', {int}, 'b', {text})", "jsonb_build_array({int}, {text}, {bool})",
        "jsonb_strip_nulls({jsonb})", "{text}::jsonb", "(SELECT jsonb_agg({int:r} ORDER BY r.id) FROM r WHERE {bool:r})", "(SELECT jsonb_object_agg(r.id, {text:r}) FROM r)", "{jsonb} - 1", "jsonb_build_object({text}, {jsonb})",
        "(SELECT jsonb_agg({jsonb:r} ORDER BY r.id) FROM r)", "to_jsonb({interval})", "to_jsonb({uuid})",
    ],
    "ints": [
        "ARRAY[{int}, {int}]", "{ints} || {ints}", "{ints} || {int}", "array_append({ints}, {int})", "array_remove({ints}, {int})", "({ints})[1:2]", "array_cat({ints}, {ints})", "array_prepend({int}, {ints})",
        "ARRAY(SELECT {int:r} FROM r ORDER BY r.id)", "(SELECT array_agg({int:r} ORDER BY r.id) FROM r WHERE {bool:r})", "array_replace({ints}, {int}, {int})", "array_fill({int}, ARRAY[2])", "trim_array({ints}, 1)", "{text}::int[]",
        "array_positions({ints}, {int})",
    ],
    "texts": [
        "ARRAY[{text}, {text}]", "{texts} || {text}", "string_to_array({text}, ',')", "{ints}::text[]", "array_cat({texts}, {texts})", "regexp_split_to_array({text}, ',')", "regexp_match({text}, '(a)(.)')", "string_to_array({text}, NULL)",
        "(SELECT array_agg({text:r}::text ORDER BY {int:r} DESC NULLS LAST, r.id) FROM r)", "array_remove({texts}, 'a')", "{text}::text[]",
    ],
    "uuid": [],
    "bytes": ["{bytes} || {bytes}", "convert_to({text}, 'UTF8')", "decode('00ff', 'hex')", "sha256({bytes})", "{text}::bytea"],
    "small": ["0", "1", "2", "3", "-1", "-2", "5", "12"],
}

# Outputs of a grouped query.
AGGREGATES = [
    "count(*)", "count({any})", "count(DISTINCT {countable})", "sum({int})", "sum({bigint})", "sum({numeric})", "sum({float})", "sum({interval})", "avg({int})", "avg({numeric})", "avg({float})", "avg({interval})",
    "sum(DISTINCT {int})", "min({ordered})", "max({ordered})", "min({interval})", "max({interval})", "max({ints})", "bool_and({bool})", "bool_or({bool})", "every({bool})", "string_agg({text}, ',' ORDER BY {text}, {id})",
    "array_agg({int} ORDER BY {id})", "array_agg(DISTINCT {int})", "array_agg({date} ORDER BY {int} DESC NULLS LAST, {id})", "jsonb_agg({text}::text ORDER BY {id})", "sum({int}) FILTER (WHERE {bool})", "count(*) FILTER (WHERE {bool})",
    "stddev({int})", "variance({float})", "var_pop({numeric})", "stddev_samp({numeric})", "bit_and({int})", "bit_or({int})", "corr({int}, {int})", "percentile_cont(0.5) WITHIN GROUP (ORDER BY {float})",
    "array_agg({text}::text ORDER BY {id}) FILTER (WHERE {bool})", "jsonb_object_agg({id}, {int})", "max({numeric}) - min({numeric})", "sum({int}) + count(*)", "coalesce(sum({int}), 0)", "regr_count({int}, {int})",
    "covar_pop({int}, {smallint})", "json_agg({int} ORDER BY {id})::text", "string_agg(DISTINCT {text}, ',')", "array_agg({interval} ORDER BY {interval}, {id})", "array_agg({jsonb} ORDER BY {jsonb}, {id})",
]

FRAMES = [
    "", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", " ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    " ROWS 2 PRECEDING", " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
]

WINDOWED = [
    "row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)", "lag({any})", "lead({int}, 2, 0)", "lag({text}, 1, 'none')", "first_value({any})", "last_value({any})", "nth_value({int}, 2)", "count(*)", "count({any})",
    "sum({int})", "sum({float})", "sum({numeric})", "avg({int})", "avg({float})", "min({int})", "max({text})", "sum({interval})", "avg({interval})", "array_agg({int})", "string_agg({text}, ',')", "bool_or({bool})", "sum({int}) FILTER (WHERE {bool})", "stddev({float})", "variance({int})", "jsonb_agg({int})", "max({interval})", "min({date})",
]

FORMS |= {
    "any_pair": ["{" + kind + "}" for kind in COMPARED],
    "any_null": [f"{{{kind}}} IS {negated}NULL" for kind in COMPARED for negated in ("", "NOT ")],
    "any_comparison": [f"{{{kind}}} {op} {{{kind}}}" for kind in COMPARED for op in ("=", "<>", "<", ">=", "IS DISTINCT FROM")],
    "any": ["{" + kind + "}" for kind in COLUMNS],
    "countable": ["{" + kind + "}" for kind in COMPARED if kind not in ("interval", "jsonb")],
    "ordered": ["{" + kind + "}" for kind in ("int", "bigint", "numeric", "float", "text", "date", "timestamp", "instant", "time", "ints")],
    "aggregate": AGGREGATES,
    "frame": FRAMES,
    "key": ["x", "i", "ok", "d", "n", "tz", "f", "u", "at", "i % 3", "upper(x)", "coalesce(i, {int})", "CASE WHEN {bool} THEN x END", "date_trunc('month', ts)", "x IS NULL", "length(x)", "d + {interval}", "js ->> 'a'"],
    "sortable": ["{" + kind + "}" for kind in ("int", "bigint", "numeric", "float", "text", "date", "timestamp", "instant", "time")],
    "sort": ["{ordered}", "{sortable} DESC", "{sortable} NULLS FIRST", "{sortable} DESC NULLS LAST", "{interval}", "{jsonb} DESC"],
    "window": [f"{call} OVER ({partition}ORDER BY {{sort}}, {{id}}{{frame}})" for call in WINDOWED for partition in ("", "PARTITION BY {key} ")]
    + ["{window_sum} OVER (PARTITION BY {key})", "sum(count(*)) OVER ()", "count({any}) OVER ()", "{window_sum} OVER (ORDER BY {int} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)", "{window_sum} OVER (ORDER BY {date} RANGE BETWEEN '10 days' PRECEDING AND CURRENT ROW)"],
    "window_sum": ["sum({int})", "count(*)", "min({text})", "max({numeric})", "avg({int})"],
    "where": ["", " WHERE {bool}", " WHERE {bool}", " WHERE {bool} AND {bool}"],
    "from_one": ["t"],
    "joined": [
        "t JOIN r USING (id)", "t LEFT JOIN r USING (id)", "t RIGHT JOIN r USING (id)", "t FULL JOIN r USING (id)", "t JOIN r ON t.id = r.id AND {bool:r}", "t LEFT JOIN r ON t.id = r.id AND {bool:r}", "t CROSS JOIN r", "t NATURAL JOIN r",
        "t LEFT JOIN r ON {int} = {int:r}", "t JOIN r ON {text} = {text:r}", "t, LATERAL (SELECT * FROM r WHERE r.id <= t.id ORDER BY r.id DESC LIMIT 2) r", "t LEFT JOIN LATERAL (SELECT * FROM r WHERE {bool:r}) r ON true",
        "t FULL JOIN r ON t.id = r.id", "t RIGHT JOIN r ON t.id = r.id AND {int} > 1", "t JOIN r ON {numeric} >= {numeric:r}",
    ],
    "query": [
        "SELECT {any} AS o FROM t{where}", "SELECT {any} AS o FROM t{where}", "SELECT {any} AS o, {any} AS p FROM t{where}", "SELECT {any} AS o FROM t{where}", "SELECT t.id, {any:r} AS o FROM {joined}", "SELECT {any:r} AS o, {any:r} AS p FROM {joined} WHERE {bool:r}",
        "SELECT {aggregate} AS o FROM t{where}", "SELECT {key} AS k, {aggregate} AS o FROM t{where} GROUP BY 1", "SELECT {key} AS k, {aggregate} AS o FROM t{where} GROUP BY {key}", "SELECT {key} AS k, {aggregate} AS o, {aggregate} AS p FROM t{where} GROUP BY k",
        "SELECT x, ok, {aggregate} AS o FROM t GROUP BY ROLLUP (x, ok)", "SELECT x, ok, {aggregate} AS o, grouping(x, ok) FROM t GROUP BY CUBE (x, ok)", "SELECT i, x, {aggregate} AS o FROM t{where} GROUP BY GROUPING SETS ((i), (x), ())",
        "SELECT x, {aggregate} AS o FROM t GROUP BY x, ROLLUP (ok)", "SELECT x, {aggregate} AS o FROM t GROUP BY x HAVING {aggregate_condition}", "SELECT id, {window} AS o FROM t{where}", "SELECT id, {window} AS o FROM t{where}",
        "SELECT {int} AS o FROM t{where} {set} SELECT {int:r} FROM r", "SELECT {text} AS o FROM t{where} {set} SELECT {text:r} FROM r", "SELECT {date} AS o FROM t {set} SELECT {timestamp:r} FROM r", "SELECT {int} AS o FROM t {set} SELECT {numeric:r} FROM r",
        "SELECT {instant} AS o FROM t {set} SELECT {timestamp:r} FROM r", "SELECT {jsonb} AS o FROM t UNION ALL SELECT {jsonb:r} FROM r", "SELECT DISTINCT {countable} AS o FROM t{where}", "SELECT DISTINCT ON (x) x, {any} AS o, id FROM t{where} ORDER BY x, id",
        "SELECT DISTINCT ON ({int}) {any} AS o FROM t ORDER BY {int}, id", "SELECT o FROM (SELECT {any} AS o, {int} AS p FROM t{where}) q WHERE p IS NOT NULL", "SELECT * FROM (SELECT id, {any} AS o FROM t ORDER BY {sort}, id) q LIMIT 3",
        "WITH q AS (SELECT id, {int} AS o FROM t{where}) SELECT a.o, b.o AS p FROM q a JOIN q b USING (id)", "WITH q AS (SELECT id, {any} AS o FROM t) SELECT count(o), count(*) FROM q", "SELECT {any} AS o FROM t ORDER BY {sort}, id LIMIT 4",
        "SELECT id, {any} AS o FROM t ORDER BY 1 LIMIT 3 OFFSET 2", "SELECT unnest({ints}) AS o FROM t", "SELECT t.id, e FROM t, unnest({texts}) e", "SELECT t.id, e FROM t CROSS JOIN generate_series(1, {small}) e", "SELECT jsonb_array_elements({jsonb}) AS o FROM t WHERE jsonb_typeof(js) = 'array'",
        "SELECT count(r.*) AS o, count(r.id) FROM t LEFT JOIN r USING (id)", "SELECT count(*) FROM (SELECT DISTINCT {countable}, {countable} FROM t) q", "SELECT (SELECT {aggregate_r} FROM r WHERE r.id < t.id) AS o FROM t", "SELECT {key} AS k, (SELECT {aggregate_r} FROM r WHERE {bool:r}) AS o FROM t",
        "SELECT sum(o) FROM (SELECT {aggregate_number} AS o FROM t GROUP BY {key}) q", "VALUES ({int}), ({int})".replace("{int}", "1"), "SELECT {any} AS o FROM (VALUES (1)) v(z), t WHERE t.id = 1", "SELECT k, {aggregate_q} AS o FROM (SELECT {key} AS k, {int} AS i2, id FROM t) q GROUP BY k",
        "SELECT id, o FROM (SELECT id, {any} AS o, row_number() OVER (PARTITION BY {key} ORDER BY id) AS n2 FROM t) q WHERE n2 <= 1",
    ],
    "set": ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"],
    "aggregate_condition": ["count(*) > 1", "max({int}) > 1", "bool_or({bool})", "sum({int}) IS NOT NULL"],
    "aggregate_r": ["max({int:r})", "count(*)", "sum({numeric:r})", "array_agg({int:r} ORDER BY r.id)", "string_agg({text:r}, ',' ORDER BY r.id)", "min({date:r})", "avg({float:r})", "sum({interval:r})", "bool_and({bool:r})"],
    "aggregate_number": ["sum({int})", "count(*)", "max({int})", "avg({int})", "sum({numeric})"],
    "aggregate_q": ["sum(i2)", "count(DISTINCT i2)", "max(i2) FILTER (WHERE i2 > 0)", "array_agg(i2 ORDER BY id)", "avg(i2)"],
}

PLACE = re.compile(r"(?<!')\{([a-z_]+)(:r)?\}")

# How deep an expression is.
DEPTH_MAX = 3

# Of a hundred queries that PostgreSQL answers.
UNSUPPORTED_MAX = 8


class Part:
    """A part of a query: its kind, the text between its parts, and these."""

    def __init__(self, kind, texts, parts):
        self.kind, self.texts, self.parts = kind, texts, parts

    def __str__(self):
        between = [str(part) for part in self.parts] + [""]
        return "".join(text + part for text, part in zip(self.texts, between))

    def within(self):
        """All parts of this one, the nearest first."""
        for part in self.parts:
            yield part
        for part in self.parts:
            yield from part.within()

    def places(self):
        """Each part as the list that it stands in and its place there, the outermost first."""
        for place in range(len(self.parts)):
            yield self.parts, place
        for part in self.parts:
            yield from part.places()


class Queries(Dice):
    """Makes rows and queries."""

    def rows(self, table, count):
        for number in range(1, count + 1):
            values = (
                "NULL" if self.chance(0.18) else self.one_of(*LITERALS[kind]).replace("'NaN'", "'2.5'") for kind in COLUMNS
            )
            yield f"INSERT INTO {table} VALUES ({number}, {', '.join(values)})"

    def definitions(self):
        for table, prefix, count in (("t", "", 12), ("r", "r", 7)):
            columns = ", ".join(f"{prefix}{name} {kind}" for name, kind in COLUMNS.values())
            yield f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})"
            yield from self.rows(table, count)

    def leaf(self, kind, inner):
        if self.chance(0.72):
            prefix = "r" if inner and self.chance(0.75) else ""
            return Part(kind, [prefix + COLUMNS[kind][0]], [])
        return Part(kind, [self.one_of(*LITERALS[kind])], [])

    def part(self, kind, inner=False, depth=0):
        """A random part of this kind; within a subquery it may name the columns of both tables."""
        if kind == "id":
            return Part(kind, ["t.id"], [])
        is_value = kind in COLUMNS
        if is_value and (depth >= DEPTH_MAX or self.chance(0.25 + 0.15 * depth)):
            return self.leaf(kind, inner)
        forms = FORMS[kind]
        if is_value:
            more = OF_ALL + (ORDERED if kind not in ("bool",) else [])
            more += [] if inner else SUBQUERIES
            forms = [form.replace("{same", "{" + kind) for form in more] if not forms or self.chance(0.2) else forms
        form = self.one_of(*forms)
        if inner and ("FROM r" in form or "r.id" in form):
            return self.leaf(kind, inner) if is_value else self.part(kind, inner, depth)
        texts, parts, end = [], [], 0
        for found in PLACE.finditer(form):
            texts.append(form[end:found.start()])
            end = found.end()
            name, is_inner = found[1], inner or bool(found[2])
            of_value = is_value or name in COLUMNS
            made = self.part(name, is_inner, depth + 1 if of_value else depth)
            if is_value and name in COLUMNS and made.parts:
                made = Part(made.kind, ["(", ")"], [made])
            parts.append(made)
        return Part(kind, [*texts, form[end:]], parts)


def shortest(query, differs):
    """The query with each part replaced by what is within it, as long as the answers differ in the same way."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for siblings, place in list(query.places()):
            part = siblings[place]
            simple = [Part(part.kind, [text], []) for text in LITERALS.get(part.kind, [])[:2]]
            if part.kind == "where":
                simple = [Part("where", [""], [])]
            candidates = [inner for inner in part.within() if inner.kind == part.kind]
            if part.parts:
                candidates += simple
            for candidate in candidates:
                siblings[place] = candidate
                if differs(query):
                    is_shorter = True
                    break
                siblings[place] = part
            if is_shorter:
                break
    return query


# What PostgreSQL alone refuses: constants that order nothing, and an array that a subquery in parentheses gives.
REFUSED = re.compile(r"non-integer constant in|operator does not exist: \w+ \S+ \w+\[\]")

# Beside these it is not said what is computed first, or at all.
UNORDERED = re.compile(r"WHERE|CASE|coalesce|JOIN|AND|OR|LIMIT|EXISTS|IN \(|FILTER|HAVING|EXCEPT|INTERSECT|nullif|ANY|ALL")


def kind_of_difference(query, wanted, found):
    """In what the answers to a query differ, `unsupported`, or `None`."""
    if wanted.state and REFUSED.match(wanted.message):
        return None
    failed = [answer for answer in (wanted, found) if (answer.state or "").startswith("22")]
    if len(failed) == 1 and not (wanted.state and found.state) and UNORDERED.search(str(query)):
        return None
    if found.state == "0A000":
        return "unsupported"
    if wanted.state and found.state and found.state not in ("XX000", "lost"):
        return None if wanted.state[:2] == found.state[:2] else "state"
    return difference(wanted, found)


def main(initdb, seed, count):
    queries, report, unsupported, kinds = Queries(seed), Report(), 0, {}
    settings = ["SET timezone = 'Europe/Berlin'"]
    ours_address = {("dbname" if key == "database" else key): value for key, value in ADDRESS.items()}
    ours = Connection(ours_address, *settings)
    with postgresql(initdb) as place:
        theirs = Connection(place, *settings, "SET statement_timeout = '10s'")
        for connection in (ours, theirs):
            connection.in_empty_schema("expressions")
        for statement in queries.definitions():
            ours.must(statement)
            theirs.must(statement)

        def both(query):
            wanted, found = theirs.run(str(query)), ours.run(str(query))
            if found.state == "lost":
                ours.open()
                ours.must("SET search_path = expressions")
            return wanted, found

        while report.scripts < count:
            query = queries.part("query")
            report.scripts += 1
            wanted, found = both(query)
            kind = kind_of_difference(query, wanted, found)
            report.statements += not wanted.state
            if kind == "unsupported":
                unsupported += 1
            elif kind:
                states = (wanted.state, found.state)

                def differs(changed):
                    answers = both(changed)
                    return kind_of_difference(changed, *answers) == kind and (kind != "error" or states == (answers[0].state, answers[1].state))

                query = shortest(query, differs)
                wanted, found = both(query)
                kinds[kind] = kinds.get(kind, 0) + 1
                report.differs(seed, [f"{query};"], f"{kind}\n  wanted {short(wanted, found)}\n  found  {short(found, wanted)}")
    print(f"seed {seed}: {unsupported} not supported, {kinds}")
    if unsupported * 100 > UNSUPPORTED_MAX * report.statements:
        raise SystemExit("too much is not supported")
    report.end(count // 4)


def short(answer, other):
    """What an answer has that the other has not."""
    if answer.rows is None or other.rows is None or sorted(answer.rows, key=repr) == sorted(other.rows, key=repr):
        return f"{answer.types} {answer}"[:300]
    return str([row for row in answer.rows if row not in other.rows][:3] or answer.rows[:6])[:300]


if __name__ == "__main__":
    chosen = options(400)
    main(chosen.initdb, chosen.seed, chosen.count)
