// SPDX-License-Identifier: Apache-2.0
//! Opening a directory: the manifest gives a world, the log what came after it.
//!
//! What is found and what is done about it is a table in `recovery/directory.rs`. The log of a new database is durable before
//! its manifest is, so that one without the other is told from a first open that did not end.
//!
//! # Replay
//! A record says what a commit batch did to keys, not to chunks, so it can be applied to any base with the
//! contents it was made on. That matters for bulk loads: where the load went between two chunks at the time,
//! the manifest's base may have a chunk across that place (then it is split), or a checkpoint that failed after
//! all may have left keys there that were deleted before the load (then the rows are applied one by one).
//! Changes of rows are gathered over many records and applied per table at once, sorted; definitions and loads
//! are applied in their place.
//!
//! Versions of records follow one another without a gap; a gap is damage.

mod directory;
mod new_indexes;
mod replay;
mod salvage;

use crate::bricks::{BrickRows, Bricks, restore_rounds};
use crate::build_index::build_index;
use crate::catalog::{Catalog, DEFAULT_SCHEMA, TableDef};
use crate::chunk::Chunk;
use crate::disk::{Disk, FOLLOWER_FILE, LOG_DIR, STRETCH_BITS, UNFINISHED_COPY_FILE};
use crate::error::{StoreError, TableDamage};
use crate::files::FileSystem;
use crate::ids::SpaceId;
use crate::kept_log::KeptLog;
use crate::log::{Log, LogOptions, Lsn, OpenError};
use crate::manifest::{BatchRun, Manifest, SegmentEntry, TableEntry, manifest_path};
use crate::promises::{FILE_NAME as PROMISE_FILE, KeptPromise, PromisedTo};
use crate::record::{decode_places, encode_term};
use crate::retention::{Kept, Place, Places, Slot};
use crate::rewinding_mark::refuse_unfinished_rewinding;
use crate::segment::{SEGMENT_DIR, Segment, SegmentRef, parse_segment_name};
use crate::sequence::Sequences;
use crate::shared::Contents;
use crate::space::Space;
use crate::table::Table;
use crate::terms::{TermHistory, Timeline, random_id};
use crate::world::World;
use coeval_txn::Version;
pub(crate) use directory::may_lie_in_new_directory;
use directory::{Decision, Directory};
pub(crate) use replay::{BatchPlace, FollowedLog, ObserveReplay, ReplayError, ReplayedLog, Replayer};
pub(crate) use salvage::{open_locked, salvage};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What opening a directory gives.
pub(crate) struct Recovered {
    pub(crate) contents: Contents,
    /// None if nothing may be written.
    pub(crate) log: Option<Log>,
    pub(crate) disk: Disk,
    /// The world has what the log has up to here: to its end, but for [`Role::FollowerUpTo`].
    pub(crate) applied: Lsn,
}

/// Why a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To be written: a term begins.
    Primary,
    /// The same, without terms.
    PrimaryWithoutTerms,
    /// To take another store's log.
    Follower,
    /// The same, and what it has of that beyond this version is to be gone through once more: it stays in the log, and is
    /// not in the world.
    FollowerUpTo(Version),
}

impl Role {
    fn is_follower(self) -> bool {
        matches!(self, Self::Follower | Self::FollowerUpTo(_))
    }

    /// The newest version that is applied of the log.
    fn version_max(self) -> Option<Version> {
        if let Self::FollowerUpTo(version) = self { Some(version) } else { None }
    }
}

