// SPDX-License-Identifier: Apache-2.0
//! Why something was not archived, or not restored.

use crate::gap::Gap;
use coeval_store::{LogTime, StoreError};

/// Why a call failed. Each says where, and what to do if that is not plain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The place cannot be opened: a wrong address, a bucket that is not there, or settings that are missing.
    #[error("the archive {place} cannot be opened: {what}")]
    Place {
        /// As it was given.
        place: String,
        /// Why.
        what: String,
    },
    /// The storage did not do what it was asked, however often. What was sent so far stays; trying again goes on there.
    #[error("the archive {place} did not {what} in {attempts} attempts; try again when it answers: {reason}")]
    Unreachable {
        /// The archive.
        place: String,
        /// What was asked.
        what: String,
        /// How often.
        attempts: u32,
        /// What it said last.
        reason: String,
    },
    /// The storage refuses: its key is wrong, rights are missing, or it cannot create objects without overwriting. It was asked once.
    #[error("the archive {place} refuses to {what}: {reason}")]
    Refused {
        /// The archive.
        place: String,
        /// What was asked.
        what: String,
        /// What to look at, and what it said.
        reason: String,
    },
    /// There is no archive.
    #[error("there is no archive of a database in {place}; `coeval backup` makes one")]
    NoArchive {
        /// Where it was looked for.
        place: String,
    },
    /// The archive is another database's. Nothing was changed.
    #[error(
        "{place} is the archive of database {found:016x}, and this is database {database:016x}: each needs a place of its own"
    )]
    AnotherDatabase {
        /// The archive.
        place: String,
        /// The id of the database that was to be archived.
        database: u64,
        /// The id of the one that is.
        found: u64,
    },
    /// An object of another version of the program.
    #[error("{object} has format {found}, and this program reads {supported}: use a newer one")]
    UnsupportedVersion {
        /// Its name.
        object: String,
        /// Its version.
        found: u32,
        /// What is read here.
        supported: u32,
    },
    /// An object is not what was written.
    #[error("{object} is damaged: {what}. `coeval check` of the archive names all that is")]
    Damaged {
        /// Its name.
        object: String,
        /// What is wrong.
        what: String,
    },
    /// An object is missing that another one names.
    #[error(
        "{object} is missing, though the archive needs it. `coeval check` of the archive names all that is"
    )]
    Missing {
        /// Its name.
        object: String,
    },
    /// Another object has the name. Nothing was overwritten.
    #[error(
        "{object} is there with other contents: it was damaged, or somebody else writes under these names"
    )]
    Differs {
        /// Its name.
        object: String,
    },
    /// The archive does not reach there.
    #[error("{target} is not in the archive: {range}")]
    OutOfRange {
        /// What was wanted.
        target: String,
        /// What there is.
        range: String,
    },
    /// Who follows the archived log lacks log that the archive does not have, and has no more of what comes behind.
    #[error(
        "{0}; what comes behind it cannot be followed from the archive alone: make a new copy in an empty directory"
    )]
    Gap(Gap),
    /// Several histories are equally new.
    #[error("the archive has several histories, say which one is wanted: {histories}")]
    Ambiguous {
        /// Their last terms.
        histories: String,
    },
    /// There is something in the directory.
    #[error("{directory} is not empty ({file} is there): restore into a new directory")]
    NotEmpty {
        /// The directory.
        directory: String,
        /// A file in it.
        file: String,
    },
    /// A collection is under way, or has died less than a day ago.
    #[error(
        "objects of {place} are being removed since {since} and the backup cannot rely on what is there: try again when that is over; \
         if it has died, remove {object}"
    )]
    Collecting {
        /// The archive.
        place: String,
        /// Since when.
        since: LogTime,
        /// What says so.
        object: String,
    },
    /// The backup took so long that what it relied on may be gone.
    #[error(
        "the backup has taken longer than {hours} hours, and what it relied on may be gone: begin again, what was sent is there"
    )]
    TookTooLong {
        /// How long it may take.
        hours: u64,
    },
    /// While a backup was made, more log came than may be kept for it.
    #[error(
        "the backup was given up, as {bytes} bytes of log came while the archive took it, and {bytes_max} may be held for it: what was \
         sent is there, the next one goes on with it"
    )]
    HeldTooMuch {
        /// How much log came.
        bytes: u64,
        /// How much may.
        bytes_max: u64,
    },
    /// Nobody knows yet, behind a crash, whether what the database has may be shown: of a replica, whether its primary has published it; of a
    /// primary that is served, whether as many replicas have it as are asked for.
    #[error(
        "it is not known yet whether all that this database has may be shown: try again when its replicas are there, or its primary"
    )]
    Unconfirmed,
    /// The last checkpoint has what is not published, and a new one would have it, too.
    #[error(
        "the database has commits in its last checkpoint that it does not show yet, as they wait for replicas: try again when those have them"
    )]
    Unpublished,
    /// The database has tables that are spread over a cluster, and who makes the backup does not have their rows. There is no backup.
    #[error(
        "the rows of {tables} are spread over the nodes of a cluster, and not here: back it up while it is served as a node of the cluster, \
         or ask for a backup of row tables alone (`coeval backup --row-tables-alone`)"
    )]
    SpreadElsewhere {
        /// Their names.
        tables: String,
    },
    /// A node of the cluster does not give the rows of spread tables, or not in time. There is no backup.
    #[error(
        "the rows of tables that are spread over the cluster are not to be had: {0}; `coeval cluster status` says who does not answer, and \
         what was sent is there"
    )]
    Spread(String),
    /// The archiver is being stopped, or who waited for the archive [did so until now](crate::Archive::until).
    #[error("the archive is not waited for any more, as that was asked for")]
    Stopping,
    /// The database, or the directory that is restored into.
    #[error(transparent)]
    Store(#[from] StoreError),
}
