// SPDX-License-Identifier: Apache-2.0
//! The manifest: what a checkpoint leaves behind as the place to recover from.
//!
//! It holds the definitions, for each space the chunks of its base, and the log position from which on records
//! have to be applied to that. It is replaced as a whole: written aside, synced, renamed, directory synced. So
//! a directory has one manifest at any time, the old one or the new one.
//!
//! | bytes | field | value |
//! |---|---|---|
//! | 0..8 | magic | `COEVALMF` |
//! | 8..12 | version | 1; 2 if there are roles or owners; 3 if there are brick tables; 4 if there are types; 5 if there are rights on servers; 6 if there are terms, or times; 7 if there are synchronous replicas; 8 if columns were dropped, synchronous replicas follow others, or views have columns; 9 if there are columns of type `pg_lsn`, constraints that are not valid, or domains; 10 if there are segments of version 2; 11 if there are default privileges, privileges on columns, columns of type `numeric` without digits, of bit strings or of times with a zone, or settings that sessions begin with |
//! | 12..16 | checksum | CRC32C of bytes 0..12 and 16.. |
//! | 16..24 | length | of the body |
//! | 24.. | body | JSON, see [`Manifest`] |

use crate::access_rights::{ObjectAccess, RoleDef};
use crate::brick_def::BrickDef;
use crate::catalog::{SequenceDef, TableDef, TypeDef, ViewDef};
use crate::default_privileges::DefaultPrivileges;
use crate::error::StoreError;
use crate::files::{FileSystem, put_in_place, write_aside};
use crate::ids::SequenceId;
use crate::log::ChecksumPolicy;
use crate::replicas::SynchronousReplicas;
use crate::session_defaults::SessionDefaults;
use crate::terms::Term;
use crate::types::{ColumnType, ElementType};
use coeval_txn::{Epoch, EpochSet};
use crc32c::{crc32c, crc32c_append};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(crate) const FILE_NAME: &str = "MANIFEST";
const MAGIC: [u8; 8] = *b"COEVALMF";
/// The version without roles and owners, which readers of that time understand whole.
const FORMAT_VERSION_PLAIN: u32 = 1;
/// The version with them: who does not know of them is to refuse it rather than forget them.
const FORMAT_VERSION_ROLES: u32 = 2;
/// The version with brick tables.
const FORMAT_VERSION_BRICKS: u32 = 3;
/// The version with types that users have made.
const FORMAT_VERSION_TYPES: u32 = 4;
/// The version with rights on servers of other engines.
const FORMAT_VERSION_SERVERS: u32 = 5;
/// The version with terms and times.
const FORMAT_VERSION_TERMS: u32 = 6;
/// The version with synchronous replicas.
const FORMAT_VERSION_SYNCHRONOUS: u32 = 7;
/// The version with rows and segments that have no room for dropped columns, and with a list of synchronous replicas that
/// follows another, and with columns of views.
const FORMAT_VERSION_DROPPED: u32 = 8;
/// The version with columns of type `pg_lsn`, with constraints that are not valid, with brick tables that are spread over nodes, and with
/// views that check what is written through them. It stands for records of new indexes that name files as well.
const FORMAT_VERSION_PLACES: u32 = 9;
/// The version with segments whose columns are encoded.
const FORMAT_VERSION_ENCODED: u32 = 10;
/// The version with default privileges, privileges on columns, columns of type `numeric` without digits, of bit strings and of times
/// with a zone, and settings that sessions begin with. The newest: a replica takes nothing from a program whose newest is above its own,
/// so it also goes up when records of the log or files of segments get a new form.
pub const FORMAT_VERSION: u32 = 11;
const HEADER_BYTES: usize = 24;