/// Opens a directory, or makes a database there.
///
/// # Errors
/// See [`Store::open_with`](crate::Store::open_with).
pub(crate) fn recover(
    files: Arc<dyn FileSystem>,
    dir: &Path,
    log_options: LogOptions,
    role: Role,
) -> Result<Recovered, StoreError> {
    // First: who opens a replica makes no directory where there is none.
    check_role(&*files, dir, role)?;
    files.create_dir_all(dir)?;
    let directory = Directory::look(&*files, dir)?;
    if directory.decision() == Decision::Foreign {
        // Before the lock is taken, which is a file.
        directory.refuse(dir)?;
    }
    let lock = files.lock(dir)?;
    check_role(&*files, dir, role)?;
    let directory = Directory::look(&*files, dir)?;
    directory.refuse(dir)?;
    let log_dir = dir.join(LOG_DIR);
    let segment_dir = dir.join(SEGMENT_DIR);
    if directory.decision() == Decision::Create {
        Log::create(&*files, &log_dir)?;
        Manifest::empty().write(&*files, dir)?;
    }
    let manifest = Manifest::read(&*files, dir, log_options.checksums)?;
    let manifest = manifest.ok_or_else(|| StoreError::corrupt(&manifest_path(dir), 0, "it is gone"))?;
    files.create_dir_all(&segment_dir)?;
    // The last process may have ended before the manifest's name was durable. A crash must not bring an older
    // manifest back once files that only that one names are removed.
    files.sync_dir(dir)?;
    let disk =
        Disk::new(Arc::clone(&files), dir.to_path_buf(), lock, log_options.checksums, manifest.next_segment);
    let KeptLog { kept, slots, places, .. } = kept_log(&disk)?;
    let world = restore(&disk, &manifest, Mending::None)?;
    let bricks = manifest.flushed_epochs();
    let mut replayer = Replayer::new(&disk, world, &manifest);
    let from = Lsn::new(manifest.log);
    let mut applied = from;
    let mut is_beyond = false;
    let mut log = Log::open_with(files, &log_dir, from, log_options, &mut |end, payload| {
        is_beyond = is_beyond || lies_beyond(payload, role)?;
        if is_beyond {
            return keep_loads(&disk, payload);
        }
        applied = end;
        replayer.record(payload)
    })
    .map_err(open_error)?;
    if replayer.ends_inert() && !is_beyond {
        log.note_inert_end();
    }
    let replayed = if role.is_follower() { replayer.finish_to_follow() } else { replayer.finish() };
    let mut terms = replayed.terms;
    let promise = KeptPromise::read(disk.files().as_ref(), disk.dir())?;
    if role == Role::Primary {
        refuse_former_replica(disk.dir(), promise, &terms)?;
        begin_own_term(&mut terms, &mut log, promise, &replayed.world)?;
    }
    disk.raise_next_segment(highest_segment_below(&disk, manifest.next_segment)? + 1);
    let named = manifest.files().collect::<BTreeSet<_>>();
    let version = Version::new(manifest.version);
    let places = Places::with_left(places, Place { log: from, version });
    let needed = loads_needed_behind(kept, &slots, &places).fold(version, Version::min);
    disk.remove_unneeded(needed, &named)?;
    let contents = Contents {
        sequences: Sequences::recovered(replayed.resume_points),
        world: replayed.world,
        flushed_epochs: bricks,
        next_space: replayed.next_space,
        next_sequence: replayed.next_sequence,
        manifest_log: from,
        terms,
        time: replayed.time,
        kept,
        slots,
        places,
        promise,
    };
    Ok(Recovered { contents, log: Some(log), disk, applied })
}

/// Whether a record is of a later version than is applied.
fn lies_beyond(payload: &[u8], role: Role) -> Result<bool, ReplayError> {
    let Some(newest) = role.version_max() else { return Ok(false) };
    Ok(decode_places(payload)?.is_some_and(|(version, _)| version > newest))
}

/// The files of bulk loads and new indexes that a record names stay until it is applied.
fn keep_loads(disk: &Disk, payload: &[u8]) -> Result<(), ReplayError> {
    if let Some((version, segments)) = decode_places(payload)? {
        disk.note_committed(segments.iter().map(|segment| segment.number), version);
    }
    Ok(())
}

/// What is kept of the log. The bulk loads in it are noted; before the log is read, which knows better of which
/// version one is that was on its way.
pub(crate) fn kept_log(disk: &Disk) -> Result<KeptLog, StoreError> {
    let kept = KeptLog::read(&**disk.files(), disk.dir())?.unwrap_or_default();
    for &(number, version) in &kept.loads {
        disk.note_committed(std::iter::once(number), version);
    }
    Ok(kept)
}

/// The versions behind which somebody may ask for bulk loads.
fn loads_needed_behind(kept: Option<Kept>, slots: &[Slot], places: &Places) -> impl Iterator<Item = Version> {
    let slots = slots.iter().filter(|slot| !slot.is_lost).map(|slot| slot.version);
    let kept = kept.map(|kept| kept.version);
    slots.chain(kept).chain(places.oldest().map(|place| place.version))
}

