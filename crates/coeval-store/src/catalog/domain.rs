// SPDX-License-Identifier: Apache-2.0
//! Domains: types that are another type with a default and constraints of their own.
//!
//! Values are kept as those of the type below. A column keeps a copy of its domain's definition, as it keeps a version of an enum:
//! whoever changes a domain gives the tables that use it new definitions, and every row is checked by the definition of its table.

use super::{CheckDef, ColumnDef, QualifiedName, TableDef};
use crate::ids::SpaceId;
use crate::types::ColumnType;
use serde::{Deserialize, Serialize};

/// What a domain is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainDef {
    /// Its number among the types that users have made.
    pub id: SpaceId,
    /// Its name.
    pub name: QualifiedName,
    /// The type of its values.
    pub ty: ColumnType,
    /// That type as it was written, with what `ty` does not say: digits of seconds, a `numeric` without any.
    pub declared: String,
    /// The digits of seconds that were declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_digits: Option<u8>,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// `DEFAULT` as SQL text: of columns that have none of their own.
    pub default: Option<String>,
    /// Its checks, by name. Their text says `VALUE` where the value stands.
    pub checks: Vec<CheckDef>,
}

impl ColumnDef {
    /// The domain that its values have to be in; `None` if it has none that refuses anything, or is dropped.
    #[must_use]
    pub fn checked_domain(&self) -> Option<&DomainDef> {
        let domain = self.domain.as_deref().filter(|_| !self.is_dropped())?;
        (domain.not_null || !domain.checks.is_empty()).then_some(domain)
    }
}

impl TableDef {
    /// Whether its rows are looked at one by one: it has checks, or columns whose domains have.
    #[must_use]
    pub fn has_checks(&self) -> bool {
        !self.checks.is_empty() || self.columns.iter().any(|column| column.checked_domain().is_some())
    }
}
