// SPDX-License-Identifier: Apache-2.0
//! The directory of a store: its files, its lock, and which segment files are still needed.
//!
//! A segment file may go when no one can ask for it again after a crash. Those who can:
//! 1. the durable manifest;
//! 2. a log record of a bulk load, or of a new index, behind the manifest's log position;
//! 3. one of these on its way into the log.
//!
//! The first is a list, the others are registered here: *on its way* from before the file is made, *committed*
//! with the version of the commit until a manifest of that version or a later one is durable. A load that was
//! refused goes at once; one whose fate is unknown (the log stopped) stays until the next open.
//!
//! A file that an older world may read is opened before its name is removed: an open file stays good.
//!
//! A damaged file that is no longer needed is not removed but gets another name. An empty file takes that name before: so after
//! any crash it is known that the damaged file has to be kept when it is found to be no longer needed.

use crate::bulk_load::BulkLoad;
use crate::chunk::Chunk;
use crate::chunk_memory::ChunkMemory;
use crate::error::StoreError;
use crate::files::{DirectoryLock, FileError, FileSystem, OpenMode};
use crate::log::{ChecksumPolicy, LogError};
use crate::segment::{
    SEGMENT_DIR, Segment, SegmentRef, parse_segment_name, round_path, segment_path, unfinished_path,
    unfinished_round_path, write_segment,
};
use coeval_txn::{CommitOrder, Version};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The directory of log segments in the directory of a database.
pub(crate) const LOG_DIR: &str = "log";

/// While a directory has this file, the copy in it is not complete.
pub(crate) const UNFINISHED_COPY_FILE: &str = "unfinished-copy";
/// A directory with this file follows another one, and is not opened to be written.
pub(crate) const FOLLOWER_FILE: &str = "follower";
/// While a directory has this file, its log is being cut back.
pub(crate) const REWINDING_FILE: &str = "rewinding";
/// The directory, in that of a database, of what was cut off its log.
pub(crate) const REWOUND_DIR: &str = "rewound";
/// Directories, in that of a database, which a server makes there once that is open: the rows and records of the node that it is of a cluster,
/// and the tables that are in an engine.
pub(crate) const SERVER_DIRS: [&str; 2] = ["cluster", "engine"];

/// The numbers of files that a directory gives lie in a stretch of so many bits: followers have others than their primaries.
pub(crate) const STRETCH_BITS: u32 = 32;

/// What follows the name of a damaged file that is kept; behind it, a number from the second of that name on.
const DAMAGED_SUFFIX: &str = ".damaged";

/// An open, locked directory.
#[derive(Debug)]
pub(crate) struct Disk {
    files: Arc<dyn FileSystem>,
    dir: PathBuf,
    _lock: DirectoryLock,
    checksums: ChecksumPolicy,
    next_segment: AtomicU64,
    /// The segment files of bulk loads that no manifest holds yet.
    ///
    /// # Locking
    /// Held for moments, never across a call to the file layer.
    loads: Mutex<BTreeMap<u64, LoadState>>,
    /// The segments that somebody may read yet, and some that are gone.
    ///
    /// # Locking
    /// Held for moments, never across a call to the file layer.
    opened: Mutex<BTreeMap<u64, Weak<Segment>>>,
    /// The turn to note what is kept of the log (`kept_log.rs`).
    ///
    /// # Locking
    /// Held while the file is written; the locks of this and of the retention are taken behind it, never the other way round.
    noting: Mutex<()>,
    memory: Arc<ChunkMemory>,
}

/// The life of a bulk load's segment file until a manifest holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadState {
    /// Not in the log yet, or its fate is unknown.
    OnItsWay,
    /// In the log, as part of this version.
    Committed(Version),
}

impl Disk {
    pub(crate) fn new(
        files: Arc<dyn FileSystem>,
        dir: PathBuf,
        lock: DirectoryLock,
        checksums: ChecksumPolicy,
        next_segment: u64,
    ) -> Self {
        Self {
            files,
            dir,
            _lock: lock,
            checksums,
            next_segment: AtomicU64::new(next_segment),
            loads: Mutex::default(),
            opened: Mutex::default(),
            noting: Mutex::default(),
            memory: Arc::default(),
        }
    }

