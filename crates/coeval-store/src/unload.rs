// SPDX-License-Identifier: Apache-2.0
//! Letting go of chunks that were read from segment files, when they take more memory than they may.
//!
//! # Why by new versions
//! Rows and scans borrow from the arrays of a chunk for as long as their world is held, so nothing is ever taken out of a
//! chunk. Instead the world gets a chunk in its place that is the same and has read nothing yet, as a checkpoint puts new
//! chunks in the place of old ones; contents and version stay. The memory is free when the last world is dropped that holds
//! the old chunk: a transaction that reads row by row keeps what it has read until it ends.
//!
//! # Which
//! Second chance: who was not asked since the last look goes first; all marks are taken off by a look. Others go only while
//! there is too much. What has no file (a checkpoint has not written it yet) stays.
//!
//! # Cost
//! A look visits every chunk, without a lock. Putting new ones in place takes the leader's lock for some path copies each.

use crate::chunk::Chunk;
use crate::ids::SpaceId;
use crate::shared::Shared;
use std::collections::HashMap;
use std::sync::Arc;

/// Chunks of one space, and what comes in their places.
pub(crate) type Unloaded = Vec<(Arc<Chunk>, Arc<Chunk>)>;

/// After a look there is room for this share of the bytes: one in eight.
const FREE_SHARE: u64 = 8;

/// Lets go of chunks, if the newest world holds more than it may or there are some that nobody used since the last call. Does
/// nothing while a checkpoint runs, which replaces chunks itself.
pub(crate) fn unload(shared: &Shared) {
    let (Some(disk), Some(_turn)) = (&shared.disk, shared.checkpoints.try_turn()) else { return };
    let chosen = choose(shared, disk.chunk_memory().bytes_max());
    disk.chunk_memory().has_been_asked();
    if chosen.is_empty() {
        return;
    }
    let old = shared
        .pipeline
        .replace_worlds(shared, |world| world.with_spaces(|id, space| space.with_unloaded(chosen.get(&id)?)));
    shared.bury(old);
}

/// Which chunks are to go, of those that the newest world holds.
fn choose(shared: &Shared, bytes_max: u64) -> HashMap<SpaceId, Unloaded> {
    let world = shared.applied();
    let mut bytes = 0;
    let (mut idle, mut used) = (Vec::new(), Vec::new());
    for (id, space) in world.tables().flat_map(|table| table.spaces()) {
        for (_, chunk) in space.base().iter() {
            let loaded = chunk.loaded_bytes();
            if loaded > 0 {
                bytes += loaded;
                let list = if chunk.take_mark() { &mut used } else { &mut idle };
                list.push((id, chunk, loaded));
            }
        }
    }
    let used = used.into_iter().filter(|_| bytes > bytes_max);
    let wanted = bytes_max / FREE_SHARE * (FREE_SHARE - 1);
    let mut left = bytes;
    let mut chosen: HashMap<SpaceId, Unloaded> = HashMap::new();
    for (id, chunk, loaded) in idle.into_iter().chain(used) {
        if left <= wanted {
            break;
        }
        left -= loaded;
        chosen.entry(id).or_default().extend(chunk.unloaded().map(|new| (Arc::clone(chunk), Arc::new(new))));
    }
    chosen
}

#[cfg(test)]
mod tests;
