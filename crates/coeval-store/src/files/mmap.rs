// SPDX-License-Identifier: Apache-2.0
//! Memory-mapped files as Arrow buffers: the only place of the store with `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::buffer::Buffer;
use memmap2::Mmap;

/// The contents of `file` as a buffer that keeps the mapping alive; no byte is copied.
pub(crate) fn map_read_only(file: &File) -> io::Result<Buffer> {
    // SAFETY: a mapping is sound as long as nobody changes the file below it. `FileSystem::map` is used for
    // immutable files only: they are written under a temporary name, synced, renamed, and from then on only
    // removed, which leaves the mapped pages in place. The directory lock keeps other processes of ours out.
    let mapping = unsafe { Mmap::map(file)? };
    let length = mapping.len();
    if length == 0 {
        return Ok(Buffer::from(Vec::<u8>::new()));
    }
    let start = NonNull::new(mapping.as_ptr().cast_mut())
        .expect("a mapping of at least one byte has an address that is not null");
    // SAFETY: `start` is valid for `length` bytes while the mapping lives, the buffer owns the mapping (moving
    // `Mmap` does not move the pages), and a `Buffer` only reads.
    Ok(unsafe { Buffer::from_custom_allocation(start, length, Arc::new(mapping)) })
}
