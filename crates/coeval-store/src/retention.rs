// SPDX-License-Identifier: Apache-2.0
//! What followers and copies of a database still need of its files: checkpoints leave that alone.
//!
//! A follower that is connected holds the log from the place that it has durably, and the segment files of bulk loads that
//! the log names there. A copy that is being made holds the files of its manifest as well. What nobody holds goes with the
//! next checkpoint, so a follower that comes back too late is told so (`LogError::Gone`) and begins with a new copy.
//!
//! What is *kept* stays when the follower that needs it disconnects, and over a close (`kept_log.rs`): for an archive, which has
//! to get everything, and for *slots*, each of which has a name and belongs to one replica. It stays until the archive or the
//! slot's replica comes back, or until it is more than the limit. A slot that reaches the limit is lost: it keeps nothing any more, and
//! its state says so.
//!
//! A minimum of log stays behind each checkpoint, whether followers are connected or not ([`Places`]).
//!
//! # Locking
//! A leaf lock, held for moments.

mod places;

use crate::log::Lsn;
use coeval_txn::Version;
use parking_lot::Mutex;
pub(crate) use places::{LogExtent, Place, Places};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All that is held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retention(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    held: BTreeMap<u64, Held>,
    next: u64,
    /// At most so many bytes of log are kept for each slot.
    slot_bytes_max: u64,
    /// So many bytes stay behind each checkpoint.
    keep_bytes: u64,
    /// Checkpoints, from the oldest of which on everything stays.
    places: Places,
}

impl Default for State {
    fn default() -> Self {
        let (held, places) = (BTreeMap::new(), Places::default());
        Self { held, next: 0, slot_bytes_max: SLOT_BYTES_MAX, keep_bytes: 0, places }
    }
}

impl State {
    fn insert(&mut self, held: Held) -> u64 {
        let number = self.next;
        self.next += 1;
        self.held.insert(number, held);
        number
    }

    fn insert_slot(&mut self, slot: &Slot) {
        let kept = Some(self.slot_bytes_max);
        self.insert(Held {
            log: slot.log,
            version: slot.version,
            files: BTreeSet::new(),
            kept,
            is_left: true,
            slot: Some(slot.name.as_str().into()),
            is_lost: slot.is_lost,
        });
    }

    /// All that hold something.
    fn holding(&self) -> impl Iterator<Item = &Held> {
        self.held.values().filter(|held| !held.is_lost)
    }
}

/// The slot of this name, which nobody follows by.
fn left_slot<'s>(state: &'s mut State, name: &str) -> Result<(u64, &'s mut Held), SlotError> {
    let mut all = state.held.iter_mut();
    let found = all.find(|(_, held)| held.slot.as_deref() == Some(name));
    let (number, held) = found.ok_or_else(|| SlotError::Missing(name.to_owned()))?;
    if !held.is_left {
        return Err(SlotError::Active(name.to_owned()));
    }
    Ok((*number, held))
}

/// The bound of what a slot keeps, if nobody says another: 16 GB.
const SLOT_BYTES_MAX: u64 = 16 << 30;

/// More slots than this are not made: each may keep a great deal.
const SLOTS_MAX: usize = 64;

/// A slot: what is kept for one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// The log from here on.
    pub log: Lsn,
    /// Bulk loads of later versions.
    pub(crate) version: Version,
    /// Whether somebody follows by it.
    pub is_active: bool,
    /// Whether it was more than it may be, and is let go of.
    pub is_lost: bool,
}

/// What is wrong with a slot that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// Its name has characters that it must not have (42602).
    #[error(
        "replication slot name \"{0}\" is invalid: it takes 1 to 63 lower case letters, digits and underscores"
    )]
    Name(String),
    /// There is one (42710).
    #[error("replication slot \"{0}\" already exists")]
    Exists(String),
    /// There is none (42704).
    #[error("replication slot \"{0}\" does not exist")]
    Missing(String),
    /// Somebody follows by it (55006).
    #[error("replication slot \"{0}\" is active")]
    Active(String),
    /// It was let go of (58P01, as where the log does not reach back so far).
    #[error(
        "replication slot \"{0}\" has been invalidated, because it kept more than max_slot_wal_keep_size"
    )]
    Lost(String),
    /// There are as many as there may be (53400).
    #[error("there are {SLOTS_MAX} replication slots, and no more are made")]
    TooMany,
}

