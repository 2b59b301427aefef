// SPDX-License-Identifier: Apache-2.0
//! [`SimulatedFiles`]: a disk in memory, for tests, that forgets what was not synced and fails on request.
//!
//! It is part of the library because the tests of other crates run on it; the database itself never uses it.
//! Everything it decides comes from its seed, so a failing test fails again with the same one.
//!
//! # The page cache and the disk
//! A write, a new length or a new name is seen at once by everybody (the page cache) and is *pending* until a
//! sync of its file or directory makes it durable (the disk).
//!
//! # The legal outcomes of a crash ([`SimulatedFiles::crash`])
//! Everything durable survives. Of each file's pending changes, one of these, chosen per file:
//! 1. all are lost;
//! 2. all survive;
//! 3. the first ones survive, in order, and the next one is torn at any byte;
//! 4. each block (512 or 4,096 bytes) of each write survives or not by itself, so a later write may be there
//!    without an earlier one; one in eight surviving blocks is torn at any byte; each change of length survives
//!    or not by itself;
//! 5. as 4, and the file has its last length, with zeros where nothing survived;
//! 6. as 5, with bytes of another file in place of the zeros: what its blocks held before, on file systems that do not
//!    write contents before lengths.
//!
//! Of the pending names (made, renamed, removed): all are lost, all survive, or each survives or not by itself.
//! A rename survives whole or not at all. Directories are durable when made (as [`FileSystem::create_dir_all`]
//! promises). Locks are gone.
//!
//! # The legal outcomes of a failed call
//! - A write: any number of its first bytes are written.
//! - A sync: each pending change becomes durable, stays pending, or is *forgotten*: it stays in the page cache,
//!   where readers see it, but no later sync writes it. This is what Linux does with pages that it could not
//!   write.
//! - A directory sync: each pending name becomes durable or stays pending.
//! - Any other call: nothing happens.
//!
//! # Processes
//! [`SimulatedFiles::crash`] and [`SimulatedFiles::restart`] return the disk as the next process sees it. What the
//! last process still holds (the old value, open files) is dead: every call on it fails.

mod model;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::files::lock::Holder;
use crate::files::{DirectoryLock, File, FileError, FileSystem, OpenMode, Operation, ReadFile, parent_of};
use model::{Disk, InodeId, Room};

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error (`EIO`), by any call that reaches the disk.
    Io,
    /// The same, by calls that change something or make it durable.
    Writing,
    /// The same, by opening a file to read it, and reading.
    Reading,
    /// No room left (`ENOSPC`), by calls that need room: making a file, writing behind its end, extending it, and syncing
    /// what is behind its durable end. What is there already needs none, as on file systems that overwrite in place.
    DiskFull,
}

/// How the disk deceives, so that a test of durability can be seen to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Syncs of files succeed and do nothing.
    IgnoreSync,
    /// Syncs of directories succeed and do nothing.
    IgnoreDirectorySync,
}

/// A simulated disk as one process sees it. Clones are the same disk and the same process.
///
/// # Locking
/// `disk` guards the whole state and is held for one call; nothing else is locked under it.
#[derive(Debug, Clone)]
pub struct SimulatedFiles {
    disk: Arc<Mutex<Disk>>,
    process: u64,
}

impl SimulatedFiles {
    /// An empty disk whose decisions follow from `seed`.
    pub fn new(seed: u64) -> SimulatedFiles {
        SimulatedFiles { disk: Arc::new(Mutex::new(Disk::new(seed))), process: 0 }
    }

    /// The machine stops and starts again: see the module for what may be lost. Faults end; lies stay.
    pub fn crash(&self) -> SimulatedFiles {
        let process = self.disk.lock().crash();
        SimulatedFiles { disk: Arc::clone(&self.disk), process }
    }

    /// The process is killed and starts again: nothing is lost, pending changes stay pending. Faults end; lies
    /// stay.
    pub fn restart(&self) -> SimulatedFiles {
        let process = self.disk.lock().next_process();
        SimulatedFiles { disk: Arc::clone(&self.disk), process }
    }

    /// One call fails: of those that `fault` can hit, the one after the next `calls`.
    pub fn fail_after(&self, calls: u64, fault: Fault) {
        let mut disk = self.disk.lock();
        disk.countdown = Some((calls, fault));
        disk.stays_broken = false;
    }

    /// The disk dies: of the calls that `fault` can hit, those after the next `calls` fail, all of them.
    pub fn fail_from(&self, calls: u64, fault: Fault) {
        let mut disk = self.disk.lock();
        disk.countdown = Some((calls, fault));
        disk.stays_broken = true;
    }

