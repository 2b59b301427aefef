// SPDX-License-Identifier: Apache-2.0
//! [`Wanted`]: what is asked for of all that there is in the database.

use adbc_core::options::ObjectDepth;

/// What somebody wants to see. Names are patterns of LIKE.
pub(crate) struct Wanted<'a> {
    pub(crate) depth: ObjectDepth,
    pub(crate) catalog: Option<&'a str>,
    pub(crate) schema: Option<&'a str>,
    pub(crate) table: Option<&'a str>,
    pub(crate) table_type: Option<Vec<&'a str>>,
    pub(crate) column: Option<&'a str>,
}

impl Wanted<'_> {
    /// Whether schemas are shown.
    pub(crate) fn has_schemas(&self) -> bool {
        self.depth != ObjectDepth::Catalogs
    }

    /// Whether tables are shown.
    pub(crate) fn has_tables(&self) -> bool {
        self.has_schemas() && self.depth != ObjectDepth::Schemas
    }

    /// Whether columns and constraints are shown.
    pub(crate) fn has_columns(&self) -> bool {
        self.has_tables() && self.depth != ObjectDepth::Tables
    }
}
