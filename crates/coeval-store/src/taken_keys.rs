// SPDX-License-Identifier: Apache-2.0
//! What a row is told whose key another row has already.

use crate::catalog::{IndexDef, TableDef};
use crate::error::ConstraintError;
use crate::table::{RowRef, describe_columns};

/// Another row has the primary key of this one.
pub(crate) fn primary_key_taken(def: &TableDef, row: RowRef<'_>) -> ConstraintError {
    ConstraintError::Unique {
        table: Box::new(def.name.clone()),
        constraint: def.primary_key_name.clone(),
        key: describe_columns(def, &def.primary_key, |column| row.get(column)),
    }
}

/// Another row has the key of this one in a unique index.
pub(crate) fn unique_key_taken(def: &TableDef, index: &IndexDef, row: RowRef<'_>) -> ConstraintError {
    ConstraintError::Unique {
        table: Box::new(def.name.clone()),
        constraint: index.name.clone(),
        key: describe_columns(def, &index.columns, |column| row.get(column)),
    }
}