/// The contents of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of the world that it holds.
    pub(crate) version: u64,
    /// The LSN behind the last log record that is in that world.
    pub(crate) log: u64,
    /// Numbers that have not been given yet.
    pub(crate) next_space: u32,
    pub(crate) next_sequence: u32,
    pub(crate) next_segment: u64,
    pub(crate) schemas: Vec<String>,
    pub(crate) tables: Vec<TableEntry>,
    pub(crate) views: Vec<ViewDef>,
    pub(crate) sequences: Vec<SequenceDef>,
    /// Where each sequence goes on; `None`: it is at its end.
    pub(crate) resume_points: Vec<(SequenceId, Option<i64>)>,
    /// The segment files that the chunks lie in.
    pub(crate) segments: Vec<SegmentEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<RoleDef>,
    /// Whose schemas are, where that was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) schema_access: Vec<(String, ObjectAccess)>,
    /// Who may use servers of other engines, where that was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) server_access: Vec<(String, ObjectAccess)>,
    /// What new objects are granted from the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) default_privileges: Vec<DefaultPrivileges>,
    /// The settings that sessions begin with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) session_defaults: Vec<SessionDefaults>,
    /// Types that users have made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) types: Vec<TypeDef>,
    /// Which replicas commits wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) synchronous_replicas: Option<SynchronousReplicas>,
    /// Which rows of brick tables the flush rounds hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) epochs: Option<FlushedEpochs>,
    /// Who wrote the log up to `log`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) terms: Vec<Term>,
    /// The last time that the log has up to `log`; 0 if it has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) time: u64,
    /// Whether columns of any of the segments are encoded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) has_encoded_segments: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(time: &u64) -> bool {
    *time == 0
}

/// A set of epochs: all up to one of them, without some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlushedEpochs {
    pub(crate) through: u64,
    pub(crate) except: Vec<u64>,
}

/// The flush rounds of a brick table, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BrickRounds {
    pub(crate) rounds: Vec<SegmentEntry>,
    /// Bricks of which only rounds from this segment number on count.
    pub(crate) voids: Vec<(u64, u64)>,
}

/// A table: its definition and where its chunks lie, rows first, then each index of the definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableEntry {
    pub(crate) definition: TableDef,
    pub(crate) rows: Vec<BatchRun>,
    pub(crate) indexes: Vec<Vec<BatchRun>>,
    /// Of a brick table, whose rows lie here instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bricks: Option<BrickRounds>,
}

/// Chunks that follow one another in key order and in one segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u32)", into = "(u64, u32, u32)")]
pub(crate) struct BatchRun {
    pub(crate) segment: u64,
    pub(crate) first_batch: u32,
    pub(crate) count: u32,
}

impl From<(u64, u32, u32)> for BatchRun {
    fn from((segment, first_batch, count): (u64, u32, u32)) -> Self {
        Self { segment, first_batch, count }
    }
}

impl From<BatchRun> for (u64, u32, u32) {
    fn from(run: BatchRun) -> Self {
        (run.segment, run.first_batch, run.count)
    }
}

/// A segment file and the checksum of its footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32)", into = "(u64, u32)")]
pub(crate) struct SegmentEntry {
    pub(crate) number: u64,
    pub(crate) footer_checksum: u32,
}

impl From<(u64, u32)> for SegmentEntry {
    fn from((number, footer_checksum): (u64, u32)) -> Self {
        Self { number, footer_checksum }
    }
}

impl From<SegmentEntry> for (u64, u32) {
    fn from(entry: SegmentEntry) -> Self {
        (entry.number, entry.footer_checksum)
    }
}

impl Manifest {
    /// The manifest of an empty database.
    pub(crate) fn empty() -> Self {
        Self {
            version: 0,
            log: 0,
            next_space: 1,
            next_sequence: 1,
            next_segment: 1,
            schemas: vec![crate::catalog::DEFAULT_SCHEMA.to_owned()],
            tables: Vec::new(),
            views: Vec::new(),
            sequences: Vec::new(),
            resume_points: Vec::new(),
            segments: Vec::new(),
            roles: Vec::new(),
            schema_access: Vec::new(),
            server_access: Vec::new(),
            default_privileges: Vec::new(),
            session_defaults: Vec::new(),
            types: Vec::new(),
            synchronous_replicas: None,
            epochs: None,
            terms: Vec::new(),
            time: 0,
            has_encoded_segments: false,
        }
    }