    /// What was read of segments and is in memory.
    pub(crate) fn chunk_memory(&self) -> &Arc<ChunkMemory> {
        &self.memory
    }

    pub(crate) fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its files are.
    pub(crate) fn place(&self) -> (&dyn FileSystem, &Path) {
        (&*self.files, &self.dir)
    }

    pub(crate) fn checksums(&self) -> ChecksumPolicy {
        self.checksums
    }

    /// A number that no segment file of this directory has had.
    pub(crate) fn new_segment(&self) -> u64 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next segment file will have.
    pub(crate) fn next_segment(&self) -> u64 {
        self.next_segment.load(Ordering::Relaxed)
    }

    /// Numbers up to this one are not given any more.
    pub(crate) fn raise_next_segment(&self, next: u64) {
        self.next_segment.fetch_max(next, Ordering::Relaxed);
    }

    /// Opens a segment file; gives the one that is open, if it is.
    pub(crate) fn open_segment(&self, reference: SegmentRef) -> Result<Arc<Segment>, StoreError> {
        let opened = self.opened.lock().get(&reference.number).and_then(Weak::upgrade);
        if let Some(segment) = opened.filter(|segment| segment.reference() == reference) {
            // There must be only one open segment for a file: what removes the file's name keeps this one open, and knows no other.
            return Ok(segment);
        }
        let segment = Segment::open(&self.files, &self.dir, reference, self.checksums, &self.memory)?;
        let segment = Arc::new(segment);
        self.opened.lock().insert(reference.number, Arc::downgrade(&segment));
        Ok(segment)
    }

    /// Makes the names of new segment files durable.
    pub(crate) fn sync_segments(&self) -> Result<(), StoreError> {
        Ok(self.files.sync_dir(&self.dir.join(SEGMENT_DIR))?)
    }

    /// Writes the chunks of bulk loads to segment files, durably, so that the log can refer to them, and puts
    /// the chunks of the files in the place of those in memory.
    ///
    /// # Errors
    /// When a file cannot be written; none of the loads' files is left then.
    pub(crate) fn write_loads(&self, loads: &mut [BulkLoad]) -> Result<LoadFiles, StoreError> {
        let mut written = LoadFiles::default();
        if loads.is_empty() {
            return Ok(written);
        }
        let outcome = loads.iter_mut().try_for_each(|load| self.write_load(load, &mut written));
        match outcome.and_then(|()| self.sync_segments()) {
            Ok(()) => Ok(written),
            Err(error) => {
                self.discard(&written);
                Err(error)
            }
        }
    }

    fn write_load(&self, load: &mut BulkLoad, written: &mut LoadFiles) -> Result<(), StoreError> {
        let mut write = |chunks: &[Arc<Chunk>]| {
            let segment = self.write_chunks(chunks, written)?;
            Ok::<_, StoreError>((segment.reference(), chunks_of(&segment)))
        };
        let rows = write(load.chunks())?;
        let indexes = load.indexes().iter().map(|chunks| write(chunks)).collect::<Result<Vec<_>, _>>()?;
        load.set_written(rows, indexes);
        Ok(())
    }

    /// Writes these chunks to a new segment file, which counts as on its way into the log.
    fn write_chunks(
        &self,
        chunks: &[Arc<Chunk>],
        written: &mut LoadFiles,
    ) -> Result<Arc<Segment>, StoreError> {
        let number = self.new_segment();
        // Before the file is made, so that nobody takes it for a leftover.
        self.loads.lock().insert(number, LoadState::OnItsWay);
        written.numbers.push(number);
        self.open_segment(write_segment(self.place(), number, chunks)?)
    }

