// SPDX-License-Identifier: Apache-2.0
//! Snapshots (2.3.2): a table as one transaction sees it, as a query over storage and cache.
//!
//! ```text
//! Ranking (Listing 1)                               AntiJoin (3.2.2)
//!   storage, as deleted = false, cts = 0              storage, without keys that a visible version has
//!   UNION ALL visible versions                        UNION ALL visible versions: rank by key = 1,
//!   rank by key = 1, not deleted                                not deleted
//! ```
//! Both give the same rows. Ranking lets a filter on the key reach both tables and sorts the little that is left;
//! AntiJoin sorts the cache alone, however large the storage is. Without rows in the cache, both are the storage.

use crate::counters::{Timestamp, Txid};
use crate::lookups::FoundBy;
use crate::names::quoted;
use crate::physical::{CTS, DELETED, SEQUENCE, TXID, cache, key_columns, storage, storage_columns};
use crate::schema::{Definition, Kind};
use crate::versions::CacheRows;

/// Which of the formulations a query is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formulation {
    /// For statements that find few rows by key.
    Ranking,
    /// For statements that read much.
    AntiJoin,
    /// For statements that read much, on engines with temporary tables: from copies (`copies.rs`); as `AntiJoin` elsewhere.
    Copied,
}

/// Where the commit timestamp of a cached version is (Listings 1 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the version itself: versions reach the cache when their transaction commits.
    Stamped,
    /// In `tique_committed`: versions reach the cache as they are written, and a read joins.
    Joined,
}

/// What a transaction sees of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) sts: Timestamp,
    /// The transaction, if it has versions of its own in the cache.
    pub(crate) own: Option<Txid>,
    pub(crate) layout: Layout,
    pub(crate) cache: CacheRows,
}

/// A copy of a table's snapshot (`copies.rs`): the name of the temporary table, and which of the table's columns it has.
#[derive(Clone, Debug)]
pub(crate) struct CopyOf {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
}

impl CopyOf {
    /// The query that reads it. Not its name alone: MonetDB 11.41 counts what was deleted from a temporary table too where it
    /// answers `count(*)` of the table itself.
    pub(crate) fn query(&self, table: &Definition) -> String {
        format!("SELECT {} FROM {}", table.names(&self.columns).join(", "), quoted(&self.name))
    }
}

/// Visible versions with `tique_cts`; NULL for the transaction's own.
fn visible(table: &Definition, view: &View, columns: &str, conditions: &[String]) -> String {
    let (cache, sts) = (quoted(&cache(table)), view.sts.0);
    match view.layout {
        Layout::Stamped => {
            let own = view.own.map(|txid| format!(" OR ({CTS} IS NULL AND {TXID} = {})", txid.0));
            let own = own.unwrap_or_default();
            let also = and(conditions);
            format!(
                "SELECT {columns}, {DELETED}, {CTS}, {SEQUENCE} FROM {cache} WHERE ({CTS} <= {sts}{own}){also}"
            )
        }
        Layout::Joined => {
            let join = if view.own.is_some() { "LEFT JOIN" } else { "JOIN" };
            let own = view.own.map(|txid| format!(" OR tique_c.{TXID} = {}", txid.0)).unwrap_or_default();
            format!(
                "SELECT {columns}, {DELETED}, tique_at AS {CTS}, {SEQUENCE} FROM {cache} AS tique_c \
                 {join} {COMMITS} ON tique_by = tique_c.{TXID} WHERE (tique_at <= {sts}{own}){}",
                and(conditions)
            )
        }
    }
}

/// The commits, by names that no column of a user's has.
pub(crate) const COMMITS: &str = "(SELECT txid AS tique_by, cts AS tique_at FROM tique_committed) AS tique_t";

fn and(conditions: &[String]) -> String {
    conditions.iter().map(|condition| format!(" AND {condition}")).collect()
}

