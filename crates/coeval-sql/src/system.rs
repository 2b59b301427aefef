// SPDX-License-Identifier: Apache-2.0
//! System tables: what the database says about itself, as tables of the statement's own snapshot.
//!
//! `information_schema` follows the standard as PostgreSQL has it, with the columns that have something to
//! say here. `coeval_tables`, `coeval_store` and `coeval_transactions` are ours and are found without a
//! schema. Each is put together when a statement names it; nothing is kept.

mod constraints;
mod objects;
mod rows;
mod store;

use coeval_store::{QualifiedName, Store, Transaction};
use datafusion::catalog::TableProvider;
use rows::Rows;
use std::sync::Arc;

/// The schema of the standard's catalog views.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// What `table_catalog` and its like say: there is one database.
pub(crate) const DATABASE_NAME: &str = "coeval";

/// The names of the system tables: without a schema ours, then those of `information_schema`.
const OWN_TABLES: [&str; 3] = ["coeval_store", "coeval_tables", "coeval_transactions"];
const STANDARD_TABLES: [&str; 8] = [
    "columns",
    "key_column_usage",
    "referential_constraints",
    "schemata",
    "sequences",
    "table_constraints",
    "tables",
    "views",
];

/// The names of the system tables in a schema.
pub(crate) fn table_names(schema: &str) -> &'static [&'static str] {
    if schema == INFORMATION_SCHEMA { &STANDARD_TABLES } else { &OWN_TABLES }
}

/// The system table of this name with its rows as of the transaction's snapshot, own changes included;
/// `None` if there is no such system table. Ours live in every schema, behind the user's own tables.
pub(crate) fn provider(
    name: &QualifiedName,
    store: &Store,
    transaction: &Transaction,
) -> Option<Arc<dyn TableProvider>> {
    let rows = if name.schema == INFORMATION_SCHEMA {
        standard_table(&name.name, transaction)?
    } else {
        own_table(&name.name, store, transaction)?
    };
    Some(rows.into_provider())
}

fn standard_table(name: &str, transaction: &Transaction) -> Option<Rows> {
    Some(match name {
        "columns" => objects::columns(transaction),
        "key_column_usage" => constraints::key_column_usage(transaction),
        "referential_constraints" => constraints::referential_constraints(transaction),
        "schemata" => objects::schemata(transaction),
        "sequences" => objects::sequences(transaction),
        "table_constraints" => constraints::table_constraints(transaction),
        "tables" => objects::tables(transaction),
        "views" => objects::views(transaction),
        _ => return None,
    })
}

fn own_table(name: &str, store: &Store, transaction: &Transaction) -> Option<Rows> {
    Some(match name {
        "coeval_store" => store::store(store),
        "coeval_tables" => store::tables(transaction),
        "coeval_transactions" => store::transactions(store),
        _ => return None,
    })
}
