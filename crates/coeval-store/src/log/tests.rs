// SPDX-License-Identifier: Apache-2.0
//! Tests of the log: the bytes, what a crash may do, damage, and failures. The first part is what they share.

mod bytes;
mod crash;
mod damage;
mod failure;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::log::{ChecksumPolicy, Log, LogOptions, Lsn, OpenError};

/// Small enough that a few records fill a segment.
pub(crate) fn small() -> LogOptions {
    LogOptions { segment_bytes: 400, extend_bytes: 128, checksums: ChecksumPolicy::Verified }
}

pub(crate) fn log_dir() -> PathBuf {
    PathBuf::from("/db/log")
}

pub(crate) type Replayed = Vec<(Lsn, Vec<u8>)>;

pub(crate) fn open(
    files: &Arc<dyn FileSystem>,
    from: Lsn,
    options: LogOptions,
) -> Result<(Log, Replayed), OpenError<String>> {
    let mut records = Vec::new();
    let mut take = |lsn: Lsn, payload: &[u8]| {
        records.push((lsn, payload.to_vec()));
        Ok(())
    };
    let log = Log::open_with(Arc::clone(files), &log_dir(), from, options, &mut take)?;
    Ok((log, records))
}

pub(crate) fn simulated(seed: u64) -> (SimulatedFiles, Arc<dyn FileSystem>) {
    let files = SimulatedFiles::new(seed);
    let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
    (files, shared)
}

pub(crate) fn payloads(records: &Replayed) -> Vec<&[u8]> {
    records.iter().map(|(_, payload)| payload.as_slice()).collect()
}

/// Puts `bytes` durably into a file.
fn put(files: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    files.create_dir_all(path.parent().unwrap()).unwrap();
    let file = files.open(path, OpenMode::Create).unwrap();
    file.write_all_at(0, bytes).unwrap();
    file.sync_all().unwrap();
    files.sync_dir(path.parent().unwrap()).unwrap();
}