    /// Writes the chunks of a new index to a segment file, so that the log can refer to it once
    /// [its name is durable](Self::sync_segments). Returns the chunks of the file, whose keys are in memory still.
    ///
    /// # Errors
    /// When the file cannot be written; it is to be [discarded](Self::discard) with the others then.
    pub(crate) fn write_index(
        &self,
        chunks: &[Arc<Chunk>],
        written: &mut LoadFiles,
    ) -> Result<(SegmentRef, Vec<Arc<Chunk>>), StoreError> {
        let segment = self.write_chunks(chunks, written)?;
        let kept =
            (0..).zip(chunks).map(|(batch, chunk)| Chunk::written(&segment, batch, chunk.keys().clone()));
        Ok((segment.reference(), kept.map(Arc::new).collect()))
    }

    /// Has a damaged file get another name instead of being removed, once nobody needs it, and says which. Durable with
    /// [`sync_segments`](Self::sync_segments).
    ///
    /// # Errors
    /// When the new name cannot be taken.
    pub(crate) fn keep_damaged(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let numbered = |number: u32| match number {
            1 => String::new(),
            number => format!("-{number}"),
        };
        for number in 1.. {
            let mut kept = path.as_os_str().to_owned();
            kept.push(format!("{DAMAGED_SUFFIX}{}", numbered(number)));
            let kept = PathBuf::from(kept);
            if !self.files.exists(&kept)? {
                self.files.open(&kept, OpenMode::Create)?;
                return Ok(kept);
            }
            // Taken by a repair that did not get further; what has contents was kept before.
            if self.files.len(&kept)? == 0 {
                return Ok(kept);
            }
        }
        unreachable!("a directory has fewer than 2^32 files of one name")
    }

