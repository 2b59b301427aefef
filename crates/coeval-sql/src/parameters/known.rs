// SPDX-License-Identifier: Apache-2.0
//! The types of a statement's parameters, as far as they are known.

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
        note_type(&mut self.types, index, None);
        self.types[index]
    }

    /// The type of the parameter, which is this one unless it has another by now.
    pub(crate) fn fix(&mut self, index: usize, ty: ColumnType) -> ColumnType {
        note_type(&mut self.types, index, Some(ty));
        self.types[index].unwrap_or(ty)
    }

    /// All types, as [`resolved_types`].
    #[must_use]
    pub(crate) fn resolved(&self) -> Vec<ColumnType> {
        resolved_types(&self.types, self.types.len())
    }
}

/// Keeps what a place says of the parameter with this index. The first place that says something counts, as in PostgreSQL.
pub(crate) fn note_type<T>(all: &mut Vec<Option<T>>, index: usize, found: Option<T>) {
    if all.len() <= index {
        all.resize_with(index + 1, || None);
    }
    if all[index].is_none() {
        all[index] = found;
    }
}

/// The types of so many parameters. What nothing has given a type is text, as in PostgreSQL.
#[must_use]
pub(crate) fn resolved_types(types: &[Option<ColumnType>], count: usize) -> Vec<ColumnType> {
    (0..count).map(|index| types.get(index).copied().flatten().unwrap_or(ColumnType::Text)).collect()
}
