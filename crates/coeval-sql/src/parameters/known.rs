// SPDX-License-Identifier: Apache-2.0
//! The types of a statement's parameters, as far as they are known.

use coeval_store::ColumnType;

/// The types of `$1`, `$2`, ... as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParameterTypes(pub(crate) Vec<Option<ColumnType>>);

impl ParameterTypes {
    /// The type of the parameter with this index (`$1` has 0), if known; notes that it is used.
    pub(crate) fn mention(&mut self, index: usize) -> Option<ColumnType> {
        note_type(&mut self.0, index, None)
    }

    /// The type of the parameter, which is this one unless it has another by now.
    pub(crate) fn fix(&mut self, index: usize, ty: ColumnType) -> ColumnType {
        note_type(&mut self.0, index, Some(ty)).unwrap_or(ty)
    }

    /// All types, as [`resolved_types`].
    #[must_use]
    pub(crate) fn resolved(&self) -> Vec<ColumnType> {
        resolved_types(&self.0, self.0.len())
    }
}

/// What is known of the parameter with this index, with what a place says of it. The first place that says something counts, as in
/// PostgreSQL.
pub(crate) fn note_type<T: Copy>(all: &mut Vec<Option<T>>, index: usize, found: Option<T>) -> Option<T> {
    if all.len() <= index {
        all.resize(index + 1, None);
    }
    all[index] = all[index].or(found);
    all[index]
}

/// The types of so many parameters. What nothing has given a type is text, as in PostgreSQL.
#[must_use]
pub(crate) fn resolved_types(types: &[Option<ColumnType>], count: usize) -> Vec<ColumnType> {
    (0..count).map(|index| types.get(index).copied().flatten().unwrap_or(ColumnType::Text)).collect()
}
