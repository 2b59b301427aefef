// SPDX-License-Identifier: Apache-2.0
//! What to do instead of what is not there: hints of `0A000`.

/// What is refused begins with the first, or ends with it if it begins with a star; the second is done instead.
const INSTEAD: &[(&str, &str)] = &[
    ("expression", "Make a unique index on it: CREATE UNIQUE INDEX ON t ((expression))."),
    (
        "CREATE TYPE",
        "For an enum: text, with a CHECK that lists its values. For a composite type: columns, or jsonb.",
    ),
    ("ALTER TYPE", "For an enum: text, with a CHECK that lists its values."),
    ("CREATE DOMAIN", "Use the type itself, with a CHECK in each table."),
    ("LATERAL", "Write it as a join, or as a subquery in the select list."),
    ("CREATE FUNCTION", "Functions belong to the application."),
    (
        "CREATE TRIGGER",
        "Do it in the application's transaction, or by ON DELETE and ON UPDATE of a foreign key.",
    ),
    ("materialized view", "Make a table and fill it with INSERT ... SELECT."),
    ("CREATE MATERIALIZED VIEW", "Make a table and fill it with INSERT ... SELECT."),
    ("REFRESH MATERIALIZED VIEW", "Make a table and fill it with INSERT ... SELECT."),
    (
        "DEFERRABLE unique constraint",
        "Leave DEFERRABLE out: the key holds for each row that is written. Exchange keys by way of values that are free.",
    ),
    (
        "table partition",
        "Leave out PARTITION: one table holds them all. For rows that only come, see CREATE TABLE ... USING brick.",
    ),
    (
        "extension",
        "Nothing has to be installed: gen_random_uuid() and the functions listed in pg_proc are there or not.",
    ),
    ("LISTEN", "Ask the table again, or use a message queue."),
    ("NOTIFY", "Ask the table again, or use a message queue."),
    (
        "index method",
        "Leave out USING: the index is ordered. What gin and gist are for is found by reading the table.",
    ),
    ("*[]", "Use a table with a row for each element, or jsonb."),
];

/// The hint for something that is refused, if there is one.
pub(super) fn instead(what: &str) -> Option<&'static str> {
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(end) => what.ends_with(end),
        None => what.get(..pattern.len()).is_some_and(|start| start.eq_ignore_ascii_case(pattern)),
    };
    INSTEAD.iter().find(|(pattern, _)| fits(pattern)).map(|(_, hint)| *hint)
}