/// Refuses a replica's directory that has lost the file which says so. It would begin a term of a timeline that another machine
/// writes. A replica has promised the timeline of whom it follows to that one; a primary's directory has a promise to another only
/// of a timeline beyond its own, and one that was promoted has a promise to itself.
///
/// # Errors
/// [`StoreError::IncompleteDatabase`].
pub(crate) fn refuse_former_replica(
    dir: &Path,
    promise: Option<KeptPromise>,
    terms: &TermHistory,
) -> Result<(), StoreError> {
    let is_others =
        |kept: KeptPromise| kept.to == PromisedTo::Another && kept.promise.timeline <= terms.timeline();
    if !promise.is_some_and(is_others) {
        return Ok(());
    }
    Err(StoreError::IncompleteDatabase {
        directory: dir.display().to_string(),
        found: PROMISE_FILE.to_owned(),
        missing: FOLLOWER_FILE,
        advice: "it was a replica, whose log another machine writes; put the file back (an empty one will do), and follow \
                 or promote it",
    })
}

/// Begins the term of a primary that is opened, in the timeline that it was promised, if it was.
fn begin_own_term(
    terms: &mut TermHistory,
    log: &mut Log,
    promise: Option<KeptPromise>,
    world: &World,
) -> Result<(), StoreError> {
    let own = promise.filter(|kept| kept.to == PromisedTo::Itself);
    begin_term(terms, log, own.map_or(Timeline::FIRST, |kept| kept.promise.timeline));
    if world.catalog().synchronous_replicas().is_some() {
        // Replicas that have what the log had before count for it only once they have the beginning of this term
        // (`promises.rs`), and that does not wait for somebody to write.
        log.write_preamble()?;
    }
    Ok(())
}

/// From here on the log is that of another term, in this timeline if that is higher than the one before.
pub(crate) fn begin_term(terms: &mut TermHistory, log: &mut Log, timeline: Timeline) {
    let term = terms.next(random_id(), log.end_lsn(), timeline);
    let mut preamble = Vec::new();
    encode_term(term, &mut preamble);
    log.set_preamble(preamble);
    terms.begin(term).expect("a term begins at the end of the log");
}

/// Refuses a follower's directory for a primary, a primary's for a follower, an unfinished copy, and one whose log is being cut.
fn check_role(files: &dyn FileSystem, dir: &Path, role: Role) -> Result<(), StoreError> {
    let directory = dir.display().to_string();
    if files.exists(&dir.join(UNFINISHED_COPY_FILE))? {
        return Err(StoreError::UnfinishedCopy { directory });
    }
    refuse_unfinished_rewinding(files, dir)?;
    match (files.exists(&dir.join(FOLLOWER_FILE))?, role) {
        (true, Role::Primary | Role::PrimaryWithoutTerms) => Err(StoreError::FollowsAnother { directory }),
        (false, Role::Follower | Role::FollowerUpTo(_)) => Err(StoreError::FollowsNobody { directory }),
        (true, Role::Follower | Role::FollowerUpTo(_)) | (false, _) => Ok(()),
    }
}

/// Refuses a directory in which something of a database is missing, or which is somebody else's.
///
/// # Errors
/// [`StoreError::IncompleteDatabase`], [`StoreError::ForeignDirectory`], [`StoreError::File`].
pub(crate) fn refuse_incomplete(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    Directory::look(files, dir)?.refuse(dir)
}