    /// The numbers of all files that it needs.
    pub(crate) fn files(&self) -> impl Iterator<Item = u64> {
        let rounds = self.tables.iter().flat_map(|table| &table.bricks).flat_map(|bricks| &bricks.rounds);
        self.segments.iter().chain(rounds).map(|entry| entry.number)
    }

    /// The newest epoch of the flushed rows.
    pub(crate) fn newest_epoch(&self) -> Epoch {
        self.flushed_epochs().newest()
    }

    /// Which rows of brick tables the flush rounds hold.
    pub(crate) fn flushed_epochs(&self) -> EpochSet {
        let Some(flushed) = &self.epochs else { return EpochSet::none() };
        let epoch = |number: u64| Epoch::new(number.clamp(1, Epoch::MAX.get()));
        if flushed.through == 0 {
            return EpochSet::none();
        }
        EpochSet::through(epoch(flushed.through)).without(flushed.except.iter().copied().map(epoch))
    }

    /// The types of all columns of tables and views.
    fn column_types(&self) -> impl Iterator<Item = ColumnType> {
        let of_tables =
            self.tables.iter().flat_map(|table| &table.definition.columns).map(|column| column.ty);
        let of_views = self.views.iter().filter_map(|view| view.output.as_ref()).flatten();
        of_tables.chain(of_views.map(|column| column.ty))
    }

    /// The version that it is written as.
    fn format_version(&self) -> u32 {
        let of_tables = self.tables.iter().map(|table| &table.definition.access);
        let mut accesses = of_tables.chain(self.views.iter().map(|view| &view.access));
        let is_newest = !self.default_privileges.is_empty()
            || !self.session_defaults.is_empty()
            || accesses.any(|access| !access.columns.is_empty())
            || self.column_types().any(is_of_newest);
        if is_newest {
            return FORMAT_VERSION;
        }
        if self.has_encoded_segments {
            return FORMAT_VERSION_ENCODED;
        }
        let objects = (self.tables.iter().map(|table| &table.definition.access))
            .chain(self.views.iter().map(|view| &view.access))
            .chain(self.sequences.iter().map(|sequence| &sequence.access));
        let is_plain = self.roles.is_empty() && self.schema_access.is_empty() && { objects }
            .all(ObjectAccess::is_default);
        let has_dropped =
            |table: &TableEntry| table.definition.columns.iter().any(|column| column.dropped_at().is_some());
        let follows_another = |list: &SynchronousReplicas| !list.before.is_empty();
        let is_unsure = |table: &TableEntry| {
            let (checks, keys) = (&table.definition.checks, &table.definition.foreign_keys);
            let validities = checks.iter().map(|check| check.validity);
            validities.chain(keys.iter().map(|key| key.validity)).any(|validity| !validity.is_valid())
        };
        let is_spread =
            |table: &TableEntry| table.definition.bricks.as_ref().is_some_and(BrickDef::is_spread);
        let has_domain =
            |table: &TableEntry| table.definition.columns.iter().any(|column| column.domain.is_some());
        if self.column_types().any(is_place)
            || self.types.iter().any(|def| def.domain.is_some())
            || self.tables.iter().any(|table| is_unsure(table) || is_spread(table) || has_domain(table))
            || self.views.iter().any(|view| view.check.is_some())
        {
            return FORMAT_VERSION_PLACES;
        }
        if self.tables.iter().any(has_dropped)
            || self.views.iter().any(|view| view.output.is_some())
            || self.synchronous_replicas.as_ref().is_some_and(follows_another)
        {
            return FORMAT_VERSION_DROPPED;
        }
        if self.synchronous_replicas.is_some() {
            return FORMAT_VERSION_SYNCHRONOUS;
        }
        if !self.terms.is_empty() || self.time != 0 {
            return FORMAT_VERSION_TERMS;
        }
        if !self.server_access.is_empty() {
            return FORMAT_VERSION_SERVERS;
        }
        if !self.types.is_empty() {
            return FORMAT_VERSION_TYPES;
        }
        if self.tables.iter().any(|table| table.definition.bricks.is_some()) {
            return FORMAT_VERSION_BRICKS;
        }
        if is_plain { FORMAT_VERSION_PLAIN } else { FORMAT_VERSION_ROLES }
    }

