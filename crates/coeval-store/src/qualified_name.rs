// SPDX-License-Identifier: Apache-2.0
//! The names that definitions go by.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The schema that unqualified names are created in.
pub const DEFAULT_SCHEMA: &str = "public";

/// `schema.name`, both as they are stored (folded to lower case unless quoted).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QualifiedName {
    /// The schema.
    pub schema: String,
    /// The name in it.
    pub name: String,
}

impl QualifiedName {
    /// `schema.name`.
    #[must_use]
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema == DEFAULT_SCHEMA {
            f.write_str(&self.name)
        } else {
            write!(f, "{}.{}", self.schema, self.name)
        }
    }
}