fn rank(keys: &str) -> String {
    format!(
        "rank() OVER (PARTITION BY {keys} ORDER BY {CTS} DESC NULLS FIRST, {SEQUENCE} DESC) AS tique_rank"
    )
}

/// Whether the storage has all that is seen of a table, and nothing else.
pub(crate) fn is_storage(table: &Definition, view: &View) -> bool {
    table.kind == Kind::Static || (view.cache == CacheRows::None && view.own.is_none())
}

/// The query that gives a table's rows as `view` sees them. Rows that `found_by` excludes may be left out.
pub(crate) fn query(table: &Definition, view: &View, formulation: Formulation, found_by: &FoundBy) -> String {
    columns(table, &table.all_names().join(", "), view, formulation, found_by)
}

/// As [`query`], but gives only these columns of the storage table.
pub(crate) fn columns(
    table: &Definition,
    names: &str,
    view: &View,
    formulation: Formulation,
    found_by: &FoundBy,
) -> String {
    let columns = storage_columns(table).join(", ");
    let storage = quoted(&storage(table));
    let conditions = &found_by.conditions;
    let of_storage = and(conditions).replacen(" AND", " WHERE", 1);
    if is_storage(table, view) {
        return format!("SELECT {names} FROM {storage}{of_storage}");
    }
    if let CacheRows::Exactly(Timestamp(cts)) = view.cache
        && view.own.is_none()
    {
        let (cache, also) = (quoted(&cache(table)), and(conditions));
        return format!("SELECT {names} FROM {cache} WHERE {CTS} = {cts} AND NOT {DELETED}{also}");
    }
    let keys = key_columns(table);
    let (rank, visible) = (rank(&keys.join(", ")), visible(table, view, &columns, conditions));
    match formulation {
        Formulation::Ranking => format!(
            "SELECT {names} FROM (SELECT {columns}, {DELETED}, {rank} FROM (\
             SELECT {columns}, false AS {DELETED}, 0 AS {CTS}, 0 AS {SEQUENCE} FROM {storage}{of_storage} \
             UNION ALL {visible}) AS tique_versions) AS tique_ranked \
             WHERE tique_rank = 1 AND NOT {DELETED}"
        ),
        Formulation::AntiJoin | Formulation::Copied => {
            anti_join(table, names, &columns, &format!("({visible})"), &and(conditions))
        }
    }
}

/// The storage without the keys that `versions` has, and the newest of these, which have the `columns` and when they came.
fn anti_join(table: &Definition, names: &str, columns: &str, versions: &str, also: &str) -> String {
    let (storage, keys) = (quoted(&storage(table)), key_columns(table));
    let same: Vec<_> = keys.iter().map(|key| format!("tique_v.{key} = tique_s.{key}")).collect();
    let rank = rank(&keys.join(", "));
    format!(
        "SELECT {names} FROM {storage} AS tique_s WHERE NOT EXISTS \
         (SELECT 1 FROM {versions} AS tique_v WHERE {}){also} \
         UNION ALL SELECT {names} FROM (SELECT {columns}, {DELETED}, {rank} FROM {versions} AS tique_versions) \
         AS tique_ranked WHERE tique_rank = 1 AND NOT {DELETED}",
        same.join(" AND ")
    )
}

/// The query that gives the versions in a table's cache that `view` sees, with these columns, the key among them.
pub(crate) fn versions(table: &Definition, names: &str, view: &View) -> String {
    visible(table, view, names, &[])
}

/// As [`columns`], by what [`versions`] gave before, which has been put into the table of this name. The storage may be read later than
/// the cache was: a checkpoint changes only rows of it that have versions which all running transactions see, so these rows were
/// hidden by versions in the cache when that was read, or had changed by then.
pub(crate) fn merged(table: &Definition, names: &str, versions: &str) -> String {
    anti_join(table, names, names, versions, "")
}

#[cfg(test)]
mod tests;