/// What one of them needs.
#[derive(Clone, Debug)]
struct Held {
    /// The log from here on.
    log: Lsn,
    /// Bulk loads of later versions.
    version: Version,
    /// Segment files by number.
    files: BTreeSet<u64>,
    /// How many bytes of log are kept at most while the follower is away; `None`: nothing is kept then.
    kept: Option<u64>,
    /// Whether the follower is away.
    is_left: bool,
    /// The name of the slot that it is.
    slot: Option<Arc<str>>,
    /// It was let go of: a slot that holds nothing.
    is_lost: bool,
}

/// What is kept when who needs it has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The log from here on.
    pub(crate) log: Lsn,
    /// Bulk loads of later versions.
    pub(crate) version: Version,
    /// At most so many bytes of log.
    pub(crate) bytes_max: u64,
}

impl Retention {
    /// Holds the log from `log` on, bulk loads of versions behind `version`, and these files.
    pub(crate) fn hold(&self, log: Lsn, version: Version, files: BTreeSet<u64>) -> Hold {
        let held = Held { log, version, files, kept: None, is_left: false, slot: None, is_lost: false };
        Hold { retention: self.clone(), number: self.insert(held) }
    }

    /// Makes a slot that keeps the log from here on, and bulk loads of later versions. One of this name that was let go of
    /// keeps nothing any more: it is made anew.
    pub(crate) fn create_slot(&self, name: &str, log: Lsn, version: Version) -> Result<(), SlotError> {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || name.len() > 63 || !name.bytes().all(is_fine) {
            return Err(SlotError::Name(name.to_owned()));
        }
        // Under one lock: two who ask at once do not both get it.
        let mut state = self.0.lock();
        state.held.retain(|_, held| !(held.is_lost && held.slot.as_deref() == Some(name)));
        let slots = || state.held.values().filter_map(|held| held.slot.as_deref());
        if slots().any(|known| known == name) {
            return Err(SlotError::Exists(name.to_owned()));
        }
        if slots().count() >= SLOTS_MAX {
            return Err(SlotError::TooMany);
        }
        state.insert_slot(&Slot { name: name.to_owned(), log, version, is_active: false, is_lost: false });
        Ok(())
    }

    /// Removes a slot that nobody follows by.
    pub(crate) fn drop_slot(&self, name: &str) -> Result<(), SlotError> {
        let mut state = self.0.lock();
        let (number, _) = left_slot(&mut state, name)?;
        state.held.remove(&number);
        Ok(())
    }

    /// Holds what the slot keeps for its follower until the hold is dropped. Holds also the log from `from` on, where the follower is,
    /// as far as it is there. (A slot that was only made when its follower came back begins after that place.)
    pub(crate) fn attach_slot(&self, name: &str, from: Option<Lsn>) -> Result<Hold, SlotError> {
        let mut state = self.0.lock();
        let (number, held) = left_slot(&mut state, name)?;
        if held.is_lost {
            return Err(SlotError::Lost(name.to_owned()));
        }
        if let Some(from) = from.filter(|from| *from < held.log) {
            // Which bulk loads the follower has is known with the next batch that it confirms.
            (held.log, held.version) = (from, Version::ZERO);
        }
        held.is_left = false;
        Ok(Hold { retention: self.clone(), number })
    }

