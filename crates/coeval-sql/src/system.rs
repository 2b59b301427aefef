// SPDX-License-Identifier: Apache-2.0
//! System tables: what the database says about itself, as tables of the statement's own snapshot.
//!
//! `information_schema` follows the standard as PostgreSQL has it, with the columns that have something to
//! say here. `coeval_bricks`, `coeval_cluster_nodes`, `coeval_conflicts`, `coeval_dimensions`, `coeval_epochs`, `coeval_ingest_offsets`,
//! `coeval_lock_waits`, `coeval_memory`, `coeval_safe_snapshots`, `coeval_snapshots`, `coeval_store`, `coeval_tables` and
//! `coeval_transactions` are ours and are found without a schema.
//! Each is put together when a statement names it, and `coeval_cluster_nodes` when it is read, since others are asked for it; nothing is
//! kept.

mod bricks;
mod cluster_nodes;
mod conflicts;
mod constraints;
mod dimensions;
mod lock_waits;
mod memory;
mod objects;
mod privileges;
mod rows;
mod safe_snapshots;
mod store;

use crate::catalog::{self, Source, ViewColumns};
use crate::error::SqlError;
use crate::relations::{INFORMATION_SCHEMA, PG_CATALOG, standard_columns};
use datafusion::catalog::{MemTable, TableProvider};
use privileges::Public;
use rows::Rows;
use std::sync::Arc;

/// What stands for the database in the rows until they are a table, which has its name instead.
pub(crate) use crate::relations::CATALOG_NAME as DATABASE_NAME;

/// The system table of this name with its rows as of the transaction's snapshot, own changes included;
/// `None` if there is no such system table. The schema is `None` for an unqualified name: those of the catalog
/// and ours are found before the user's own tables ([`crate::names::path_of`]).
///
/// # Errors
/// If its rows cannot be put together: a bug.
pub(crate) fn provider(
    schema: Option<&str>,
    name: &str,
    source: &Source<'_>,
    view_columns: &ViewColumns,
) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
    match schema {
        Some(INFORMATION_SCHEMA) => standard_table(name, source, view_columns),
        Some(PG_CATALOG) => catalog::provider(name, source, view_columns),
        None if name == "coeval_cluster_nodes" => {
            Ok(Some(cluster_nodes::cluster_nodes(source.engine.cluster(), &source.rights())))
        }
        None => match own_table(name, source)? {
            Some(rows) => Ok(Some(rows.into_provider())),
            None => catalog::provider(name, source, view_columns),
        },
        Some(_) => Ok(None),
    }
}

/// A view of `information_schema`, with the columns PostgreSQL gives it; one that has nothing to say is empty.
fn standard_table(
    name: &str,
    source: &Source<'_>,
    view_columns: &ViewColumns,
) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
    let (transaction, settings) = (source.transaction, source.settings);
    let Some(schema) = standard_columns(name) else { return Ok(None) };
    let rows = match name {
        "applicable_roles" => Some(privileges::applicable_roles(transaction, settings)),
        "column_privileges" => {
            Some(privileges::column_privileges(transaction, &source.rights(), Public::Listed))
        }
        "columns" => Some(objects::columns(transaction, view_columns)),
        "constraint_column_usage" => Some(constraints::constraint_column_usage(transaction)),
        "constraint_table_usage" => Some(constraints::constraint_table_usage(transaction)),
        "check_constraints" => Some(constraints::check_constraints(transaction)),
        "enabled_roles" => Some(privileges::enabled_roles(transaction, &source.rights())),
        "information_schema_catalog_name" => Some(objects::catalog_name()),
        "key_column_usage" => Some(constraints::key_column_usage(transaction)),
        "referential_constraints" => Some(constraints::referential_constraints(transaction)),
        "role_column_grants" => {
            Some(privileges::column_privileges(transaction, &source.rights(), Public::Left))
        }
        "role_table_grants" => {
            Some(privileges::table_privileges(transaction, &source.rights(), Public::Left))
        }
        "schemata" => Some(objects::schemata(transaction)),
        "sequences" => Some(objects::sequences(transaction)),
        "table_constraints" => Some(constraints::table_constraints(transaction)),
        "table_privileges" => {
            Some(privileges::table_privileges(transaction, &source.rights(), Public::Listed))
        }
        "tables" => Some(objects::tables(transaction)),
        "views" => Some(objects::views(transaction)),
        _ => None,
    };
    match rows {
        Some(rows) => rows.into_provider_of(schema, source.settings.database()).map(Some),
        None => Ok(Some(Arc::new(MemTable::try_new(schema, vec![vec![]])?))),
    }
}

fn own_table(name: &str, source: &Source<'_>) -> Result<Option<Rows>, SqlError> {
    let (store, registry) = (source.engine.store(), source.engine.registry());
    Ok(Some(match name {
        "coeval_bricks" => bricks::bricks(source.transaction, &source.rights()),
        "coeval_epochs" => bricks::epochs(store, registry),
        "coeval_ingest_offsets" => bricks::ingest_offsets(source.transaction, &source.rights())?,
        "coeval_dimensions" => dimensions::dimensions(source.transaction),
        "coeval_memory" => memory::memory(store, source),
        "coeval_lock_waits" => lock_waits::lock_waits(store, source),
        "coeval_conflicts" => conflicts::conflicts(store, source),
        "coeval_safe_snapshots" => safe_snapshots::safe_snapshots(store, registry),
        "coeval_store" => store::store(store),
        "coeval_snapshots" => store::snapshots(store, registry),
        "coeval_tables" => store::tables(source.transaction),
        "coeval_transactions" => store::transactions(store, registry),
        _ => return Ok(None),
    }))
}
