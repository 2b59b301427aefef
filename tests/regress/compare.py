# SPDX-License-Identifier: Apache-2.0
"""How an answer of Coeval differs from PostgreSQL's, and what is set aside: is not compared, or is known to be refused."""

import decimal
import re

from session import TOO_LONG

# What a difference is called, in the order in which they are looked for.
KINDS = {
    "crash": "an internal error, or no end",
    "state": "both refuse it, with other SQLSTATEs",
    "error": "Coeval alone refuses it",
    "no error": "PostgreSQL alone refuses it",
    "shape": "another number of columns, or rows where there should be none",
    "rows": "other rows",
    "order": "the same rows, in another order than was asked for",
    "scale": "numbers with other digits behind the point, equal in value",
    "digits": "numbers that are equal but for their last digits",
    "types": "other types of columns",
    "names": "other names of columns",
    "tag": "another tag",
    "step": "a transaction went on in one of them alone",
}

# Plans, and how values are written, are not compared: both sessions keep one format of dates.
NOT_RUN = re.compile(
    r"explain\b"
    r"|(re)?set\s+(local\s+|session\s+)?(datestyle|intervalstyle|extra_float_digits)\b"
    r"|reset\s+all\b",
    re.I,
)

# Names of types that Coeval has not got (docs/sql.md), where a type or a literal of it stands.
TYPES = (
    r"\b(point|box|circle|polygon|path|lseg|line|inet|cidr|macaddr8?|money|xml|int[48](multi)?range"
    r"|num(multi)?range|date(multi)?range|ts(tz)?(multi)?range|tsvector|tsquery|oidvector|int2vector|xid8?|cid|tid"
    r"|pg_snapshot|txid_snapshot|float8range|textrange|cashrange)\b\s*(\[|'|\)|,|$|\(|;|not|default|primary)"
)

# What Coeval refuses as a whole. A refusal says nothing about the file at hand.
REFUSED = re.compile(
    # Objects in other languages than SQL's tables, views, types and roles.
    r"^(create|alter|drop|comment\s+on|grant|revoke)\b.{0,40}?\b(function|procedure|routine|trigger|rule|aggregate|operator|cast"
    r"|materialized|event|publication|subscription|language|text\s+search|collation|statistics|policy|access\s+method"
    r"|foreign\s+(table|data)|user\s+mapping|transform|conversion|extension|tablespace)\b"
    # Statements without an equivalent.
    r"|^(do|explain|listen|notify|cluster|prepare\s+transaction|commit\s+prepared|rollback\s+prepared|security|refresh|call|load)\b"
    # Inheritance and partitions, samples, composite and range types, row security, what belongs to PostgreSQL's storage.
    r"|\binherits?\b|\bpartition\s+of\b|\bpartition\s+by\s+(range|list|hash)|\b(attach|detach)\s+partition|\btablesample\b"
    r"|^create\s+type\s+\S+\s+as\s*\(|^create\s+type\s+\S+\s*($|\()|^create\s+type\s+\S+\s+as\s+range"
    r"|enable\s+row\s+level|replica\s+identity|\bregproc|regoper|regprocedure|ctid|\bxmin\b|\bxmax\b|pg_temp_"
    r"|" + TYPES,
    re.I | re.S,
)

# The SQLSTATEs with which it does.
REFUSALS = {"0A000", "42601", "42703", "42704", "42883", "42P01"}

INTERNAL_ERRORS = {"XX000", "XX001", TOO_LONG}

# Types that Coeval shows as another one (docs/sql.md): "char", name, oid, regclass and their like.
SHOWN_AS = {
    18: 25, 19: 25, 24: 25, 26: 23, 28: 23, 705: 25, 1002: 1009, 1003: 1009, 1028: 1007, 2202: 23, 2203: 23, 2204: 23, 2205: 23,
    2206: 23, 3734: 23, 4072: 25, 4089: 23, 4096: 23,
}
# From here on types have numbers as they come.
FIRST_OWN_TYPE = 16384

NUMBERS = {20, 21, 23, 700, 701, 1700}
# By how much numbers may differ and count as `digits`.
LAST_DIGITS = 1e-9

ORDERED = re.compile(r"order\s+by(?!.*\))", re.I | re.S)


def difference(found, wanted, sql):
    """The kind of the difference between Coeval's answer and PostgreSQL's, or `None`."""
    if found.state or wanted.state:
        return difference_of_errors(found, wanted)
    if (found.columns is None) != (wanted.columns is None) or (found.copied is None) != (wanted.copied is None):
        return "shape"
    if wanted.columns is not None:
        if len(found.columns) != len(wanted.columns):
            return "shape"
        kind = difference_of_rows(found, wanted, sql) or difference_of_columns(found, wanted)
        if kind:
            return kind
    if found.copied != wanted.copied:
        return "order" if sorted(found.copied.split(b"\n")) == sorted(wanted.copied.split(b"\n")) else "rows"
    return None if found.tag == wanted.tag else "tag"


def difference_of_errors(found, wanted):
    if found.state == wanted.state:
        return None
    if found.state in INTERNAL_ERRORS:
        return "crash"
    if not found.state:
        return "no error"
    return "state" if wanted.state else "error"


def difference_of_columns(found, wanted):
    def kind(column):
        return SHOWN_AS.get(column[1], min(column[1], FIRST_OWN_TYPE))

    if [kind(column) for column in found.columns] != [kind(column) for column in wanted.columns]:
        return "types"
    return None if [name for name, _ in found.columns] == [name for name, _ in wanted.columns] else "names"


def difference_of_rows(found, wanted, sql):
    if found.rows == wanted.rows:
        return None
    if len(found.rows) != len(wanted.rows):
        return "rows"
    found_sorted, wanted_sorted = (
        sorted(answer.rows, key=lambda row: [(value is not None, value or "") for value in row]) for answer in (found, wanted)
    )
    if found_sorted == wanted_sorted:
        return "order" if ORDERED.search(sql) else None
    numbers = {at for at, (_, kind) in enumerate(wanted.columns) if kind in NUMBERS}
    in_place = difference_of_values(found.rows, wanted.rows, numbers)
    return in_place if in_place != "rows" else difference_of_values(found_sorted, wanted_sorted, numbers)


def difference_of_values(found, wanted, numbers):
    """The worst difference of two values: other ones, other digits, or another scale."""
    worst = None
    for found_row, wanted_row in zip(found, wanted):
        for at, (one, other) in enumerate(zip(found_row, wanted_row)):
            if one == other:
                continue
            if one is None or other is None or at not in numbers:
                return "rows"
            kind = difference_of_numbers(one, other)
            if kind == "rows":
                return kind
            worst = "digits" if kind == "digits" else worst or kind
    return worst


def difference_of_numbers(one, other):
    try:
        one, other = decimal.Decimal(one), decimal.Decimal(other)
        if one == other:
            return "scale"
        near = abs(float(one) - float(other)) <= LAST_DIGITS * max(abs(float(one)), abs(float(other)))
        return "digits" if near else "rows"
    except (ArithmeticError, ValueError):
        return "rows"


def is_refused_as_a_whole(sql, state):
    return state in REFUSALS and REFUSED.search(sql) is not None