/// What is done about tables of a manifest that cannot be read.
pub(crate) enum Mending<'m> {
    /// The first one ends the open.
    None,
    /// They have no rows, and are noted. Without an index alone, the table cannot be read either.
    Noted(&'m mut BTreeMap<SpaceId, TableDamage>),
    /// The same, but an index is built again of the rows.
    NotedWithIndexes(&'m mut BTreeMap<SpaceId, TableDamage>),
    /// As much of them is taken as can be.
    All(&'m mut dyn MendTables),
}

/// Builds tables from the parts of damaged ones that can be read.
pub(crate) trait MendTables {
    /// A table made of those chunks of it that can be read.
    fn table(&mut self, entry: &TableEntry, segments: &HashMap<u64, SegmentRef>) -> Table;

    /// Fills a brick table with what can be read of its flush rounds.
    fn rounds(&mut self, entry: &TableEntry, rows: &BrickRows);

    /// What can be read of the chunks of a bulk load that the log names: those of the rows, then of each index.
    fn load(&mut self, def: &TableDef, segments: &[SegmentRef]) -> Vec<Vec<Arc<Chunk>>>;

    /// What can be read of the chunks of a new index that the log names.
    fn index(&mut self, def: &TableDef, position: usize, segment: SegmentRef) -> Vec<Arc<Chunk>>;

    /// Whether rows that the log adds to a brick table, and that do not fit what it has, do not because of what was lost of it
    /// before. They are lost then, too.
    fn loses_append(&mut self, def: &TableDef) -> bool;

    /// The rows of a table are gone, whatever was damaged of them.
    fn emptied(&mut self, def: &TableDef);
}

/// The world of a manifest. Opens its segments; reads no chunk, unless something is mended.
pub(crate) fn restore(
    disk: &Disk,
    manifest: &Manifest,
    mut mending: Mending<'_>,
) -> Result<World, StoreError> {
    let segment = |entry: &SegmentEntry| {
        (entry.number, SegmentRef { number: entry.number, footer_checksum: entry.footer_checksum })
    };
    let segments: HashMap<u64, SegmentRef> = manifest.segments.iter().map(segment).collect();
    let mut catalog = catalog_of(manifest);
    let shared = Arc::new(Bricks::new());
    let mut tables = Vec::with_capacity(manifest.tables.len());
    for entry in &manifest.tables {
        let def = &entry.definition;
        catalog.put_table(None, def);
        let of_manifest = |what: String| StoreError::corrupt(&manifest_path(disk.dir()), 0, &what);
        shared.prepare(def).map_err(of_manifest)?;
        let bricks = shared.rows_of(def);
        let rounds = |bricks: &Option<Arc<BrickRows>>| match bricks {
            Some(rows) => restore_rounds(disk, rows, entry.bricks.clone().unwrap_or_default()),
            None => Ok(()),
        };
        let table = match &mut mending {
            Mending::All(mender) => {
                if let Some(rows) = &bricks {
                    mender.rounds(entry, rows);
                }
                mender.table(entry, &segments).with_bricks(bricks)
            }
            mending => {
                let indexes = match mending {
                    Mending::NotedWithIndexes(_) => DamagedIndexes::BuiltAgain,
                    _ => DamagedIndexes::Refused,
                };
                let restored = restore_table(disk, entry, &segments, indexes).and_then(|table| {
                    rounds(&bricks)?;
                    Ok(table.with_bricks(bricks))
                });
                restored.or_else(|error| {
                    mending.note(def, error, disk)?;
                    Ok::<_, StoreError>(Table::new(Arc::new(def.clone())).with_bricks(shared.rows_of(def)))
                })?
            }
        };
        tables.push(Arc::new(table));
    }
    Ok(World::restored(Version::new(manifest.version), catalog, tables, shared))
}

impl Mending<'_> {
    /// Notes a table that cannot be read, unless that ends the open.
    fn note(&mut self, def: &TableDef, error: StoreError, disk: &Disk) -> Result<(), StoreError> {
        match self {
            Self::None | Self::All(_) => Err(error),
            Self::Noted(damaged) | Self::NotedWithIndexes(damaged) => {
                damaged.insert(def.id, TableDamage::of(&error, &manifest_path(disk.dir()), 0));
                Ok(())
            }
        }
    }
}

/// The definitions of a manifest, but for tables.
fn catalog_of(manifest: &Manifest) -> Catalog {
    let mut catalog = Catalog::new();
    if !manifest.schemas.iter().any(|schema| schema == DEFAULT_SCHEMA) {
        catalog.remove_schema(DEFAULT_SCHEMA);
    }
    manifest.schemas.iter().for_each(|schema| catalog.put_schema(schema));
    manifest.roles.iter().cloned().for_each(|role| catalog.put_role(role));
    for (schema, access) in &manifest.schema_access {
        catalog.put_schema_access(schema, access.clone());
    }
    for (server, access) in &manifest.server_access {
        catalog.put_server_access(server, access.clone());
    }
    manifest.default_privileges.iter().cloned().for_each(|defaults| catalog.put_default_privileges(defaults));
    manifest.session_defaults.iter().cloned().for_each(|defaults| catalog.put_session_defaults(defaults));
    catalog.put_synchronous_replicas(manifest.synchronous_replicas.clone());
    manifest.views.iter().cloned().for_each(|view| catalog.put_view(view));
    manifest.sequences.iter().cloned().for_each(|sequence| catalog.put_sequence(sequence));
    manifest.types.iter().cloned().for_each(|def| catalog.put_type(def));
    catalog
}

/// What is done about indexes that cannot be read, while the rows can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DamagedIndexes {
    Refused,
    /// Of the rows, in memory.
    BuiltAgain,
}