    /// All slots, by name.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let state = self.0.lock();
        let slot = |held: &Held| {
            let name = held.slot.as_deref()?.to_owned();
            let Held { log, version, is_lost, .. } = *held;
            Some(Slot { name, log, version, is_active: !held.is_left, is_lost })
        };
        let mut slots: Vec<Slot> = state.held.values().filter_map(slot).collect();
        slots.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        slots
    }

    /// At most so many bytes of log are kept for each slot from now on.
    pub(crate) fn set_slot_bytes_max(&self, bytes_max: u64) {
        let mut state = self.0.lock();
        state.slot_bytes_max = bytes_max;
        let slots = state.held.values_mut().filter(|held| held.slot.is_some());
        slots.for_each(|held| held.kept = Some(bytes_max));
    }

    /// See [`set_slot_bytes_max`](Self::set_slot_bytes_max).
    pub(crate) fn slot_bytes_max(&self) -> u64 {
        self.0.lock().slot_bytes_max
    }

    /// At least so many bytes stay behind each checkpoint from now on.
    pub(crate) fn set_keep_bytes(&self, keep_bytes: u64) {
        self.0.lock().keep_bytes = keep_bytes;
    }

    /// See [`set_keep_bytes`](Self::set_keep_bytes).
    pub(crate) fn keep_bytes(&self) -> u64 {
        self.0.lock().keep_bytes
    }

    /// A checkpoint is about to stand here. What lies behind an earlier one and is not asked for is let go of.
    pub(crate) fn note_checkpoint(&self, place: Place, extent: &LogExtent) {
        let state = &mut *self.0.lock();
        state.places.note(place, state.keep_bytes, extent);
    }

    /// The checkpoints before the newest from which on something stays, the oldest first.
    pub(crate) fn earlier_places(&self) -> Vec<Place> {
        self.0.lock().places.earlier().collect()
    }

    fn insert(&self, held: Held) -> u64 {
        self.0.lock().insert(held)
    }

    /// That of a store in whose directory this was left.
    pub(crate) fn with_left(kept: Option<Kept>, slots: &[Slot], places: Places) -> Self {
        let retention = Self::default();
        retention.0.lock().places = places;
        if let Some(Kept { log, version, bytes_max }) = kept {
            let (files, kept) = (BTreeSet::new(), Some(bytes_max));
            retention.insert(Held { log, version, files, kept, is_left: true, slot: None, is_lost: false });
        }
        slots.iter().for_each(|slot| retention.0.lock().insert_slot(slot));
        retention
    }

    /// What is kept for an archive, whether or not who needs it has gone.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let state = self.0.lock();
        let kept = state.held.values().filter(|held| held.slot.is_none()).filter_map(|held| {
            held.kept.map(|bytes_max| Kept { log: held.log, version: held.version, bytes_max })
        });
        kept.reduce(|a, b| Kept {
            log: a.log.min(b.log),
            version: a.version.min(b.version),
            bytes_max: a.bytes_max.max(b.bytes_max),
        })
    }

    /// Lets go of what was left and is more than may be kept of a log that ends here. Returns from where on it was kept.
    pub(crate) fn let_go_of_too_much(&self, end: Lsn) -> Option<Lsn> {
        let mut let_go = None;
        self.0.lock().held.retain(|_, held| {
            let is_too_much = |bytes_max| end.get().saturating_sub(held.log.get()) > bytes_max;
            let goes = held.is_left && !held.is_lost && held.kept.is_some_and(is_too_much);
            if goes {
                let_go = Some(held.log);
                held.is_lost = held.slot.is_some();
            }
            !goes || held.is_lost
        });
        let_go
    }

    /// How far the log may be removed, up to `lsn`.
    pub(crate) fn log_before(&self, lsn: Lsn) -> Lsn {
        let state = self.0.lock();
        let places = state.places.oldest().map(|place| place.log);
        state.holding().map(|held| held.log).chain(places).fold(lsn, Lsn::min)
    }

    /// Up to which version the files of bulk loads may be removed, up to `version`.
    pub(crate) fn loads_through(&self, version: Version) -> Version {
        let state = self.0.lock();
        let places = state.places.oldest().map(|place| place.version);
        state.holding().map(|held| held.version).chain(places).fold(version, Version::min)
    }

    /// Adds the files that are held.
    pub(crate) fn add_files(&self, files: &mut BTreeSet<u64>) {
        self.0.lock().held.values().for_each(|held| files.extend(&held.files));
    }
}

/// Keeps what somebody needs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    retention: Retention,
    number: u64,
}

