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

use coeval_store::{Store, Transaction};
use datafusion::catalog::TableProvider;
use rows::Rows;
use std::sync::Arc;

/// The schema of the standard's catalog views.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// What `table_catalog` and its like say: there is one database.
pub(crate) use crate::engine::CATALOG_NAME as DATABASE_NAME;

/// The tables of `information_schema`.
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

/// The system table of this name with its rows as of the transaction's snapshot, own changes included;
/// `None` if there is no such system table. The schema is `None` for an unqualified name: ours are then found
/// behind the user's own tables.
pub(crate) fn provider(
    schema: Option<&str>,
    name: &str,
    store: &Store,
    transaction: &Transaction,
) -> Option<Arc<dyn TableProvider>> {
    let rows = match schema {
        Some(INFORMATION_SCHEMA) => standard_table(name, transaction)?,
        None => own_table(name, store, transaction)?,
        Some(_) => return None,
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
