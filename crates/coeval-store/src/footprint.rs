// SPDX-License-Identifier: Apache-2.0
//! What a transaction accessed, by keys of the whole database: what it is certified by, and what later ones are.

use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::value::{KeyWriter, ValueRef};
use coeval_txn::{Access, LargeFootprint, Version};
use std::sync::Arc;

/// What a key of the whole database is certified by.
pub type GlobalKey = (SpaceId, Key);

/// One access of the footprint.
#[derive(Clone, Debug)]
pub(crate) struct Footmark {
    pub(crate) key: GlobalKey,
    /// What is checked against those who were first.
    pub(crate) certify: Access,
    /// What later ones are checked against.
    pub(crate) admit: Access,
    /// The version at which the key was looked at: commits since then are checked.
    pub(crate) begin: Version,
}

/// The key that stands for a table's definition.
pub(crate) fn definition_key(table: SpaceId) -> GlobalKey {
    (CATALOG_SPACE, Key::from_slice(&table.get().to_be_bytes()))
}

/// The key that stands for a name: of a table, view, sequence, index or schema.
pub(crate) fn name_key(schema: &str, name: &str) -> GlobalKey {
    let mut writer = KeyWriter::with_prefix(b"n");
    writer.push(ValueRef::Text(schema));
    writer.push(ValueRef::Text(name));
    (CATALOG_SPACE, writer.finish())
}

/// The key that stands for a role. Names of schemas do not begin so.
pub(crate) fn role_key(name: &str) -> GlobalKey {
    name_key("pg_role", name)
}

/// What a key belongs to, for the certifier.
pub(crate) fn group((space, _): &GlobalKey) -> u32 {
    space.get()
}

/// What a key has on the heap, for the certifier.
pub(crate) fn heap_bytes((_, key): &GlobalKey) -> usize {
    key.heap_bytes()
}

/// The footprint as the certifier takes it as a whole, if it has so many accesses that it is not to go through them under the
/// leader's lock.
pub(crate) fn large_footprint(
    footprint: &[Footmark],
    accesses_min: usize,
) -> Option<Arc<LargeFootprint<GlobalKey>>> {
    let accesses = || footprint.iter().map(|mark| (mark.key.clone(), mark.admit));
    (footprint.len() >= accesses_min).then(|| Arc::new(LargeFootprint::new(accesses(), group, heap_bytes)))
}