impl Hold {
    /// What is before is not needed any more, nor any file of the manifest.
    pub(crate) fn advance(&self, log: Lsn, version: Version) {
        let mut state = self.retention.0.lock();
        let held = state.held.get_mut(&self.number).expect("it is held until this is dropped");
        held.log = held.log.max(log);
        held.version = held.version.max(version);
        held.files.clear();
    }

    /// Has it stay when this is dropped, up to so many bytes of log. What was left before is not needed any more.
    pub(crate) fn keep(&self, bytes_max: u64) {
        let mut state = self.retention.0.lock();
        state.held.get_mut(&self.number).expect("it is held until this is dropped").kept = Some(bytes_max);
        state.held.retain(|_, held| !held.is_left || held.slot.is_some());
    }

    /// Has it go when this is dropped.
    pub(crate) fn let_go(&self) {
        let mut state = self.retention.0.lock();
        state.held.get_mut(&self.number).expect("it is held until this is dropped").kept = None;
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.retention.0.lock().held.get(&self.number).is_some_and(|held| held.kept.is_some())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.retention.0.lock();
        match state.held.get_mut(&self.number) {
            Some(held) if held.kept.is_some() => held.is_left = true,
            _ => drop(state.held.remove(&self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u64) -> Lsn {
        Lsn::new(place)
    }

    #[test]
    fn a_slot_keeps_until_it_is_dropped_or_is_more_than_it_may_be() {
        let retention = Retention::default();
        retention.create_slot("west", at(100), Version::new(5)).unwrap();
        assert_eq!(
            retention.create_slot("west", at(1), Version::ZERO),
            Err(SlotError::Exists("west".to_owned()))
        );
        for name in ["", "West", "a-b", &"x".repeat(64)] {
            assert!(
                matches!(retention.create_slot(name, at(1), Version::ZERO), Err(SlotError::Name(_))),
                "{name}"
            );
        }
        assert_eq!(
            (retention.log_before(at(900)), retention.loads_through(Version::new(9))),
            (at(100), Version::new(5))
        );
        let attach = |from| retention.attach_slot("west", from);
        // What is gone is not kept, whoever comes.
        let hold = attach(None).unwrap();
        assert_eq!(retention.log_before(at(900)), at(100));
        assert!(matches!(attach(None), Err(SlotError::Active(_))));
        assert!(matches!(retention.drop_slot("west"), Err(SlotError::Active(_))));
        hold.advance(at(300), Version::new(7));
        // Whoever keeps something for an archive lets nothing go of a slot.
        retention.hold(at(400), Version::new(8), BTreeSet::new()).keep(1_000);
        drop(hold);
        assert_eq!(retention.log_before(at(900)), at(300));
        retention.set_slot_bytes_max(500);
        assert_eq!(retention.let_go_of_too_much(at(800)), None);
        assert_eq!(retention.let_go_of_too_much(at(801)), Some(at(300)));
        assert_eq!(retention.log_before(at(900)), at(400), "what is kept for the archive");
        assert!(retention.slots()[0].is_lost);
        assert!(matches!(attach(None), Err(SlotError::Lost(_))));
        retention.create_slot("west", at(350), Version::new(9)).unwrap();
        // It keeps from where its follower is, and what it keeps already.
        drop(attach(Some(at(340))).unwrap());
        drop(attach(Some(at(360))).unwrap());
        assert_eq!(retention.log_before(at(900)), at(340));
        retention.drop_slot("west").unwrap();
        assert_eq!(retention.drop_slot("west"), Err(SlotError::Missing("west".to_owned())));
    }

    #[test]
    fn what_was_left_is_there_again_behind_an_open() {
        let retention = Retention::default();
        retention.create_slot("a", at(100), Version::new(5)).unwrap();
        let hold = retention.attach_slot("a", None).unwrap();
        let again = Retention::with_left(retention.kept(), &retention.slots(), Places::default());
        assert_eq!(again.log_before(at(900)), at(100));
        assert!(!again.slots()[0].is_active);
        drop(hold);
        assert_eq!(again.slots(), retention.slots());
    }
}
