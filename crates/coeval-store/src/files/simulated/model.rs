// SPDX-License-Identifier: Apache-2.0
//! The state of a simulated disk: page cache, durable contents, what is pending between them, and the dice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{Fault, Lie, Operation, parent_of};

/// A file, whatever its name.
pub(crate) type InodeId = u64;

/// Whether the bytes of a write have a place on the disk already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Needed,
    There,
}

/// Repeatable dice (splitmix64).
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.next().is_multiple_of(odds)
    }
}

/// A change of a file that is in the page cache and not yet durable.
#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

/// A file: what readers see, what survives, and the changes in between, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    pub(crate) cache: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Inode {
    /// Whether it has an end that is not durable.
    pub(crate) fn grows(&self) -> bool {
        self.cache.len() > self.durable.len()
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let change = Change::Write { offset: to_memory(offset), bytes: bytes.to_vec() };
        apply(&mut self.cache, &change);
        self.pending.push(change);
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        let change = Change::SetLen(to_memory(len));
        apply(&mut self.cache, &change);
        self.pending.push(change);
    }

    pub(crate) fn damage(&mut self, offset: u64, mask: u8) {
        let offset = to_memory(offset);
        self.cache[offset] ^= mask;
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= mask;
        }
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// Each pending change becomes durable, stays pending, or is forgotten.
    fn fail_to_sync(&mut self, random: &mut Random) {
        for change in std::mem::take(&mut self.pending) {
            match random.below(3) {
                0 => apply(&mut self.durable, &change),
                1 => self.pending.push(change),
                _ => {}
            }
        }
    }

    /// One of the six legal outcomes; `stale` is what new blocks may hold that were not written.
    fn crash(&mut self, stale: &[u8], random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        match random.below(6) {
            0 => {}
            1 => pending.iter().for_each(|change| apply(&mut self.durable, change)),
            2 => self.keep_prefix(&pending, random),
            3 => self.keep_blocks(&pending, random),
            4 => {
                self.keep_blocks(&pending, random);
                self.durable.resize(self.cache.len(), 0);
            }
            _ => {
                let length = self.cache.len();
                let known = self.durable.len();
                let unwritten = stale.iter().copied().chain(std::iter::repeat(0)).skip(known);
                self.durable.extend(unwritten.take(length.saturating_sub(known)));
                self.keep_blocks(&pending, random);
                self.durable.resize(length, 0);
            }
        }
        self.cache = self.durable.clone();
    }

    fn keep_prefix(&mut self, pending: &[Change], random: &mut Random) {
        let whole = random.below(pending.len() + 1);
        pending[..whole].iter().for_each(|change| apply(&mut self.durable, change));
        if let Some(Change::Write { offset, bytes }) = pending.get(whole) {
            let torn = random.below(bytes.len() + 1);
            write_at(&mut self.durable, *offset, &bytes[..torn]);
        }
    }

    fn keep_blocks(&mut self, pending: &[Change], random: &mut Random) {
        let block = [512, 4096][random.below(2)];
        for change in pending {
            match change {
                Change::Write { offset, bytes } => {
                    let mut start = 0;
                    while start < bytes.len() {
                        let in_block = block - (offset + start) % block;
                        let end = bytes.len().min(start + in_block);
                        if random.one_in(2) {
                            let torn = random.one_in(8);
                            let kept = if torn { start + random.below(end - start) } else { end };
                            write_at(&mut self.durable, offset + start, &bytes[start..kept]);
                        }
                        start = end;
                    }
                }
                Change::SetLen(_) => {
                    if random.one_in(2) {
                        apply(&mut self.durable, change);
                    }
                }
            }
        }
    }
}

fn to_memory(offset: u64) -> usize {
    usize::try_from(offset).expect("a simulated file fits in memory")
}

fn apply(contents: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => write_at(contents, *offset, bytes),
        Change::SetLen(len) => contents.resize(*len, 0),
    }
}

fn write_at(contents: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[offset..end].copy_from_slice(bytes);
}

