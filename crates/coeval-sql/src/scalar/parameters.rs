// SPDX-License-Identifier: Apache-2.0
//! The types of a statement's parameters, inferred from where they stand.

use coeval_store::ColumnType;

/// The types of `$1`, `$2`, ... as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParameterTypes {
    types: Vec<Option<ColumnType>>,
}

impl ParameterTypes {
    /// Nothing known yet.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Types that the client declared; `None` where it left one open.
    #[must_use]
    pub(crate) fn declared(types: Vec<Option<ColumnType>>) -> Self {
        Self { types }
    }

    /// The type of the parameter with this index (`$1` has 0), if known; notes that it is used.
    pub(crate) fn mention(&mut self, index: usize) -> Option<ColumnType> {
        if index >= self.types.len() {
            self.types.resize(index + 1, None);
        }
        self.types[index]
    }

    /// The parameter is of this type from now on.
    ///
    /// # Panics
    /// If the parameter was never mentioned.
    pub(crate) fn fix(&mut self, index: usize, ty: ColumnType) {
        self.types[index] = Some(ty);
    }

    /// All types; what nothing has fixed is text, as in PostgreSQL.
    #[must_use]
    pub(crate) fn resolved(&self) -> Vec<ColumnType> {
        self.types.iter().map(|ty| ty.unwrap_or(ColumnType::Text)).collect()
    }
}
