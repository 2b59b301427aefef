// SPDX-License-Identifier: Apache-2.0
//! `pg_catalog`: what clients ask a PostgreSQL server about itself.
//!
//! ```text
//! relations.txt  which relations there are, with their columns           crate::relations
//! our catalog    tables, indexes, views, sequences, constraints          objects.rs -> classes.rs, constraints.rs, ...
//! PostgreSQL's   types, functions, operators: the same in every database fixed.rs (from datafusion-pg-catalog)
//! functions      pg_get_indexdef, format_type, to_regclass ...           functions.rs
//! ```
//! A relation is put together when a statement names it, from the definitions that the statement's transaction
//! sees, its own changes included. A relation that is listed and has nothing to say here is empty.
//!
//! Object ids are stable: see [`crate::oids`].

mod access;
mod activity;
mod classes;
mod constraints;
mod deparse;
mod descriptions;
mod fixed;
mod functions;
mod listings;
mod locks;
mod objects;
mod origin;
mod replication;
mod roles;
mod rows;
mod sequence_row;
mod server;
mod time_zones;
mod user_types;

pub(crate) use deparse::{declared_default, origin as origin_of_dimension};
pub use origin::origin_of;
pub(crate) use origin::{column_oids, defined_column, set_origin};

pub(crate) use access::CatalogAccess;
pub(crate) use functions::{array_of_text, functions, gives_texts, is_catalog_function, set_returning};
pub(crate) use objects::ViewColumns;
pub(crate) use sequence_row::{sequence_row, standing};

use crate::engine::Engine;
use crate::error::SqlError;
use crate::open_objects::OpenObjects;
use crate::relations::{self, KEYWORDS, PG_CATALOG, RelationKind};
use crate::rights::{Authority, Rights};
use crate::settings::Settings;
use coeval_store::Transaction;
use datafusion::catalog::{MemTable, TableProvider};
use objects::Objects;
use rows::{Table, provider_of, with_table_ids};
use std::sync::Arc;

/// What the relations of the catalog are made from.
pub(crate) struct Source<'a> {
    /// The database.
    pub(crate) engine: &'a Engine,
    /// The definitions.
    pub(crate) transaction: &'a Transaction,
    /// The session's settings.
    pub(crate) settings: &'a Settings,
    /// What the session has open.
    pub(crate) open: OpenObjects<'a>,
    /// Whether rows say which relation they are of: only if the statement asks for it, since `*` does not.
    pub(crate) has_table_ids: bool,
}

impl Source<'_> {
    /// The definitions that rights are read from.
    pub(crate) fn authority(&self) -> Authority {
        Authority::of(self.transaction, self.engine.store())
    }

    /// What the session may do.
    pub(crate) fn rights(&self) -> Rights {
        Rights::of(self.settings.principal(), self.authority())
    }
}

/// Whether the relation is for superusers alone.
pub(crate) fn is_secret(name: &str) -> bool {
    matches!(name, "pg_authid" | "pg_shadow")
}

/// Whether the relation lists columns, so that it needs those of views.
pub(crate) fn lists_columns(name: &str) -> bool {
    matches!(name, "pg_attribute" | "columns")
}

/// The relation of this name with its rows; `None` if the catalog has none of that name.
///
/// # Errors
/// If the rows cannot be put together: a bug.
pub(crate) fn provider(
    name: &str,
    source: &Source<'_>,
    view_columns: &ViewColumns,
) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
    if name == KEYWORDS {
        let batches = relations::keywords()?;
        let Some(first) = batches.first() else { return Ok(None) };
        return Ok(Some(Arc::new(MemTable::try_new(first.schema(), vec![batches.to_vec()])?)));
    }
    let Some(relation) = relations::find(PG_CATALOG, name) else { return Ok(None) };
    let mut batches = fixed::batches(relation)?;
    let mut table = Table::new(relation);
    fill(&mut table, source, view_columns);
    batches.extend(table.finish()?);
    if source.has_table_ids && relation.kind == RelationKind::Table {
        return with_table_ids(relation, &batches).map(Some);
    }
    provider_of(relation, batches).map(Some)
}

/// The rows that come from this database.
fn fill(table: &mut Table, source: &Source<'_>, view_columns: &ViewColumns) {
    let name = table.name();
    user_types::fill(name, table, source);
    if server::fill(name, table, source)
        || activity::fill(name, table, source)
        || locks::fill(name, table, source)
        || replication::fill(name, table, source)
        || roles::fill(name, table, source)
        || !(classes::has(name) || constraints::has(name) || descriptions::has(name) || listings::has(name))
    {
        return;
    }
    let objects = Objects::of(source.transaction, source.settings, view_columns);
    classes::fill(name, table, &objects, source);
    descriptions::fill(name, table, &objects);
    constraints::fill(name, table, &objects);
    listings::fill(name, table, &objects, source);
}