    /// The name that was taken for a damaged file, among those of the directory in their order.
    fn name_to_keep(&self, names: &[String], name: &str) -> Result<Option<PathBuf>, FileError> {
        let prefix = format!("{name}{DAMAGED_SUFFIX}");
        let first = names.partition_point(|other| *other < prefix);
        for kept in names[first..].iter().take_while(|other| other.starts_with(&prefix)) {
            let kept = self.dir.join(SEGMENT_DIR).join(kept);
            if self.files.len(&kept)? == 0 {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// A file of a bulk load is going to arrive under this number, before the record that names it.
    pub(crate) fn note_on_its_way(&self, number: u64) {
        self.loads.lock().insert(number, LoadState::OnItsWay);
    }

    /// Notes what became of loads that were written.
    pub(crate) fn settle_loads(&self, written: &LoadFiles, verdict: &Result<CommitOrder, StoreError>) {
        match verdict {
            Ok(order) => self.note_committed(written.numbers.iter().copied(), order.version),
            // Refused before it was logged.
            Err(
                StoreError::Conflict(_) | StoreError::Constraint(_) | StoreError::Log(LogError::NoRoom(_)),
            ) => self.discard(written),
            // Whether the load is in the log is not known, so its files stay.
            Err(_) => {}
        }
    }

    /// Notes that these segment files belong to loads of this version, which no manifest holds yet.
    pub(crate) fn note_committed(&self, numbers: impl Iterator<Item = u64>, version: Version) {
        let mut loads = self.loads.lock();
        loads.extend(numbers.map(|number| (number, LoadState::Committed(version))));
    }

    /// The right to write down which part of the log is kept; waits while another thread has it.
    pub(crate) fn noting_turn(&self) -> MutexGuard<'_, ()> {
        self.noting.lock()
    }

    /// The segment files of bulk loads behind a version. Of which version one is that is on its way is not known: if not of a
    /// later one than `through`, then it counts as one of that.
    pub(crate) fn loads_behind(&self, version: Version, through: Version) -> Vec<(u64, Version)> {
        let loads = self.loads.lock();
        let with_version = loads.iter().map(|(number, state)| match state {
            LoadState::OnItsWay => (*number, through),
            LoadState::Committed(committed) => (*number, *committed),
        });
        with_version.filter(|(_, committed)| *committed > version).collect()
    }

    /// The bytes of the files of committed bulk loads, with the versions of the loads. One that cannot be looked at has none.
    pub(crate) fn load_bytes(&self) -> Vec<(Version, u64)> {
        let loads = self.loads.lock().clone();
        let committed = loads.into_iter().filter_map(|(number, state)| match state {
            LoadState::OnItsWay => None,
            LoadState::Committed(version) => Some((number, version)),
        });
        let bytes = |number| self.files.len(&segment_path(&self.dir, number)).unwrap_or(0);
        committed.map(|(number, version)| (version, bytes(number))).collect()
    }

    /// Removes files that nobody refers to. What cannot be removed now is a leftover, and removed later.
    pub(crate) fn discard(&self, written: &LoadFiles) {
        for &number in &written.numbers {
            self.loads.lock().remove(&number);
            self.remove_segment(number);
        }
    }

    /// Removes one of the files of a transaction, which nobody will refer to.
    pub(crate) fn discard_one(&self, written: &mut LoadFiles, number: u64) {
        written.numbers.retain(|written| *written != number);
        self.loads.lock().remove(&number);
        self.remove_segment(number);
    }

    /// Removes a segment file that nobody refers to, finished or not, if it is there.
    pub(crate) fn remove_segment(&self, number: u64) {
        let (dir, paths) = (&self.dir, [segment_path, unfinished_path, round_path, unfinished_round_path]);
        for path in paths.map(|path| path(dir, number)) {
            // The next checkpoint or open tries again.
            let _ = self.remove_name(number, &path);
        }
    }

    /// Removes a file's name. Whoever may read it yet finds it open.
    fn remove_name(&self, number: u64, path: &Path) -> Result<(), FileError> {
        self.hold(number, path)?;
        self.files.remove(path)
    }

    /// Opens a file, so that it can still be read after its name was removed.
    fn hold(&self, number: u64, path: &Path) -> Result<(), FileError> {
        let opened = self.opened.lock().get(&number).and_then(Weak::upgrade);
        if let Some(segment) = opened.filter(|segment| segment.path() == path) {
            segment.hold()?;
        }
        Ok(())
    }

    /// Removes all segment files that neither the durable manifest, which holds this version and these
    /// segments, nor a bulk load needs; damaged ones that are [to be kept](Self::keep_damaged) get their new names. Returns
    /// how many.
    ///
    /// # Errors
    /// When the directory cannot be read or a file not be removed; nothing needed is lost.
    pub(crate) fn remove_unneeded(
        &self,
        version: Version,
        manifest: &BTreeSet<u64>,
    ) -> Result<usize, StoreError> {
        let dir = self.dir.join(SEGMENT_DIR);
        // The names first: a file that is made after this is not in the list, and one that was made before
        // has been registered by now.
        let names = self.files.list(&dir)?;
        let loads = {
            let mut loads = self.loads.lock();
            loads.retain(|_, state| match state {
                LoadState::OnItsWay => true,
                LoadState::Committed(committed) => *committed > version,
            });
            loads.keys().copied().collect::<BTreeSet<_>>()
        };
        self.opened.lock().retain(|_, segment| segment.strong_count() > 0);
        let mut removed = 0;
        for name in &names {
            let needed = |number: u64| manifest.contains(&number) || loads.contains(&number);
            if let Some(number) = parse_segment_name(name).filter(|number| !needed(*number)) {
                let path = dir.join(name);
                match self.name_to_keep(&names, name)? {
                    Some(kept) => {
                        self.hold(number, &path)?;
                        self.files.rename(&path, &kept)?;
                    }
                    None => self.remove_name(number, &path)?,
                }
                removed += 1;
            }
        }
        if removed > 0 {
            self.files.sync_dir(&dir)?;
        }
        Ok(removed)
    }
}

/// The segment files of the bulk loads and new indexes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct LoadFiles {
    numbers: Vec<u64>,
}

impl LoadFiles {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// All chunks of a segment, in key order.
pub(crate) fn chunks_of(segment: &Arc<Segment>) -> Vec<Arc<Chunk>> {
    let count = u32::try_from(segment.chunk_count()).expect("a segment has fewer than 2^32 chunks");
    (0..count).map(|batch| Arc::new(Chunk::of_segment(segment, batch))).collect()
}