    /// Makes this the manifest of the directory; durable on return.
    ///
    /// # Errors
    /// When a step fails; the directory may then have the old manifest or this one.
    pub(crate) fn write(&self, files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        self.write_aside(files, dir)?;
        Self::put_in_place(files, dir)
    }

    /// Writes it beside the present one, durably; returns its size.
    ///
    /// # Errors
    /// When it cannot be written; the directory has the old manifest.
    pub(crate) fn write_aside(&self, files: &dyn FileSystem, dir: &Path) -> Result<u64, StoreError> {
        let bytes = self.encode();
        write_aside(files, &manifest_path(dir), &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Puts the one that was written aside in the place of the present one; durable on return.
    ///
    /// # Errors
    /// When a step fails; the directory may then have the old manifest or the new one.
    pub(crate) fn put_in_place(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        Ok(put_in_place(files, &manifest_path(dir))?)
    }

    /// The manifest of the directory; `None` if it has none.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::UnsupportedVersion`], [`StoreError::File`].
    pub(crate) fn read(
        files: &dyn FileSystem,
        dir: &Path,
        checksums: ChecksumPolicy,
    ) -> Result<Option<Self>, StoreError> {
        let path = manifest_path(dir);
        if !files.exists(&path)? {
            return Ok(None);
        }
        Self::decode(&files.read(&path)?, &path, checksums).map(Some)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("a manifest is plain data");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.format_version().to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        let checksum = checksum_of(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path, checksums: ChecksumPolicy) -> Result<Self, StoreError> {
        let corrupt = |offset: u64, what: &str| StoreError::corrupt(path, offset, what);
        let header =
            bytes.first_chunk::<HEADER_BYTES>().ok_or_else(|| corrupt(0, "the header is cut off"))?;
        if header[..8] != MAGIC {
            return Err(corrupt(0, "this is no manifest"));
        }
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let sound = checksums == ChecksumPolicy::IgnoredOnPurpose || checksum_of(bytes) == number(12);
        if !(FORMAT_VERSION_PLAIN..=FORMAT_VERSION).contains(&number(8)) && sound {
            let file = path.display().to_string();
            return Err(StoreError::UnsupportedVersion { file, found: number(8), supported: FORMAT_VERSION });
        }
        if !sound {
            return Err(corrupt(0, "the contents do not fit the checksum"));
        }
        let length = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
        if length != (bytes.len() - HEADER_BYTES) as u64 {
            return Err(corrupt(16, "the length is not that of the file"));
        }
        serde_json::from_slice(&bytes[HEADER_BYTES..])
            .map_err(|error| corrupt(HEADER_BYTES as u64, &error.to_string()))
    }
}

/// Where the manifest of a directory lies.
pub(crate) fn manifest_path(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

/// Whether values of the type are numbers of any number of digits, bit strings or times with a zone, or arrays of one of these.
fn is_of_newest(ty: ColumnType) -> bool {
    let element = if let ColumnType::Array(element) = ty { element.column_type() } else { ty };
    matches!(element, ColumnType::AnyNumeric | ColumnType::TimeTz) || element.is_bits()
}

/// Whether values of the type are places in a log, or arrays of them.
fn is_place(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::PgLsn | ColumnType::Array(ElementType::PgLsn))
}

fn checksum_of(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[..12]), &bytes[16..])
}

#[cfg(test)]
mod tests;