/// A change of names that is seen and not yet durable.
#[derive(Debug)]
enum NameChange {
    Make { path: PathBuf, inode: InodeId },
    Rename { from: PathBuf, to: PathBuf, inode: InodeId },
    Remove { path: PathBuf, inode: InodeId },
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        match self {
            NameChange::Make { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            NameChange::Remove { path, inode } => {
                if names.get(path) == Some(inode) {
                    names.remove(path);
                }
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        match self {
            NameChange::Make { path, .. } | NameChange::Remove { path, .. } => parent_of(path) == dir,
            NameChange::Rename { from, to, .. } => parent_of(from) == dir || parent_of(to) == dir,
        }
    }
}

/// The whole disk.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The process that runs; what belongs to an earlier one is dead.
    pub(crate) process: u64,
    pub(crate) random: Random,
    pub(crate) names: BTreeMap<PathBuf, InodeId>,
    pub(crate) dirs: BTreeSet<PathBuf>,
    pub(crate) locks: BTreeSet<PathBuf>,
    /// Each with the beginning of the paths that it is about.
    pub(crate) lies: Vec<(Lie, PathBuf)>,
    pub(crate) countdown: Option<(u64, Fault)>,
    /// Whether every call fails from the end of the countdown on.
    pub(crate) stays_broken: bool,
    pub(crate) chance: Option<(u64, Fault)>,
    pub(crate) call_count: u64,
    inodes: BTreeMap<InodeId, Inode>,
    durable_names: BTreeMap<PathBuf, InodeId>,
    pending_names: Vec<NameChange>,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Disk {
        Disk {
            process: 0,
            random: Random { state: seed },
            names: BTreeMap::new(),
            dirs: BTreeSet::from([PathBuf::from("."), PathBuf::from("/")]),
            locks: BTreeSet::new(),
            lies: Vec::new(),
            countdown: None,
            stays_broken: false,
            chance: None,
            call_count: 0,
            inodes: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
        }
    }

    /// A disk with the same names and contents, all of them durable.
    pub(crate) fn copy(&self) -> Disk {
        let settled = |inode: &Inode| Inode {
            cache: inode.cache.clone(),
            durable: inode.cache.clone(),
            pending: Vec::new(),
        };
        Disk {
            names: self.names.clone(),
            durable_names: self.names.clone(),
            dirs: self.dirs.clone(),
            inodes: self.inodes.iter().map(|(id, inode)| (*id, settled(inode))).collect(),
            ..Disk::new(self.random.state)
        }
    }

    pub(crate) fn inode(&mut self, id: InodeId) -> &mut Inode {
        self.inodes.get_mut(&id).expect("an inode stays as long as the disk")
    }

    /// Lets a call pass, or makes it fail.
    pub(crate) fn pass(&mut self, operation: Operation) -> io::Result<()> {
        self.pass_with(operation, Room::Needed)
    }

    /// Lets a call pass that needs room if such calls do, or makes it fail.
    pub(crate) fn pass_with(&mut self, operation: Operation, room: Room) -> io::Result<()> {
        self.call_count += 1;
        let hits = |fault| hits(fault, operation) && !(fault == Fault::DiskFull && room == Room::There);
        if let Some((calls, fault)) = self.countdown
            && hits(fault)
        {
            if calls == 0 {
                self.countdown = self.stays_broken.then_some((0, fault));
                return Err(error_of(fault));
            }
            self.countdown = Some((calls - 1, fault));
        }
        if let Some((odds, fault)) = self.chance
            && hits(fault)
            && self.random.one_in(odds)
        {
            return Err(error_of(fault));
        }
        Ok(())
    }

    pub(crate) fn heal(&mut self) {
        self.countdown = None;
        self.chance = None;
    }

    pub(crate) fn make_file(&mut self, path: &Path) -> InodeId {
        let inode = self.inodes.len() as InodeId;
        self.inodes.insert(inode, Inode::default());
        self.change_name(NameChange::Make { path: path.to_path_buf(), inode });
        inode
    }

    pub(crate) fn rename(&mut self, inode: InodeId, from: &Path, to: &Path) {
        self.change_name(NameChange::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode });
    }

    pub(crate) fn remove(&mut self, inode: InodeId, path: &Path) {
        self.change_name(NameChange::Remove { path: path.to_path_buf(), inode });
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    /// `path` is the name that the file was opened by.
    pub(crate) fn sync_file(&mut self, id: InodeId, path: &Path) {
        if !self.is_lied_about(Lie::IgnoreSync, path) {
            self.inode(id).sync();
        }
    }

    /// Whether the lie is about this file (its path begins with the place) or directory (it is the place).
    fn is_lied_about(&self, lie: Lie, path: &Path) -> bool {
        let is_about = |place: &Path| match lie {
            _ if place.as_os_str().is_empty() => true,
            Lie::IgnoreSync => {
                path.as_os_str().as_encoded_bytes().starts_with(place.as_os_str().as_encoded_bytes())
            }
            Lie::IgnoreDirectorySync => path == place,
        };
        self.lies.iter().any(|(told, place)| *told == lie && is_about(place))
    }

    pub(crate) fn fail_to_sync_file(&mut self, id: InodeId) {
        let inode = self.inodes.get_mut(&id).expect("an inode stays as long as the disk");
        inode.fail_to_sync(&mut self.random);
    }

    pub(crate) fn sync_names(&mut self, dir: &Path) {
        if self.is_lied_about(Lie::IgnoreDirectorySync, dir) {
            return;
        }
        for change in std::mem::take(&mut self.pending_names) {
            if change.is_in(dir) {
                change.apply(&mut self.durable_names);
            } else {
                self.pending_names.push(change);
            }
        }
    }

    pub(crate) fn fail_to_sync_names(&mut self, dir: &Path) {
        for change in std::mem::take(&mut self.pending_names) {
            if change.is_in(dir) && self.random.one_in(2) {
                change.apply(&mut self.durable_names);
            } else {
                self.pending_names.push(change);
            }
        }
    }

    /// Ends the running process; returns the next one.
    pub(crate) fn next_process(&mut self) -> u64 {
        self.process += 1;
        self.locks.clear();
        self.heal();
        self.process
    }

    /// Stops the machine; returns the process that runs after it has started again.
    pub(crate) fn crash(&mut self) -> u64 {
        let outcome = self.random.below(3);
        for change in std::mem::take(&mut self.pending_names) {
            let survives = match outcome {
                0 => false,
                1 => true,
                _ => self.random.one_in(2),
            };
            if survives {
                change.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let donor = self.random.below(self.inodes.len().max(1)) as InodeId;
        let stale = self.inodes.get(&donor).map(|inode| inode.cache.clone()).unwrap_or_default();
        for inode in self.inodes.values_mut() {
            inode.crash(&stale, &mut self.random);
        }
        self.next_process()
    }
}

/// Whether a call of this kind can fail in this way.
fn hits(fault: Fault, operation: Operation) -> bool {
    match fault {
        Fault::Io => true,
        Fault::Reading => operation == Operation::Read,
        Fault::Writing => operation != Operation::Read,
        Fault::DiskFull => {
            matches!(operation, Operation::Open | Operation::Write | Operation::SetLen | Operation::Sync)
        }
    }
}

fn error_of(fault: Fault) -> io::Error {
    match fault {
        Fault::Io | Fault::Reading | Fault::Writing => io::Error::other("simulated input/output error"),
        Fault::DiskFull => io::ErrorKind::StorageFull.into(),
    }
}