fn restore_table(
    disk: &Disk,
    entry: &TableEntry,
    segments: &HashMap<u64, SegmentRef>,
    damaged_indexes: DamagedIndexes,
) -> Result<Table, StoreError> {
    let def = &entry.definition;
    let of_manifest = |what: String| {
        StoreError::corrupt(&manifest_path(disk.dir()), 0, &format!("table {}: {what}", def.name))
    };
    if entry.indexes.len() != def.indexes.len() {
        return Err(of_manifest("another number of indexes than lists of their chunks".to_owned()));
    }
    let space = |runs: &[BatchRun]| {
        let mut opened: HashMap<u64, Arc<Segment>> = HashMap::new();
        for run in runs {
            let unlisted = || of_manifest("a chunk lies in a segment that is not listed".to_owned());
            let reference = segments.get(&run.segment).ok_or_else(unlisted)?;
            if let Entry::Vacant(place) = opened.entry(run.segment) {
                place.insert(disk.open_segment(*reference)?);
            }
        }
        restore_space(runs, &opened).map_err(of_manifest)
    };
    let rows = space(&entry.rows)?;
    let mut indexes = Vec::with_capacity(def.indexes.len());
    for (position, runs) in entry.indexes.iter().enumerate() {
        let index = space(runs).or_else(|error| {
            if damaged_indexes == DamagedIndexes::Refused {
                return Err(error);
            }
            tracing::warn!(table = %def.name, index = def.indexes[position].name, %error, "an index is built again");
            let bare = vec![Space::new(); def.indexes.len()];
            build_index(&Table::from_spaces(Arc::new(def.clone()), rows.clone(), bare), def, position)
        });
        indexes.push(index?);
    }
    Ok(Table::from_spaces(Arc::new(def.clone()), rows, indexes))
}

fn restore_space(runs: &[BatchRun], segments: &HashMap<u64, Arc<Segment>>) -> Result<Space, String> {
    let mut chunks: Vec<Arc<Chunk>> = Vec::new();
    for run in runs {
        let segment = segments.get(&run.segment).ok_or("a chunk lies in a segment that is not listed")?;
        let end = run.first_batch.checked_add(run.count).ok_or("a chunk has an impossible number")?;
        if end as usize > segment.chunk_count() {
            return Err("a chunk has a number that its segment does not have".to_owned());
        }
        for batch in run.first_batch..end {
            let chunk = Chunk::of_segment(segment, batch);
            if chunks.last().is_some_and(|last| last.last_key() >= chunk.first_key()) {
                return Err("chunks are not in the order of their keys".to_owned());
            }
            chunks.push(Arc::new(chunk));
        }
    }
    Ok(Space::from_chunks(chunks))
}

/// The highest number of a segment file in the stretch of numbers that a directory gives: bulk loads that a follower has got
/// lie in another one.
fn highest_segment_below(disk: &Disk, next_segment: u64) -> Result<u64, StoreError> {
    let names = disk.files().list(&disk.dir().join(SEGMENT_DIR))?;
    let numbers = names.iter().filter_map(|name| parse_segment_name(name));
    let own = numbers.filter(|number| number >> STRETCH_BITS == next_segment >> STRETCH_BITS);
    Ok(own.max().unwrap_or(0))
}

/// The highest number of a segment file in the directory.
pub(crate) fn highest_segment(disk: &Disk) -> Result<u64, StoreError> {
    let names = disk.files().list(&disk.dir().join(SEGMENT_DIR))?;
    Ok(names.iter().filter_map(|name| parse_segment_name(name)).max().unwrap_or(0))
}

pub(crate) fn open_error(error: OpenError<ReplayError>) -> StoreError {
    match error {
        OpenError::Log(error) => error.into(),
        OpenError::Replay { path, offset, source } => source.at(&path, offset),
    }
}

#[cfg(test)]
mod tests;