    /// From now on one in `odds` of the calls that `fault` can hit fails, at random.
    ///
    /// # Panics
    /// When `odds` is 0.
    pub fn fail_randomly(&self, odds: u64, fault: Fault) {
        assert!(odds > 0, "one in zero calls cannot fail");
        self.disk.lock().chance = Some((odds, fault));
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.disk.lock().heal();
    }

    /// Makes the disk deceive from now on.
    pub fn tell(&self, lie: Lie) {
        self.tell_about(lie, Path::new(""));
    }

    /// Makes the disk deceive from now on about the files whose paths begin with `place`, or about that directory.
    pub fn tell_about(&self, lie: Lie, place: &Path) {
        self.disk.lock().lies.push((lie, place.to_path_buf()));
    }

    /// The number of calls so far that [`Fault::Io`] could have hit; to make each of them fail in turn.
    pub fn call_count(&self) -> u64 {
        self.disk.lock().call_count
    }

    /// Inverts the bits of `mask` in the byte at `offset`, durably and in the page cache: a damaged disk.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn damage(&self, path: &Path, offset: u64, mask: u8) {
        let mut disk = self.disk.lock();
        let id = *disk.names.get(path).expect("the file to damage exists");
        disk.inode(id).damage(offset, mask);
    }

    /// The same files, durable, on a disk of their own.
    pub fn copy(&self) -> SimulatedFiles {
        let disk = self.disk.lock().copy();
        SimulatedFiles { disk: Arc::new(Mutex::new(disk)), process: 0 }
    }

    /// The disk, if this process still runs and the call does not fail.
    fn call(&self, operation: Operation, path: &Path) -> Result<MutexGuard<'_, Disk>, FileError> {
        let mut disk = self.look(operation, path)?;
        disk.pass(operation).map_err(|source| FileError::new(operation, path, source))?;
        Ok(disk)
    }

    /// The disk, if this process still runs.
    fn look(&self, operation: Operation, path: &Path) -> Result<MutexGuard<'_, Disk>, FileError> {
        let disk = self.disk.lock();
        if disk.process == self.process {
            Ok(disk)
        } else {
            let source = io::Error::other("the simulated process has ended");
            Err(FileError::new(operation, path, source))
        }
    }
}

fn find(disk: &Disk, operation: Operation, path: &Path) -> Result<InodeId, FileError> {
    let not_found = || FileError::new(operation, path, io::ErrorKind::NotFound.into());
    disk.names.get(path).copied().ok_or_else(not_found)
}

