// SPDX-License-Identifier: Apache-2.0
//! Object ids.
//!
//! They are the same in every statement, session and run of the server, and fit an `int4`:
//!
//! | object | id |
//! |---|---|
//! | what PostgreSQL brings along | as in PostgreSQL, below 16384 |
//! | table, index, enum type and that of its arrays | 16384 + 4 x number of its key space |
//! | index of a primary key | that of its table + 1 |
//! | sequence | 16384 + 4 x its number + 2 |
//! | view, its rule, schema, constraint, default, label of an enum | 2^30 + a hash of kind, owner and name |
//!
//! The last kind has no number in the store. Their ids change when they are renamed; that two of them meet in one
//! catalog of a thousand such objects has a chance of one in two thousand.

use coeval_store::{QualifiedName, SequenceId, SpaceId};

/// The first id that PostgreSQL gives to what users make.
const FIRST: i64 = 16_384;

/// The namespace `pg_catalog`.
pub(crate) const PG_CATALOG_NAMESPACE: i32 = 11;
/// The namespace `information_schema`, as the fixed rows of `pg_type` and `pg_proc` name it.
const INFORMATION_SCHEMA_NAMESPACE: i32 = 13_283;
/// The namespace `public`.
const PUBLIC_NAMESPACE: i32 = 2_200;
/// The user that owns everything.
pub(crate) const OWNER: i32 = 10;
/// The only database.
pub(crate) const DATABASE: i32 = 5;
/// The access method of tables.
pub(crate) const HEAP: i32 = 2;
/// The access method of indexes.
pub(crate) const BTREE: i32 = 403;
/// `pg_class`, as catalogs name it in `classoid`.
pub(crate) const PG_CLASS: i32 = 1_259;
/// `pg_constraint`.
pub(crate) const PG_CONSTRAINT: i32 = 2_606;
/// `pg_attrdef`.
pub(crate) const PG_ATTRDEF: i32 = 2_604;
/// `pg_rewrite`.
pub(crate) const PG_REWRITE: i32 = 2_618;
/// `pg_namespace`.
pub(crate) const PG_NAMESPACE: i32 = 2_615;

fn numbered(number: u32, kind: i64) -> i32 {
    // Numbers beyond a quarter of the ids are out of reach: each costs a definition in the log.
    i32::try_from(FIRST + 4 * i64::from(number) + kind).unwrap_or(i32::MAX)
}

/// A table or an index of one.
pub(crate) fn of_space(id: SpaceId) -> i32 {
    numbered(id.get(), 0)
}

/// The index behind a primary key.
pub(crate) fn of_primary_key(table: SpaceId) -> i32 {
    numbered(table.get(), 1)
}

/// A sequence.
pub(crate) fn of_sequence(id: SequenceId) -> i32 {
    numbered(id.get(), 2)
}

/// What is known by its name only.
pub(crate) fn of_name(kind: &str, owner: &str, name: &str) -> i32 {
    // FNV-1a, folded to thirty bits; the parts are divided by a byte that no name holds.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in [kind, owner, name].join("\0").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let folded = (hash ^ (hash >> 30)) & 0x3fff_ffff;
    i32::try_from(folded | 0x4000_0000).expect("thirty-one bits fit")
}

/// A schema.
pub(crate) fn of_schema(name: &str) -> i32 {
    match name {
        "pg_catalog" => PG_CATALOG_NAMESPACE,
        "information_schema" => INFORMATION_SCHEMA_NAMESPACE,
        "public" => PUBLIC_NAMESPACE,
        other => of_name("schema", "", other),
    }
}

/// A constraint of a table.
pub(crate) fn of_constraint(table: SpaceId, name: &str) -> i32 {
    of_name("constraint", &table.to_string(), name)
}

/// The default of a column.
pub(crate) fn of_default(table: SpaceId, column: usize) -> i32 {
    of_name("default", &table.to_string(), &column.to_string())
}

/// Of the default of a view's column.
pub(crate) fn of_view_default(view: &QualifiedName, column: usize) -> i32 {
    of_name("view default", &view.to_string(), &column.to_string())
}