impl FileSystem for SimulatedFiles {
    fn create_dir_all(&self, dir: &Path) -> Result<(), FileError> {
        let mut disk = self.call(Operation::CreateDir, dir)?;
        for ancestor in dir.ancestors() {
            disk.dirs.insert(ancestor.to_path_buf());
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, FileError> {
        let disk = self.call(Operation::List, dir)?;
        if !disk.dirs.contains(dir) {
            return Err(FileError::new(Operation::List, dir, io::ErrorKind::NotFound.into()));
        }
        let inside = disk.names.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name().and_then(|name| name.to_str()));
        // `names` is sorted by path, and these share all but the last part.
        Ok(names.map(str::to_string).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let operation = Operation::Open;
        // Opening what is there needs no room.
        let mut disk = match mode {
            OpenMode::Create => self.call(operation, path)?,
            OpenMode::Existing => self.look(operation, path)?,
        };
        let inode = match (disk.names.get(path).copied(), mode) {
            (Some(inode), OpenMode::Existing) => inode,
            (Some(inode), OpenMode::Create) => {
                disk.inode(inode).set_len(0);
                inode
            }
            (None, OpenMode::Create) if disk.dirs.contains(&parent_of(path)) => disk.make_file(path),
            (None, _) => return Err(FileError::new(operation, path, io::ErrorKind::NotFound.into())),
        };
        Ok(Arc::new(SimulatedFile { files: self.clone(), inode, path: path.to_path_buf() }))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let mut disk = self.call(Operation::Read, path)?;
        let inode = find(&disk, Operation::Read, path)?;
        Ok(disk.inode(inode).cache.clone())
    }

    fn open_to_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>, FileError> {
        let mut disk = self.look(Operation::Open, path)?;
        disk.pass_with(Operation::Read, Room::There)
            .map_err(|source| FileError::new(Operation::Open, path, source))?;
        let inode = find(&disk, Operation::Open, path)?;
        Ok(Arc::new(SimulatedFile { files: self.clone(), inode, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        let mut disk = self.call(Operation::Rename, from)?;
        let inode = find(&disk, Operation::Rename, from)?;
        disk.rename(inode, from, to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        let mut disk = self.call(Operation::Remove, path)?;
        let inode = find(&disk, Operation::Remove, path)?;
        disk.remove(inode, path);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), FileError> {
        let mut disk = self.look(Operation::SyncDir, dir)?;
        match disk.pass(Operation::SyncDir) {
            Ok(()) => disk.sync_names(dir),
            Err(source) => {
                disk.fail_to_sync_names(dir);
                return Err(FileError::new(Operation::SyncDir, dir, source));
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool, FileError> {
        let disk = self.look(Operation::Inspect, path)?;
        Ok(disk.names.contains_key(path) || disk.dirs.contains(path))
    }

    fn len(&self, path: &Path) -> Result<u64, FileError> {
        let mut disk = self.look(Operation::Inspect, path)?;
        let inode = find(&disk, Operation::Inspect, path)?;
        Ok(disk.inode(inode).cache.len() as u64)
    }

    fn lock(&self, dir: &Path) -> Result<DirectoryLock, FileError> {
        let mut disk = self.look(Operation::Lock, dir)?;
        if !disk.locks.insert(dir.to_path_buf()) {
            let holder = Holder::this_process();
            return Err(FileError::DirectoryInUse { path: dir.to_path_buf(), holder });
        }
        Ok(DirectoryLock::new(SimulatedLock { files: self.clone(), dir: dir.to_path_buf() }))
    }
}

/// Gives the lock back, unless its process has ended and the lock with it.
struct SimulatedLock {
    files: SimulatedFiles,
    dir: PathBuf,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        if let Ok(mut disk) = self.files.look(Operation::Lock, &self.dir) {
            disk.locks.remove(&self.dir);
        }
    }
}

/// An open file of a simulated disk.
#[derive(Debug)]
struct SimulatedFile {
    files: SimulatedFiles,
    inode: InodeId,
    path: PathBuf,
}

impl SimulatedFile {
    fn sync(&self) -> Result<(), FileError> {
        let mut disk = self.files.look(Operation::Sync, &self.path)?;
        let room = if disk.inode(self.inode).grows() { Room::Needed } else { Room::There };
        match disk.pass_with(Operation::Sync, room) {
            Ok(()) => disk.sync_file(self.inode, &self.path),
            Err(source) => {
                disk.fail_to_sync_file(self.inode);
                return Err(FileError::new(Operation::Sync, &self.path, source));
            }
        }
        Ok(())
    }
}

impl ReadFile for SimulatedFile {
    fn len(&self) -> Result<u64, FileError> {
        File::len(self)
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let mut disk = self.files.look(Operation::Read, &self.path)?;
        let failed = |source: io::Error| FileError::at(Operation::Read, &self.path, offset, source);
        disk.pass_with(Operation::Read, Room::There).map_err(failed)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = disk.inode(self.inode).cache.get(start..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(rest.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))?);
        Ok(())
    }
}

impl File for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let mut disk = self.files.look(Operation::Write, &self.path)?;
        let end = offset + bytes.len() as u64;
        let is_inside = end <= disk.inode(self.inode).cache.len() as u64;
        let outcome = disk.pass_with(Operation::Write, if is_inside { Room::There } else { Room::Needed });
        let count = match &outcome {
            Ok(()) => bytes.len(),
            Err(_) => disk.random.below(bytes.len() + 1),
        };
        disk.inode(self.inode).write(offset, &bytes[..count]);
        outcome.map_err(|source| FileError::at(Operation::Write, &self.path, offset, source))
    }

    fn sync_data(&self) -> Result<(), FileError> {
        self.sync()
    }

    fn sync_all(&self) -> Result<(), FileError> {
        self.sync()
    }

    fn len(&self) -> Result<u64, FileError> {
        let mut disk = self.files.look(Operation::Inspect, &self.path)?;
        Ok(disk.inode(self.inode).cache.len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        let mut disk = self.files.look(Operation::SetLen, &self.path)?;
        let is_shorter = len <= disk.inode(self.inode).cache.len() as u64;
        let room = if is_shorter { Room::There } else { Room::Needed };
        disk.pass_with(Operation::SetLen, room)
            .map_err(|source| FileError::new(Operation::SetLen, &self.path, source))?;
        disk.inode(self.inode).set_len(len);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
